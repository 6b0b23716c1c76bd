"""The contract of a table sink: tables that a pipeline writes, with one atomic commit per write.

Theory of operation:

Rule 1. A *write* is a value of `writes.py` (`Create`, `Upsert` …): what to do to the table at one path. It contains no SQL. The
sink has its own dialect, its own types and its own way to commit.
Rule 2. Every commit carries, atomically with the data, the *write id* of the pipeline that made it: epoch, step, number.
Write ids of one pipeline only grow. The sink keeps the last one of each pipeline with the table, and reports it in
`snapshot`. A pipeline is known by its *owner* text, which no other pipeline has.
Rule 3. A write is prepared, then applied. `apply` with a write id at or below the table's last one changes nothing: the write
has been made. If the last one has a higher epoch, `apply` raises `FencedError`, whose message names it as `epoch 2`. Of two
writers that commit at the same time, at most one succeeds; the other raises.
Rule 4. An answer can be lost: `apply` may raise although the commit was made. The pipeline then calls `snapshot`.
Rule 5. Each commit, also of other writers, makes a *revision* of the table: an integer from 0 on by which the format finds that
state again, such as the number of a log's entry, or a random id; -1 stands for no table. Revisions have no order outside of their
sink: compare them for equality, and ask `distance` and `commits` which one led to which. Old revisions stay readable until their
files are deleted: a published cut is a revision of each table, which readers know as a version. A write in place of any table
that exists (`Create`, `Load`, `Copy`, `Import`) makes a revision after the table's last one, too, and keeps the write ids of all
pipelines.
Rule 6. A table is plain: any reader of the format can open it, unless the definition asks for a feature that not every
reader has. The sink adds no column that the definition does not name.
Rule 7. A table is named by its *path*, `<database>/<table>`, with characters escaped that folders cannot have
(`pipeline.planning.table_path`). The sink decides where that table is: in a folder, or under a name in a database. `location` is
that place as a text that no other table has, also none of another root: it stands in messages, and in `Import`.
Rule 8. `Create`, `Load`, `Copy` and `Import` make a table, or replace one with any columns. The other writes change a table that
exists and that this pipeline has written or touched; where there is none, they raise SinkError and create nothing.
Rule 9. Values come in the types of `frames.types.sink_type`, Spark's, whatever types the sink has: a sink with other types
converts them. `TypeMap.sink_type` describes the sink's own types to people.
Rule 10. A sink raises SinkError for what its user or its storage can mend; any other exception is reported as a defect.

The module of a sink has `SECTION`, the model of its section (derived from `sinks.section.SinkSection`), and the function
`open_sink(section, session, folder)`. The session is None in commands that need no Spark; the folder is that at `section.path`,
None if only Spark can reach it. Every table gets the metadata columns in `section.added_columns`. `section.path` is a folder
even if the tables are in another place: ledger, pending changes and dead letters are in `<path>/_changefeed`, unless the
definition has `pipeline.folder`. A repair opens a second sink with `section.beside(folder)` to rebuild tables there.

A sink with Spark's types uses `frames.retype` for conversions and `sql.py` for SQL; `apply/` turns changes into Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa

from changefeed.frames.retype import UNKNOWN, Details
from changefeed.frames.types import SinkType
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.sinks.writes import Write, WriteId
from changefeed.stages.changes import ChunkReader
from changefeed.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Chunked:
    """The changes of one write as chunks, for a sink that converts them to rows in its own tasks.

    Attributes:
        origin: equal for writes whose `chunks` are the same DataFrame.
        chunks: session -> the chunks of many tables, with the columns of `frames.chunks`.
        source: database and table of this write's chunks.
        reading: converts the chunks to typed rows.
        last_reading: for a table without a key: see `stages.latest.last_reading`.
        store: the folder of the chunks' folders; None if only Spark can read them. Their files are named `part-…`.
        folders: names of these folders.
        final_states: see `stages.latest`.
    """

    origin: tuple[str, ...]
    chunks: Callable[[SparkSession], DataFrame]
    source: tuple[str, str]
    reading: ChunkReader
    last_reading: bool
    store: Folder | None = None
    folders: tuple[str, ...] = ()
    final_states: bool = False


class Changes(Protocol):
    """The changes that a `Load`, `Upsert` or `Append` applies: one row per key, or every row of a table without a key.

    A sink takes one of three forms: `frame`, `batches`, or `chunked`, of which it counts the rows itself. There may be any number
    of batches; a key is in one row of all of them. `frame` and `batches` have these columns; the names cannot collide with
    upstream names:

        c0, c1, …      the columns of the write's table by position, in the types of `frames.types.sink_type`
        _deleted       boolean: the row is deleted; only the key's columns are set. `Load` and `Append` leave such rows out
        _has           list of boolean, by column: whether the change carries it; NULL: it carries all columns
        _irregular     map of column name to text: values that the type cannot hold
        _ts, _time, _op, _topic, _partition, _offset, _index      for the metadata columns
        _half          for the order of changes, which a sink does not need: see `stages.latest`

    Metadata columns have the types in `writes.METADATA`. In a row that a change sets, `_commit_ts` is `_ts`, `_commit_time` is
    `_time`, `_op` is `_op`, and `_position` is `_topic:_partition:_offset:_index` without the parts that are NULL. `_irregular`
    is that of the change; columns that a partial change does not carry keep their texts.
    """

    @property
    def least(self) -> int:
        """Minimum number of row changes, before they are reduced to the last one of each key."""
        ...

    @property
    def rows(self) -> int:
        """Maximum number of row changes, before they are reduced to the last one of each key."""
        ...

    @property
    def read(self) -> int:
        """Number of row changes that have been read from `frame` or `batches`."""
        ...

    @property
    def partial(self) -> bool:
        """Whether some rows do not carry every column: then `_has` is set, and the other columns keep their values."""
        ...

    @property
    def chunked(self) -> Chunked | None:
        """The chunks, for a sink that reads and counts them itself; None: use `frame` or `batches`."""
        ...

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the changes as a DataFrame of this session."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Returns the changes as Arrow record batches."""
        ...


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write that the pipeline asks for.

    Attributes:
        write: the write to make.
        changes: the changes, for `Load`, `Upsert` and `Append`.
        write_id: the write id; higher than that of every earlier write of this pipeline to the path.
        note: JSON about the commit, for people; stored in the commit if the format allows it.
        revision: the table's revision when the caller last looked, in this step; -1 for no table, None if it has not looked.
            `prepare` may use what the sink read then, unless it has written to the table since: the commit fails if
            somebody else has.
    """

    write: Write
    changes: Changes | None
    write_id: WriteId
    note: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A request, ready to be committed. A sink that prepares something derives its own class, which has what it prepared."""

    request: WriteRequest


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of `apply`.

    Attributes:
        read: number of row changes that the sink has read from `Changes.chunked`; None if `Changes` has counted them.
        files, bytes: number and size of the data files that it has added, for people; None if it does not know.
    """

    read: int | None = None
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The newest state of a table.

    Attributes:
        revision: revision of the newest commit.
        columns: names of the columns in order, including metadata columns.
        write_id: write id of the last write by the sink's owner; None if it has never written the table.
        owners: owner texts of all pipelines that have written the table.
    """

    revision: int
    columns: tuple[str, ...]
    write_id: WriteId | None
    owners: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit in a table's log.

    Attributes:
        revision: the table's revision that the commit created.
        operation: the table format's name for the operation, for people.
        write_id: the write id, if the sink's owner made the commit; otherwise None.
        changes_table: whether rows, columns or table features may differ after it. Compaction changes no row.
    """

    revision: int
    operation: str
    write_id: WriteId | None
    changes_table: bool


class TypeMap(Protocol):
    """The types that a sink uses for MySQL columns.

    A sink may convert less than others: the pipeline calls `conversion` before it plans a `Rewrite`. The definition's option
    `schema.change.behavior` decides about a change of type that the sink cannot follow.
    """

    def sink_type(self, type: ColumnType) -> SinkType:
        """Returns the sink's type for a MySQL type, and what it does not keep; for people, see rule 9."""
        ...

    def conversion(
        self, old: ColumnType, new: ColumnType, *, widening: bool = False, details: Details = UNKNOWN
    ) -> Literal["none", "rewrite"] | None:
        """Returns the effect on existing rows of a change of a column's type.

        Args:
            old: the MySQL type before the change.
            new: the MySQL type after the change.
            widening: whether rows have widened the type, not DDL: see `ConvertedFrom`.
            details: what else the conversion depends on.

        Returns:
            `none`: the sink's type and values do not change, as for two equal types. `rewrite`: the sink can convert the values
            as MySQL does, or, with `widening`, without loss. None: it cannot. After DDL, the
            option `schema.change.behavior` then decides about the column; with `widening`, existing rows become NULL in it. If
            rows have widened the type, the run ends.
        """
        ...


class TableSink(Protocol):
    """Tables below one root, written by one pipeline. May be used from several threads at once, for different paths.

    Methods that need no Spark, according to their docstrings, also work on a sink without a session, for commands that should
    answer quickly.

    Raises, in addition to the errors of each method:
        SinkError: a table's log or files cannot be read or written; `transient` if another try may succeed.
    """

    @property
    def types(self) -> TypeMap:
        """The sink's types."""
        ...

    @property
    def metadata_columns(self) -> tuple[str, ...]:
        """The columns of `writes.METADATA_COLUMNS` that every table of this sink gets: `SinkSection.added_columns`."""
        ...

    @property
    def needs_session(self) -> bool:
        """Whether `snapshot`, `is_newest`, `commits` and `damaged_files` need a session."""
        ...

    def owned_by(self, owner: str) -> TableSink:
        """Returns the same sink for the pipeline with this owner text; see rule 2."""
        ...

    def location(self, path: str) -> str:
        """Returns the location of the table at a path, see rule 7: `s3a://lake/shop/orders`, `shop.db#shop/orders`."""
        ...

    def refusal(self, table: Table, *, exists: bool = False) -> str | None:
        """Returns why the sink cannot have a table with these columns, and the fix; None if it can. Needs no Spark.

        A column with the name of a metadata column of this sink, in upper or lower case, is one reason.

        Args:
            table: the columns and keys.
            exists: whether the table is there, and gets these columns; options for new tables are not looked at then.
        """
        ...

    def fallback(self, path: str) -> str | None:
        """Returns why rows of the table at the path are written in a slower way; None if they are not. Needs no Spark.

        If the table does not exist yet, the answer is for a table that the sink creates.
        """
        ...

    def write_mode(self, path: str) -> str:
        """Returns how changes are merged into the table: `copy-on-write` or `merge-on-read`. Needs no Spark.

        If this is not the mode in the definition, the reason follows in brackets. Empty for a sink with only one way.
        """
        ...

    def partitions(self, path: str, table: Table) -> tuple[str, ...]:
        """Returns the fields by which the rows of the table at the path are divided, for people. Needs no Spark.

        If the table does not exist yet, the answer is for a table with these columns that the sink creates. Empty for a sink
        without partitions.
        """
        ...

    def sort_order(self, path: str, table: Table) -> tuple[str, ...]:
        """Returns the fields by which the rows of new data files are sorted, as `partitions`; empty without an order."""
        ...

    def has_written(self, path: str) -> bool | None:
        """Whether the sink's owner has written the table at the path; None if there is no table. Needs no Spark."""
        ...

    def tables(self) -> Iterator[str]:
        """Returns the paths of all tables below the root, also of other programs."""
        ...

    def snapshot(self, path: str) -> TableSnapshot | None:
        """Returns the newest state of the table at the path; None if there is no table."""
        ...

    def is_newest(self, path: str, revision: int) -> bool:
        """Whether this is the table's newest revision. Cheaper than `snapshot`, if the format allows it."""
        ...

    def distance(self, path: str, after: int, through: int) -> int | None:
        """Returns the number of commits that lead from one revision to another; None if the first did not lead to the second.

        It may be a number although some of these commits are gone from the log: `commits` reads them. After -1 come all commits.
        """
        ...

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        """Yields the commits that led from one revision to another, the newest first; after -1: all of the table's commits.

        Commits are read one by one, so that a caller that stops early needs no older ones.

        Raises:
            SinkError: a commit is missing or damaged, or the first revision did not lead to the second.
        """
        ...

    def damaged_files(self, path: str, revision: int) -> list[str]:
        """Returns the data files of a revision that are missing, or whose size differs from the table's log."""
        ...

    def take_back(self, path: str, revision: int) -> list[int]:
        """Removes commits after a revision that a power cut has left incomplete, from the first one on. Needs no Spark.

        The revision is the one that the ledger has, -1 for none. A sink whose commits are whole or not there does nothing.

        Returns:
            The revisions of the removed commits.

        Raises:
            SinkError: something cannot be read or removed.
        """
        ...

    def publish(self, cut: str, revisions: Mapping[str, int]) -> None:
        """Names the tables' revisions of a published cut, for readers; nothing happens if the sink has no names for revisions.

        Called after the ledger has the cut, and when a run begins: some tables may have the name already, or with another
        revision.

        Args:
            cut: the name, such as `cut-463268005898553859`.
            revisions: path -> revision of each table in the cut.

        Raises:
            SinkError: a name cannot be given.
        """
        ...

    def has_files(self, path: str) -> bool:
        """Whether there are any files at the path, of a table or not."""
        ...

    def delete(self, path: str) -> None:
        """Deletes the table at the path with all of its revisions and files; nothing happens if there is none. Needs no Spark.

        If it is interrupted, no reader may find a table of which a part is missing; the next call deletes the rest.

        Raises:
            SinkError: something cannot be deleted.
        """
        ...

    def differences(self, path: str, table: Table) -> list[str]:
        """Returns the differences between the columns of the table at the path and those of `table`.

        Returns:
            A phrase for each column, which begins with its name: those of `table` in its order, then those it lacks.
        """
        ...

    def prepare(self, requests: Sequence[WriteRequest]) -> Sequence[PreparedWrite]:
        """Prepares several writes together, for example by writing their data files; commits nothing.

        Args:
            requests: the writes, each to a different path.

        Returns:
            The prepared writes, in order. Each is passed to `apply`, or the run ends.

        Raises:
            SinkError: as `apply`.
        """
        ...

    def apply(self, prepared: PreparedWrite) -> Applied:
        """Makes one write, in one commit. See rules 2 to 4.

        Args:
            prepared: a write that this sink has prepared.

        Raises:
            FencedError: a newer run of the pipeline writes the table.
            SinkError: the table is not what the pipeline made it, or the commit is not in its log.
        """
        ...


def write_alone(sink: TableSink, request: WriteRequest) -> Applied:
    """Prepares and applies one write; raises what the two raise."""
    (prepared,) = sink.prepare([request])
    return sink.apply(prepared)
