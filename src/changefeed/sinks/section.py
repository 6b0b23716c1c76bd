"""The options that all table sinks, and all event sinks, have in the `sink` section of a definition.

Each sink declares its own options in `<sink>/section.py`, as `SECTION`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from changefeed.section import ProtocolChoice, Section, readable_path


def version_in_json(version: int | None, *, numbered: bool) -> int | str | None:
    """Returns a version of a table for JSON; see `SinkSection.numbered_versions`."""
    return version if numbered or version is None else str(version)


class SinkSection(Section):
    """The options of every table sink.

    Attributes:
        numbered_versions: whether versions of tables are numbers that count up. Otherwise they are ids of up to 64 bits, which
            JSON has as texts, because JavaScript would round them.
    """

    numbered_versions: ClassVar[bool] = True

    type: str
    path: str = Field(description="Folder or URL; relative to the definition.")
    irregular: Literal["null", "fail", "keep"] = Field(
        default="null",
        description="What to do with values that a column cannot hold, such as zero dates. `null`: write NULL. `fail`: stop the "
        "run. `keep`: write NULL, and keep the text in the column `_irregular`.",
    )
    metadata_columns: list[Literal["_commit_ts", "_commit_time", "_op", "_position"]] = Field(
        default_factory=list, description="Columns to add to every table, with data about a row's last change."
    )
    column_names: Literal["as-is", "escaped"] = Field(
        default="as-is",
        description="The names of columns. `as-is`: those of the upstream; a name with a character that the format does not have "
        "stops the run. `escaped`: such characters become `~` and two hexadecimal digits, as `unit~20price`. Set it before "
        "the first run.",
    )
    adopt: list[str] = Field(
        default_factory=list,
        description="Tables, as `shop.orders` or `shop.*`, that may exist in the sink before the pipeline: their rows stay, and "
        "changes go on top. They must have the columns that the pipeline would give them.",
    )

    def adopts(self, table: str) -> bool:
        """Whether the pipeline may take over a table, by `database.table`, that another program created."""
        return any(fnmatchcase(table, pattern) for pattern in self.adopt)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """The metadata columns that every table gets: `metadata_columns`, and `_irregular` if `irregular` is `keep`."""
        return (*self.metadata_columns, *(["_irregular"] if self.irregular == "keep" else []))

    def beside(self, folder: str) -> Self:
        """Returns the section for other tables of the same sink, for `changefeed repair --rebuild`.

        The rebuild writes these tables, and copies them with `Import`. A section with other options that decide where tables
        are, such as a file or a catalog, overrides this method: otherwise the rebuild would find the tables of the pipeline.

        Args:
            folder: a new folder below `path`, which is deleted afterwards. It becomes the `path` of the section.
        """
        return self.model_copy(update={"path": folder})

    @field_validator("path")
    @classmethod
    def _readable(cls, value: str) -> str:
        return readable_path(value)

    @field_validator("irregular", mode="before")
    @classmethod
    def _null(cls, value: Any) -> Any:
        """Accepts `null` without quotes, which YAML reads as a value of its own."""
        return "null" if value is None else value


class EventSinkSection(Section):
    """The options of every event sink."""

    type: str
    protocol: ProtocolChoice = Field(
        description="Name of the protocol in which changes are written, or an object with `name` and its options."
    )

    @field_validator("protocol", mode="before", json_schema_input_type=str | ProtocolChoice)
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return ProtocolChoice.named(value)
