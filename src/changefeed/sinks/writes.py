"""The writes of the contract in `base.py`, as values: what to do to one table, its write id, and its metadata columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec
import pyarrow as pa

from changefeed.frames.retype import UNKNOWN, Details
from changefeed.frames.types import SinkType
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType

IRREGULAR = "_irregular"
# Columns that a definition may add to every table, in this order, with their types.
METADATA: dict[str, SinkType] = {
    "_commit_ts": SinkType("bigint", pa.int64()),
    "_commit_time": SinkType("timestamp", pa.timestamp("us", tz="UTC")),
    "_op": SinkType("string", pa.string()),
    "_position": SinkType("string", pa.string()),
    IRREGULAR: SinkType("map<string,string>", pa.map_(pa.string(), pa.string())),
}
METADATA_COLUMNS = tuple(METADATA)


def metadata_clash(name: str, metadata_columns: Iterable[str]) -> str | None:
    """Returns why a table with metadata columns cannot have a column of this name, and the fix; None if it can."""
    clash = next((other for other in metadata_columns if other.lower() == name.lower()), None)
    if clash is None:
        return None
    fix = "set sink.irregular to `null` or `fail`" if clash == IRREGULAR else "leave it out of sink.metadata-columns"
    return f"column {name!r} has the name of a metadata column: {fix}"


class WriteId(msgspec.Struct, frozen=True, order=True):
    """Identifies one write of one pipeline: the run's epoch, the step, and the write's number at its path in that step."""

    epoch: int
    step: int
    number: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}, write {self.number}"


# The values of a column after a `Rewrite`, each under the new column's type.


class Null(msgspec.Struct, frozen=True, tag="null", tag_field="kind"):
    """The expression NULL: the column is NULL in every row."""


class Constant(msgspec.Struct, frozen=True, tag="constant", tag_field="kind"):
    """One value in every row, as text for the new column's type; bytes are `{"base64": …}`.

    `-12`, `12.50`, `1e+300`, `2026-01-31`, `2026-01-31 08:00:00.5`, a `timestamp`
    `2026-01-31T08:00:00Z`. `expressions.constant` reads them all.
    """

    value: str | dict[str, str]


class ConvertedFrom(msgspec.Struct, frozen=True, tag="converted", tag_field="kind"):
    """The old column's values, converted from its type; `TypeMap.conversion` is not None for the two types.

    Attributes:
        column: name of the old column.
        type: the old column's type.
        widening: rows have widened the type, not DDL: every value is kept, as text if need be.
        details: what else the conversion depends on.
        null: the value that NULL becomes, as in `Constant`; None keeps NULL.
    """

    column: str
    type: ColumnType
    widening: bool = False
    details: Details = UNKNOWN
    null: str | dict[str, str] | None = None


Expression: TypeAlias = Null | Constant | ConvertedFrom


class IrregularUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a `Rewrite` on `_irregular`, the map of column names to texts.

    Attributes:
        dropped: names to remove.
        renamed: old name -> new name.
        added: new column -> its text in every row.
        nulls: column -> its text in the rows in which it is NULL and has no text.
    """

    dropped: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    added: dict[str, str] = {}
    nulls: dict[str, str] = {}


class _Write(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One write to one table.

    Attributes:
        path: the table's path below the sink's root: `<database>/<table>`.
        number: number of the write among those to `path` in the step, from 1.
        table: the table's columns and keys after the write.
    """

    path: str
    number: int
    table: Table


class Create(_Write, frozen=True, tag=True, kw_only=True):
    """Creates an empty table; replaces an existing table."""


class Load(_Write, frozen=True, tag=True, kw_only=True):
    """Creates a table with the rows of the changes; replaces an existing table."""


class Upsert(_Write, frozen=True, tag=True, kw_only=True):
    """Updates, inserts and deletes rows by key."""


class Append(_Write, frozen=True, tag=True, kw_only=True):
    """Adds the changes' rows to a table without a key."""


class AddColumns(_Write, frozen=True, tag=True, kw_only=True):
    """Adds the columns of `table` that the sink's table lacks, at their places, with NULL in every row."""


class Rewrite(_Write, frozen=True, tag=True, kw_only=True):
    """Rewrites all rows of a table, with new values computed from the old ones.

    Attributes:
        expressions: the new values of each column of `table`, in order.
        texts: the change of `_irregular`; None leaves it unchanged. Other metadata columns keep their values.
    """

    expressions: tuple[Expression, ...]
    texts: IrregularUpdate | None = None


class Copy(_Write, frozen=True, tag=True, kw_only=True):
    """Copies the columns and rows of the table at the path `source`; replaces an existing table."""

    source: str


class Touch(_Write, frozen=True, tag=True, kw_only=True):
    """Commits only the write id: changes neither rows nor columns, whatever columns `table` has.

    Takes over a table that another program has created, and fences older runs: from then on rule 3 applies to them.
    """


class Restore(_Write, frozen=True, tag=True, kw_only=True):
    """Restores the columns and rows that the table had at a revision, whose files must still exist."""

    revision: int


class Import(_Write, frozen=True, tag=True, kw_only=True):
    """Copies the columns and rows of a table of another sink of the same kind.

    Attributes:
        source: the `location` of that table in the other sink, which was opened with `SinkSection.beside`.
    """

    source: str


Write: TypeAlias = Create | Load | Upsert | Append | AddColumns | Rewrite | Copy | Touch | Restore | Import
