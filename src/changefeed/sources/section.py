"""Sections of sources in a definition: the options of every source, and what the pipeline asks of a section.

Each source declares its own in `<source>/section.py`, as `SECTION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

from pydantic import Field, field_validator

from changefeed.section import ProtocolChoice, Section


class TextMask(Protocol):
    """A mask of texts; equal ones mask alike."""

    def text(self, value: str) -> str:
        """Returns the mask of a text."""
        ...


class ChangesSection(Section):
    """The options of every source; a source of changes needs no others.

    Attributes:
        shorthands: models of other ways to write the section; `expanded` brings them into this one.
        also: text appended to the error for an unknown name: other names that the section takes.
    """

    shorthands: ClassVar[tuple[type[Section], ...]] = ()
    also: ClassVar[str] = ""

    type: str
    max_records_per_batch: int = Field(
        default=200_000, ge=1, description="Maximum number of records to read before a step is applied."
    )

    @property
    def reads(self) -> str:
        """Description of what the source reads, for people."""
        raise NotImplementedError

    @classmethod
    def expanded(cls, written: dict[str, Any]) -> dict[str, Any]:
        """The section, with a shorthand replaced by the options it stands for.

        Raises:
            ConfigError: a shorthand of this source has an error.
        """
        return written

    @classmethod
    def describes(cls, written: Mapping[str, Any]) -> bool:
        """Whether a section, as written, belongs to this source."""
        return written.get("type") in cls.model_fields["type"].annotation.__args__  # type: ignore[union-attr]

    @classmethod
    def unknown(cls, names: Iterable[str]) -> list[str]:
        """The names that the section does not take, for sections that take more names than the model declares."""
        return []

    @classmethod
    def wrong(cls, written: Mapping[str, Any], *, of_events: bool) -> Iterator[tuple[str, str]]:
        """Names whose values cannot be right, with the reason, in addition to the model's checks; without the values.

        Args:
            written: the section, as written.
            of_events: whether the definition is of an event pipeline.
        """
        yield from ()

    def leaves_out(self, table: str) -> bool:
        """Whether the source has no rows of a table, by `database.table`, although it may have its schema changes."""
        return False

    def excludes_column(self, database: str, table: str, column: str) -> bool:
        """Whether rows of the source lack a column of a table because the section excludes it."""
        return False

    def column_mask(self, database: str, table: str, column: str) -> TextMask | None:
        """The mask that texts of a column have in rows of the source; None if they have none."""
        return None

    @property
    def has_all_rows(self) -> bool:
        """Whether the source has every row of the tables that it does not leave out: one without rows is empty."""
        return False

    def without_topic(self, topic: str) -> str | None:
        """The way in which a pipeline that has read a topic goes on without it, for people; None if there is none."""
        return None

    def doubt(self) -> str | None:
        """A warning about options that are allowed but probably not intended; None if there are none."""
        return None


class SourceSection(ChangesSection):
    """The options of every source of records."""

    protocol: ProtocolChoice = Field(description="Name of the protocol, or an object with `name` and its options.")

    @field_validator("protocol", mode="before", json_schema_input_type=str | ProtocolChoice)
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return ProtocolChoice.named(value)
