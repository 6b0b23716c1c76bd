"""The contract of a table sink: tables that a pipeline writes with one atomic commit a write.

Theory of operation:

Rule 1. A *write* is a value (`Create`, `Upsert` …): what to do to the table at one path. It holds no SQL. The sink has its
own dialect, its own types and its own way to commit.
Rule 2. Every commit carries, atomically with the data, the *write id* of the pipeline that made it: epoch, step, number.
Write ids of one pipeline only grow. The sink keeps the last one of each pipeline with the table, and reports it in
`snapshot`. A pipeline is known by its *owner* text, which no other pipeline has.
Rule 3. `apply` with a write id at or below the table's last one changes nothing: the write has been made. If the last one
has a higher epoch, `apply` raises `FencedError`, whose message names it as `epoch 2`. Of two writers that commit at the same
time, at most one succeeds; the other raises.
Rule 4. An answer can be lost: `apply` may raise although the commit was made. The pipeline then asks `snapshot`.
Rule 5. Versions of a table are whole numbers, from 0, that grow by one with each commit, of whomever. Old versions stay
readable until somebody deletes their files: a published cut is a version of each table. A write in place of any table that is
there (`Create`, `Load`, `Copy`, `Import`) makes the next version, too, and keeps the write ids of all pipelines.
Rule 6. A table is plain: any reader of the format can open it, unless the definition asks for a feature that not every
reader has. The sink adds no column that the definition does not name.

The module of a sink has `SECTION`, the model of its section (derived from `sinks.section.SinkSection`), and two functions:
`open_sink(section, session)`, and `open_letters(path, session)` for the pipeline's dead letters (`letters.py`). The session is
None in commands that need no Spark. For sinks with Spark's types, `frames.types` has the types, and `sql.py` conversions and SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from changefeed.frames.types import SinkType
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.stages.changes import ChunkReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


class WriteId(msgspec.Struct, frozen=True, order=True):
    """Identifies one write of one pipeline: the run's epoch, the step, and the write's number at its path in that step."""

    epoch: int
    step: int
    number: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}, write {self.number}"


# The values of a column after a `Rewrite`, each under the new column's type.


class Null(msgspec.Struct, frozen=True, tag="null", tag_field="kind"):
    """NULL in every row."""


class Constant(msgspec.Struct, frozen=True, tag="constant", tag_field="kind"):
    """One value in every row: canonical text, or bytes as `{"base64": …}`."""

    value: str | dict[str, str]


class ConvertedFrom(msgspec.Struct, frozen=True, tag="converted", tag_field="kind"):
    """The old column's values, converted from its type; `TypeMap.conversion` is not None for the two types.

    Attributes:
        column: name of the old column.
        type: the old column's type.
        widening: rows have widened the type, not DDL: every value is kept, as text if need be.
    """

    column: str
    type: ColumnType
    widening: bool = False


Expression: TypeAlias = Null | Constant | ConvertedFrom


class IrregularUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a `Rewrite` on `_irregular`, the map of column names to texts.

    Attributes:
        dropped: names to leave out.
        renamed: old name -> new name.
        added: new column -> its text in every row.
    """

    dropped: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    added: dict[str, str] = {}


class _Write(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One write to one table.

    Attributes:
        path: of the table, below the sink's root: `<database>/<table>`.
        number: counts the writes to `path` in a step, from 1.
        table: the table's columns and keys after the write.
    """

    path: str
    number: int
    table: Table


class Create(_Write, frozen=True, tag=True, kw_only=True):
    """Makes an empty table, in place of any table that is there."""


class Load(_Write, frozen=True, tag=True, kw_only=True):
    """Makes a table that holds the changes' rows and nothing else, in place of any table that is there."""


class Upsert(_Write, frozen=True, tag=True, kw_only=True):
    """Updates, inserts and deletes rows by key."""


class Append(_Write, frozen=True, tag=True, kw_only=True):
    """Adds the changes' rows to a table without a key."""


class AddColumns(_Write, frozen=True, tag=True, kw_only=True):
    """Adds the columns that `table` has and the sink's table lacks, at their places, NULL in every row."""


class Rewrite(_Write, frozen=True, tag=True, kw_only=True):
    """Replaces every row.

    Attributes:
        expressions: the values of each column of `table`, in order.
        texts: what becomes of `_irregular`; None leaves it as it is. Other metadata columns keep their values.
    """

    expressions: tuple[Expression, ...]
    texts: IrregularUpdate | None = None


class Copy(_Write, frozen=True, tag=True, kw_only=True):
    """Makes the table hold what the table at the path `source` holds, in place of any table that is there."""

    source: str


class Touch(_Write, frozen=True, tag=True, kw_only=True):
    """Commits the write id and changes nothing else, neither rows nor columns, whatever columns `table` has.

    It takes over a table that somebody else has made, and fences older runs: from here on rule 3 holds against them.
    """


class Restore(_Write, frozen=True, tag=True, kw_only=True):
    """Makes the table hold what it held at a version.

    Attributes:
        version: its files must still be there.
    """

    version: int


class Import(_Write, frozen=True, tag=True, kw_only=True):
    """Makes the table hold what a table of another sink of the same kind holds.

    Attributes:
        source: the table's whole location there.
    """

    source: str


Write: TypeAlias = Create | Load | Upsert | Append | AddColumns | Rewrite | Copy | Touch | Restore | Import


@dataclass(frozen=True, slots=True)
class Chunked:
    """The changes of one write before they are typed, for a sink that types them in tasks of its own.

    Attributes:
        origin: equal for writes whose `chunks` are the same DataFrame.
        chunks: session -> the chunks of many tables, with the columns of `frames.chunks`.
        source: database and table of this write's chunks.
        reading: types their rows.
        last_reading: of a table without a key: see `stages.latest.last_reading`.
        folders: whole paths of the folders that they lie in, where these are on this machine.
    """

    origin: tuple[str, ...]
    chunks: Callable[[SparkSession], DataFrame]
    source: tuple[str, str]
    reading: ChunkReader
    last_reading: bool
    folders: tuple[str, ...] | None = None


class Changes(Protocol):
    """The changes that a `Load`, `Upsert` or `Append` applies: one row a key, or every row of a table without a key.

    A sink takes one of three forms: `frame`, `batches`, or `chunked`, of which it counts the rows itself. Columns of the first
    two, so that no upstream name can collide with an added name:

        c0, c1, …      the columns of the write's table by position, in the sink's types
        _deleted       boolean: the row is deleted; only the key's columns are set
        _has           list of boolean, by column: whether the change carries it. NULL: all of them
        _irregular     map of column name to text: values that the type cannot hold
        _ts, _time, _op, _topic, _partition, _offset, _index      for the metadata columns

    Metadata columns have the types in `METADATA`. In a row that a change sets, `_commit_ts` is `_ts`, `_commit_time` is `_time`,
    `_op` is `_op`, and `_position` is `_topic:_partition:_offset:_index` without the parts that are NULL. `_irregular` is that of
    the change; columns that a partial change does not carry keep their texts.
    """

    @property
    def rows(self) -> int:
        """Maximum number of row changes, before the last one of each key is chosen."""
        ...

    @property
    def partial(self) -> bool:
        """Whether some rows do not carry every column: `_has` is set, and columns that it lacks keep their values."""
        ...

    @property
    def chunked(self) -> Chunked | None:
        """The location of the chunks, for a sink that reads them itself and calls `applied`; None if it must use another form."""
        ...

    def applied(self, read: int) -> None:
        """Stores the number of row changes that the sink read from `chunked` for its commit."""
        ...

    def frame(self, spark: SparkSession) -> DataFrame:
        """The changes as a DataFrame of this session."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes as Arrow record batches."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of one `apply`."""

    write: Write
    changes: Changes | None
    write_id: WriteId
    note: str


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The newest state of a table.

    Attributes:
        version: of the newest commit.
        columns: their names, in order, metadata columns included.
        write_id: of the last write of the sink's owner; None if it has never written here.
        owners: every pipeline that has written here.
    """

    version: int
    columns: tuple[str, ...]
    write_id: WriteId | None
    owners: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table.

    Attributes:
        version: the version that it made.
        operation: the format's own name for it, for people.
        write_id: of the sink's owner; None for a commit of anybody else.
        changes_table: rows, columns or table features may differ after it. Compaction replaces files and changes no row.
    """

    version: int
    operation: str
    write_id: WriteId | None
    changes_table: bool


class TypeMap(Protocol):
    """The sink's types of MySQL columns.

    A sink may convert less than others: the pipeline asks `conversion` before it plans a `Rewrite`. The definition's option
    `schema.change.behavior` decides about a change of type that the sink cannot follow.
    """

    def sink_type(self, type: ColumnType) -> SinkType:
        """The type that a column has downstream, and what it does not keep."""
        ...

    def conversion(
        self, old: ColumnType, new: ColumnType, *, widening: bool = False
    ) -> Literal["none", "rewrite"] | None:
        """The effect of a change of a column's type on existing rows.

        Args:
            old: the type before.
            new: the type after.
            widening: rows have widened the type, not DDL: see `ConvertedFrom`.

        Returns:
            `none`: the sink's type and its values stay. `rewrite`: the sink can convert the values as MySQL does. None: what
            MySQL converted the values to cannot be derived.
        """
        ...


class TableSink(Protocol):
    """Tables below one root, written by one pipeline. Safe to use from several threads, for different paths.

    Methods whose docstrings state that they need no Spark work on a sink that was opened without a session, for commands that
    should answer at once.

    Raises, beside what the methods name:
        SinkError: a table's log or files cannot be read or written; `transient` if another try may succeed.
    """

    @property
    def types(self) -> TypeMap:
        """The sink's types."""
        ...

    @property
    def metadata_columns(self) -> tuple[str, ...]:
        """The names in `METADATA_COLUMNS` that every table of this sink gets."""
        ...

    def owned_by(self, owner: str) -> TableSink:
        """The same sink for the pipeline with this owner text; see rule 2."""
        ...

    def location(self, path: str) -> str:
        """The location of the table at a path, for messages: `s3a://lake/shop/orders`."""
        ...

    def refusal(self, table: Table) -> str | None:
        """Why the sink cannot hold a table with these columns, and the fix; None if it can. Needs no Spark.

        A column with the name of a metadata column of this sink, in whatever case, is one reason.
        """
        ...

    def fallback(self, path: str) -> str | None:
        """Why rows are written to the table at the path in the sink's slower way; None if they are not. Needs no Spark.

        A table that is not there yet is taken for one that the sink makes.
        """
        ...

    def write_mode(self, path: str) -> str:
        """The way in which changes by key are merged into the table: `copy-on-write` or `merge-on-read`. Needs no Spark.

        A mode that the definition does not ask for has the reason in brackets. Empty for a sink with one way.
        """
        ...

    def has_written(self, path: str) -> bool | None:
        """Whether the owner has written the table at the path; None if there is no table. Needs no Spark."""
        ...

    def tables(self) -> Iterator[str]:
        """The paths of all tables below the root, of whomever."""
        ...

    def snapshot(self, path: str) -> TableSnapshot | None:
        """The newest state of the table at the path; None if there is none."""
        ...

    def is_newest(self, path: str, version: int) -> bool:
        """Whether the table is at this version. Cheaper than `snapshot` where the format allows it."""
        ...

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        """The commits with after < version <= through, oldest first.

        Raises:
            SinkError: one of them is missing or damaged.
        """
        ...

    def damaged_files(self, path: str, version: int) -> list[str]:
        """Data files of a version that are missing, or whose size differs from the table's log."""
        ...

    def has_files(self, path: str) -> bool:
        """Whether anything lies at the path, a table or not."""
        ...

    def differences(self, path: str, table: Table) -> list[str]:
        """The differences between the columns of the table at the path and those that `table` would get.

        Returns:
            A phrase for each column, which begins with its name: those of `table` in its order, then those it lacks.
        """
        ...

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Does some of the work of several writes ahead of their commits, together. It commits nothing.

        `apply` with the same write and write id follows for each of the jobs, or the run ends. A sink that has nothing to
        gain from it does nothing here.

        Args:
            jobs: of different paths.

        Raises:
            SinkError: as `apply`.
        """
        ...

    def apply(self, write: Write, changes: Changes | None, write_id: WriteId, note: str) -> None:
        """Makes one write, in one commit. See rules 2 to 4.

        Args:
            write: what to do.
            changes: for `Load`, `Upsert` and `Append`.
            write_id: higher than that of every earlier write of this pipeline to the path.
            note: JSON about the commit, for people; kept in the commit if the format has a place for it.

        Raises:
            FencedError: a newer run of the pipeline writes the table.
            SinkError: the table is not what the pipeline made it, or the commit is not in its log.
        """
        ...
