"""What a definition says of a source: the names that every source has, and what the pipeline asks of a section.

Each source declares its own in `<source>/section.py`, as `SECTION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, field_validator

from changefeed.section import Section


class ProtocolChoice(Section):
    """The protocol of the records, and its options by the producer's own names."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(description="One of `changefeed list`.")

    @property
    def options(self) -> dict[str, Any]:
        """The options as the protocol takes them."""
        return dict(self.model_extra or {})


class SourceSection(Section):
    """What every source that gives records has.

    Attributes:
        shorthands: models of other ways to write the section; `expanded` brings them into this one.
        also: what to add where an unknown name is told of: which other names the section takes.
    """

    shorthands: ClassVar[tuple[type[Section], ...]] = ()
    also: ClassVar[str] = ""

    type: str
    protocol: ProtocolChoice = Field(description="Name of the protocol, or an object with `name` and its options.")
    max_records_per_batch: int = Field(
        default=50_000, ge=1, description="At most this many records are read before a step is applied."
    )

    @field_validator("protocol", mode="before", json_schema_input_type=str | ProtocolChoice)
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def reads(self) -> str:
        """What the source reads, for people."""
        raise NotImplementedError

    @classmethod
    def expanded(cls, said: dict[str, Any]) -> dict[str, Any]:
        """The section that a shorthand stands for; any other one as it is.

        Raises:
            ConfigError: it is a shorthand of this source, and wrong.
        """
        return said

    @classmethod
    def describes(cls, said: Mapping[str, Any]) -> bool:
        """Whether a section, as it was written, is about this source."""
        return said.get("type") in cls.model_fields["type"].annotation.__args__  # type: ignore[union-attr]

    @classmethod
    def unknown(cls, names: Iterable[str]) -> list[str]:
        """Those of the names that the section does not take, where it takes more than the model declares."""
        return []

    @classmethod
    def wrong(cls, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Names whose values cannot be right, and why, beside what the model finds; values are not repeated."""
        yield from ()

    def doubt(self) -> str | None:
        """What in the section can hardly be meant, though it may be; None where there is nothing."""
        return None
