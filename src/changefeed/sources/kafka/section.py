"""`source: {type: kafka}`, and its shorthand, the sink URI of a TiCDC changefeed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from changefeed.errors import ConfigError
from changefeed.section import Section, kebab
from changefeed.sources.kafka.pattern import topics_pattern
from changefeed.sources.kafka.properties import unknown_properties, wrong_offsets, wrong_properties
from changefeed.sources.kafka.uri import read_uri
from changefeed.sources.section import SourceSection


class UriSource(Section):
    """The topic that a TiCDC changefeed writes, by its sink URI. Options of a Kafka source may be added, and win."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=kebab)
    uri: str = Field(
        pattern=r"^kafka(\+ssl)?://", description="`kafka://host:port/topic?protocol=…`, with the codec's options."
    )


class KafkaSource(SourceSection):
    """Topics of a Kafka cluster."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=kebab)
    shorthands = (UriSource,)
    also = "; properties of the Kafka client start with `kafka.`"

    type: Literal["kafka"]
    servers: str = Field(description="Bootstrap servers, `host:port,…`.")
    topics: list[str] | None = Field(default=None, description="The topics, by name.")
    topics_pattern: str | None = Field(
        default=None, description="The topics, by a Java regular expression that matches their whole names."
    )
    starting_offsets: str = Field(
        default="earliest",
        description="`earliest`, `latest` or Spark's JSON, for a pipeline without a ledger yet. Topics and partitions that are "
        "new later are read from their first record.",
    )
    removed_topics: Literal["stop", "continue"] = Field(
        default="stop",
        description="When a topic that was read is deleted, created again or taken out of the definition: stop; or go on "
        "without it, and read a topic that was created again from its first record.",
    )

    @field_validator("topics_pattern")
    @classmethod
    def _is_pattern(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                topics_pattern(value)
            except ConfigError as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("starting_offsets")
    @classmethod
    def _offsets(cls, value: str) -> str:
        if why := wrong_offsets(value):
            raise ValueError(why)
        return value

    @model_validator(mode="after")
    def _checked(self) -> KafkaSource:
        if (self.topics is None) == (self.topics_pattern is None):
            raise ValueError("give either `topics` or `topics-pattern`")
        return self

    @property
    def reads(self) -> str:
        """See `SourceSection`."""
        return f"{', '.join(self.topics) if self.topics else self.topics_pattern} at {self.servers}"

    @classmethod
    def expanded(cls, written: dict[str, Any]) -> dict[str, Any]:
        """The section that a TiCDC sink URI stands for; options beside the URI win."""
        if not (cls.describes(written) and isinstance(written.get("uri"), str)):
            return written
        beside = {name: value for name, value in written.items() if name != "uri"}
        return {**read_uri(written["uri"]), **beside}

    @classmethod
    def describes(cls, written: Mapping[str, Any]) -> bool:
        """See `SourceSection`."""
        return written["type"] == "kafka" if "type" in written else "uri" in written

    @classmethod
    def unknown(cls, names: Iterable[str]) -> list[str]:
        """Names that are neither an option nor a property of the Kafka client (`kafka.…`)."""
        known = {"uri", *(field.alias for field in cls.model_fields.values())}
        return [name for name in names if name not in known and not name.startswith("kafka.")]

    @classmethod
    def wrong(cls, written: Mapping[str, Any], *, of_events: bool) -> Iterator[tuple[str, str]]:
        """See `SourceSection`."""
        return wrong_properties(written)

    def without_topic(self, topic: str) -> str:
        """See `ChangesSection`."""
        option = "topics-pattern" if self.topics is None else "topics"
        return f"take {topic} out of source.{option}, and set source.removed-topics to `continue`"

    def doubt(self) -> str | None:
        """See `SourceSection`."""
        unknown = unknown_properties(self.model_extra or {})
        if not unknown:
            return None
        return f"the Kafka client has no property {', '.join(unknown)}, and ignores it"

    @property
    def properties(self) -> dict[str, str]:
        """The `kafka.*` properties for the client."""
        return {name: str(value) for name, value in (self.model_extra or {}).items()}


SECTION = KafkaSource
