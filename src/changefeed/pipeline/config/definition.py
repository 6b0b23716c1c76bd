"""What a user writes: the pipeline's definition, checked.

The models are the validation, the JSON Schema for editors and the reference page. Names are kebab-case; Kafka's and
Flink CDC's own property names stay as they are. An unknown name is an error that shows the nearest known one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from changefeed.errors import ConfigError
from changefeed.pipeline.store.base import Keep
from changefeed.sources.kafka.pattern import topics_pattern
from changefeed.sources.kafka.properties import wrong_offsets
from changefeed.sources.kafka.uri import read_uri


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Section(BaseModel):
    """A part of the definition; immutable once read."""

    # By alias alone: a Python name, as `max_records_per_batch`, is an unknown name like any other.
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, hide_input_in_errors=True)


class ProtocolChoice(Section):
    """The protocol of the records, and its options by the producer's own names."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(description="One of `changefeed list`.")

    @property
    def options(self) -> dict[str, Any]:
        """The options as the protocol takes them."""
        return dict(self.model_extra or {})


class _Source(Section):
    protocol: ProtocolChoice = Field(description="Name of the protocol, or an object with `name` and its options.")
    max_records_per_batch: int = Field(
        default=50_000, ge=1, description="At most this many records are read before a step is applied."
    )

    @field_validator("protocol", mode="before", json_schema_input_type=str | ProtocolChoice)
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class FilesSource(_Source):
    """Record logs in a folder that may grow: `*.jsonl`, `*.jsonl.gz`, `*.jsonl.zst`, `*.parquet`."""

    type: Literal["files"]
    path: str = Field(
        description="A file, or a pattern such as `history/*.jsonl.gz`; relative to the definition. A log is known by its path: "
        "renamed, it is read again."
    )


class KafkaSource(_Source):
    """Topics of a Kafka cluster."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=_kebab)
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

    @classmethod
    def unknown(cls, names: Iterable[str]) -> list[str]:
        """Those of the names that are neither an option nor a property of the Kafka client, which begin with `kafka.`."""
        known = {field.alias for field in cls.model_fields.values()}
        return [name for name in names if name not in known and not name.startswith("kafka.")]

    @property
    def properties(self) -> dict[str, str]:
        """The `kafka.*` properties for the client."""
        return {name: str(value) for name, value in (self.model_extra or {}).items()}


class UriSource(Section):
    """What a TiCDC changefeed writes, by its sink URI as it is. Any name of a Kafka source may stand beside it, and wins."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=_kebab)
    uri: str = Field(
        pattern=r"^kafka(\+ssl)?://", description="`kafka://host:port/topic?protocol=…`, with the codec's options."
    )


def _of_uri(section: Any) -> Any:
    """The Kafka source that a URI stands for; every other section as it is."""
    if not isinstance(section, dict) or not isinstance(section.get("uri"), str):
        return section
    beside = {name: value for name, value in section.items() if name != "uri"}
    return {**read_uri(section["uri"]), **beside}


class DeltaSink(Section):
    """Delta tables under a folder: `<path>/<database>/<table>`."""

    type: Literal["delta"]
    path: str = Field(description="Folder or URL; relative to the definition.")
    irregular: Literal["null", "fail", "keep"] = Field(
        default="null",
        description="What to do with values a column cannot hold (zero dates): NULL; stop; or NULL and the text in `_irregular`.",
    )
    metadata_columns: list[Literal["_commit_ts", "_commit_time", "_op", "_position"]] = Field(
        default_factory=list, description="Columns to add that tell where a row's last change came from."
    )
    writer: Literal["native", "spark"] = Field(
        default="native",
        description="How rows are written. `native`: the data files of all tables in one Spark job, each table committed without "
        "Spark, where `path` is a local folder and the table is plain; `changefeed explain` says which are not. `spark`: every "
        "table by a SQL statement of its own.",
    )
    adopt: list[str] = Field(
        default_factory=list,
        description="Tables, as `shop.orders` or `shop.*`, that may lie in the sink before the pipeline: their rows stay, and "
        "changes go on top. They must have the columns that the pipeline would give them.",
    )

    def adopts(self, table: str) -> bool:
        """Whether a table of somebody else, by `database.table`, may be taken over."""
        return any(fnmatchcase(table, pattern) for pattern in self.adopt)

    @field_validator("path")
    @classmethod
    def _readable(cls, value: str) -> str:
        if re.match(r"(s3\w*://[^/]*|\w+://[^/@]*:[^/]*)@", value):
            raise ValueError(
                "takes no keys or passwords, for paths stand in logs and in what commands print: give them as the file "
                "system's own properties under `spark`, as `spark.hadoop.fs.s3a.secret.key: ${AWS_SECRET_ACCESS_KEY}`"
            )
        if found := re.search(r"%[0-9A-Fa-f]{2}", value):
            raise ValueError(
                f"readers to which every path is a URL take {found[0]!r} in {value} for another character: name the folder "
                "without it"
            )
        return value

    @field_validator("irregular", mode="before")
    @classmethod
    def _null(cls, value: Any) -> Any:
        """YAML has a value of its own for `null` without quotes."""
        return "null" if value is None else value


class Behaviour(Section):
    """How the pipeline applies changes."""

    name: str = Field(default="changefeed", pattern=r"^[A-Za-z0-9_.-]+$", description="Names the ledger's owner.")
    consistency: Literal["transaction", "key"] = Field(
        default="transaction",
        description="`transaction`: all tables move together from cut to cut; `key`: each batch at once, ordered per key.",
    )
    dead_letters: Literal["stop", "quarantine", "continue"] = Field(
        default="stop", description="After a record that cannot be decoded: stop; hold its table; or go on."
    )
    keyless: Literal["append", "inserts", "refuse"] = Field(
        default="append",
        description="Tables without a handle key: append their inserts, and stop at an update or delete; append `inserts` "
        "and pass over the rest; or refuse to run.",
    )
    exclude: list[str] = Field(
        default_factory=list,
        description="Tables to pass over, as `shop.audit` or `tmp.*`. It counts for a step that has begun, too.",
    )
    schema_change_behavior: Literal["evolve", "try_evolve", "lenient", "ignore", "exception"] = Field(
        default="evolve", alias="schema.change.behavior", description="What a schema change does to the sink's tables."
    )
    parallelism: int = Field(default=4, ge=1, le=64, description="How many tables are written at the same time.")
    trigger_interval: str = Field(
        default="1 second", description="How often to look for new records when following: `1 second`, `5 minutes`."
    )

    max_retries: int = Field(
        default=5,
        ge=0,
        description="How often to try again, without a step in between, after an error that may pass: brokers or a schema "
        "registry that are away, a sink that is throttled, an overloaded machine.",
    )
    retry_backoff: str = Field(
        default="1 second",
        description="How long to wait before the first of these; the wait doubles with each, up to a minute.",
    )

    keep_cuts: str = Field(
        default="all",
        description="Which cuts the ledger keeps, at least: `all`; a number of the newest, as `10000`; or those of a time, as "
        "`30 days`. Older ones are deleted a hundred at a time, and are not offered by `status` any more.",
    )

    @property
    def kept(self) -> Keep:
        """Which cuts the ledger keeps."""
        number, _, unit = self.keep_cuts.partition(" ")
        if self.keep_cuts == "all":
            return Keep()
        return Keep(age=timedelta(**{f"{unit.rstrip('s')}s": int(number)})) if unit else Keep(cuts=int(number))

    @field_validator("keep_cuts", mode="before", json_schema_input_type=str | int)
    @classmethod
    def _cuts(cls, value: Any) -> Any:
        """A number as YAML has it, too."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("keep_cuts")
    @classmethod
    def _all_or_some(cls, value: str) -> str:
        if not re.fullmatch(r"all|[1-9]\d{0,8}( (second|minute|hour|day)s?)?", value):
            raise ValueError(f"expected `all`, a number of cuts, or a time, as `30 days`, not {value!r}")
        return value

    def excludes(self, table: str) -> bool:
        """Whether a table, by `database.table`, is passed over."""
        return any(fnmatchcase(table, pattern) for pattern in self.exclude)

    @field_validator("trigger_interval", "retry_backoff")
    @classmethod
    def _interval(cls, value: str) -> str:
        if not re.fullmatch(r"\d+ (millisecond|second|minute|hour|day)s?", value):
            raise ValueError(f"expected a number and a unit, as `1 second` or `5 minutes`, not {value!r}")
        return value

    @model_validator(mode="after")
    def _together(self) -> Behaviour:
        if self.consistency == "key" and self.dead_letters == "quarantine":
            raise ValueError(
                "consistency `key` applies each batch at once and cannot hold a table back: use consistency `transaction`, "
                "or dead-letters `stop` or `continue`"
            )
        return self


_Sources = Annotated[FilesSource | KafkaSource, Field(discriminator="type")]


class Definition(Section):
    """A whole pipeline."""

    source: Annotated[_Sources, BeforeValidator(_of_uri, json_schema_input_type=_Sources | UriSource)]
    sink: DeltaSink
    pipeline: Behaviour = Field(default_factory=Behaviour)
    spark: dict[str, str] = Field(default_factory=dict, description="Spark configuration, passed on as it is.")

    @field_validator("spark", mode="before", json_schema_input_type=dict[str, str | int | float | bool])
    @classmethod
    def _texts(cls, value: Any) -> Any:
        """Numbers and booleans of YAML as Spark has them: `4`, `true`."""
        if not isinstance(value, dict):
            return value
        plain = (bool, int, float)
        return {k: str(v).lower() if isinstance(v, plain) else v for k, v in value.items()}
