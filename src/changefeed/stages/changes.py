"""changes: chunks of one table -> one typed DataFrame, with a row for every key that a change touches.

Columns of the result, named so that no upstream name can collide with them:

    c0, c1, …     the table's columns by number, in the sink's types
    _has          one flag per column: the change carries it; NULL if it carries all of them
    _deleted      the key was deleted; c* contain the key columns only
    _irregular    column -> text that the column's type cannot represent
    _ts, _topic, _partition, _offset, _index, _half   the order of changes: see `latest.py`
    _op, _time    for the metadata columns

An update that changes the key becomes two rows: the old key deleted (half 0), the new key written (half 1). Columns are
matched by name, ignoring case, as the upstream does. The work is done column by column in Arrow; only irregular rows are
handled one by one in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.frames.chunks import unpack
from changefeed.frames.types import sink_type
from changefeed.model.batch import TableBatch
from changefeed.model.definition import Table
from changefeed.protocols import protocol
from changefeed.protocols.base import Redefine
from changefeed.protocols.origin import finds_no_row
from changefeed.stages.absent import after_images
from changefeed.stages.adjusted import named_as
from changefeed.stages.image import BEFORE, NO_EXCEPTIONS, DeclaredTypes, Image, SentTypes, named, place
from changefeed.stages.repeats import NO_REPEATS, Repeats, without_repeats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from changefeed.stages.tally import Tally

_MAP = pa.map_(pa.string(), pa.string())
_BITS = pa.list_(pa.bool_())
_METADATA = [
    ("_has", _BITS, "array<boolean>"),
    ("_deleted", pa.bool_(), "boolean"),
    ("_irregular", _MAP, "map<string,string>"),
    ("_ts", pa.int64(), "bigint"),
    ("_topic", pa.string(), "string"),
    ("_partition", pa.int32(), "int"),
    ("_offset", pa.int64(), "bigint"),
    ("_index", pa.int32(), "int"),
    ("_half", pa.int32(), "int"),
    ("_op", pa.string(), "string"),
    ("_time", pa.timestamp("us", tz="UTC"), "timestamp"),
]


NO_READS = -1  # before every commit_ts
OWNER = "owner"  # column: the number of the table that a row belongs to, if rows of several are typed together


@dataclass(frozen=True, slots=True)
class Window:
    """Changes with `after` < commit_ts <= `upto`; None means unbounded.

    Only a window without bounds includes changes without commit_ts.
    """

    after: int | None = None
    upto: int | None = None

    def mask(self, ts: pa.Array) -> pa.Array | None:
        """A boolean array, true for rows inside the window; None if the window is unbounded."""
        inside = None
        if self.after is not None:
            inside = pc.greater(ts, pa.scalar(self.after, pa.uint64()))
        if self.upto is not None:
            below = pc.less_equal(ts, pa.scalar(self.upto, pa.uint64()))
            inside = below if inside is None else pc.and_(inside, below)
        return None if inside is None else pc.fill_null(inside, False)


def changes(
    chunks: DataFrame,
    table: Table,
    window: Window,
    irregular: str = "null",
    redefinition: Redefinition | None = None,
    *,
    inserts: bool = False,
    tally: Tally | None = None,
    reads: int | None = None,
    sent: SentTypes = NO_EXCEPTIONS,
    repeats: Repeats = NO_REPEATS,
) -> DataFrame:
    """Returns the typed changes of `table` in the window.

    Args:
        chunks: the `rows` chunks of the table, with the columns of `frames.chunks`.
        table: the columns and keys of the result.
        window: the range of commit_ts to return.
        irregular: the sink's policy for values that a column cannot represent; `fail` stops at the first.
        redefinition: converts values to the types of the DDL; None if the types of the rows are used.
        inserts: for a table without a key: return only inserts, and skip updates and deletes, which do not identify a row.
        tally: counts the rows in the window.
        reads: for a table without a key: the only commit_ts at which snapshot rows are accepted. Snapshot rows at another
            commit_ts are in the table already, so they are refused, or skipped with `inserts`; None accepts all.
        sent: see `stages.image.SentTypes`.
        repeats: positions of rows that are left out, because they were sent again.
    """
    work = worker(
        table, window, irregular, redefinition, inserts=inserts, reads=reads, sent=sent, repeats=repeats, tally=tally
    )
    return chunks.select("payload").mapInArrow(work, schema_ddl(table))


def schema(table: Table) -> pa.Schema:
    """The Arrow schema of the result."""
    columns = [(f"c{i}", sink_type(c.type).arrow) for i, c in enumerate(table.columns)]
    return pa.schema([*columns, *((name, arrow) for name, arrow, _ in _METADATA)])


def schema_ddl(table: Table) -> str:
    """The Spark schema of the result."""
    columns = [f"c{i} {sink_type(c.type).sql}" for i, c in enumerate(table.columns)]
    return ", ".join(columns + [f"{name} {sql}" for name, _, sql in _METADATA])


def worker(
    table: Table,
    window: Window,
    irregular: str = "null",
    redefinition: Redefinition | None = None,
    *,
    inserts: bool = False,
    tally: Tally | None = None,
    reads: int | None = None,
    sent: SentTypes = NO_EXCEPTIONS,
    repeats: Repeats = NO_REPEATS,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function for `mapInArrow`, which runs in Spark's Python workers. The arguments are those of `changes`.

    That function raises:
        UnsupportedError: a row cannot be applied: its table has no key, or its key is incomplete.
        SchemaError: a value is invalid for its column, or the column cannot represent it and `irregular` is `fail`.
    """
    reading = ChunkReader(table, window, irregular, redefinition, inserts, reads, sent, repeats)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = replace(reading)  # a worker may run for several tasks
        yield from own.batches(payload.as_py() for batch in batches for payload in batch.column(0))
        if tally is not None:
            tally.add(own.read)

    return run


@dataclass(slots=True)
class ChunkReader:
    """Types the changes in the payloads of one table's `rows` chunks, without Spark; the arguments are those of `changes`.

    Attributes:
        repeats: positions of rows that are left out, because they were sent again.
        read: rows in the window that have been read so far.
    """

    table: Table
    window: Window
    irregular: str = "null"
    redefinition: Redefinition | None = None
    inserts: bool = False
    reads: int | None = None
    sent: SentTypes = field(default_factory=dict)
    repeats: Repeats = field(default_factory=dict)
    read: int = 0

    def batches(self, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Yields the typed changes in batches, with the columns of `schema_ddl`.

        Raises:
            UnsupportedError: a row cannot be applied: its table has no key, or its key is incomplete.
            SchemaError: a value is invalid for its column, or the column cannot represent it and `irregular` is `fail`.
        """
        types = self.types()
        for rows in self.rows(payloads):
            if len(rows):
                yield from typed(rows, self.table, self.irregular, types)

    def types(self) -> DeclaredTypes:
        """The types that are declared for the values of rows."""
        return DeclaredTypes(self.redefinition.redefine() if self.redefinition else None, self.sent)

    def rows(self, payloads: Iterable[bytes]) -> Iterator[TableBatch]:
        """Yields the rows of each chunk that are to be typed.

        Raises:
            UnsupportedError: a row cannot be applied, because its table has no key.
        """
        table = self.table
        for payload in payloads:
            rows = inside(unpack(payload), self.window)
            self.read += len(rows)
            rows = named_as(table, rows)
            if finds_no_row(rows.shape, table):
                continue
            rows = TableBatch(rows.shape, without_repeats(rows.rows, self.repeats)) if self.repeats else rows
            if self.inserts and not table.keys:
                rows = TableBatch(rows.shape, rows.rows.filter(pc.invert(_is_change(rows.rows))))
            if self.reads is not None and not table.keys:
                rows = TableBatch(rows.shape, _without_rereads(rows.rows, table, self.reads, self.inserts))
            yield rows


@dataclass(frozen=True, slots=True)
class Redefinition:
    """Converts values to the types that DDL declares, by the rules of a protocol and its options."""

    protocol: str
    options: Mapping[str, Any]

    def redefine(self) -> Redefine | None:
        """The protocol's conversion function; None if its values already have the declared types."""
        known = protocol(self.protocol)
        return None if known.redefine is None else known.redefine(known.read_options(self.options))


def inside(table: TableBatch, window: Window) -> TableBatch:
    """Returns the rows in the window."""
    mask = window.mask(table.rows.column("commit_ts"))
    if mask is None or pc.all(mask).as_py():
        return table  # copied rows with all their images would cost as much as their conversion
    return TableBatch(table.shape, table.rows.filter(mask))


def typed(batch: TableBatch, table: Table, irregular: str, types: DeclaredTypes) -> Iterator[pa.RecordBatch]:
    """Yields typed changes of rows of one shape; if `batch` has the column `OWNER`, they have it as their last one.

    Raises:
        UnsupportedError, SchemaError: see `ChunkReader.batches`.
    """
    shape, rows = batch.shape, batch.rows
    deleted = pc.equal(rows.column("op"), "delete")
    gone = rows.filter(deleted)
    kept = rows if gone.num_rows == 0 else rows.filter(pc.invert(deleted))
    if not table.keys:
        _check_only_inserts(rows, table)
    if gone.num_rows:
        yield _key_rows(Image.of(gone, "before", shape.before_columns, types), table)
    if kept.num_rows:
        yield from _old_keys(batch, kept, table, types)
        for image in after_images(kept, shape, table, types):
            yield _written_rows(image, table, irregular)


def _is_change(rows: pa.RecordBatch) -> pa.Array:
    return pc.is_in(rows.column("op"), value_set=pa.array(["update", "delete"]))


def _check_only_inserts(rows: pa.RecordBatch, table: Table) -> None:
    changing = _is_change(rows)
    if pc.any(changing).as_py():
        row = pc.indices_nonzero(changing)[0].as_py()
        raise UnsupportedError(
            f"{table.database}.{table.name} has no handle key, so the {rows.column('op')[row]} at {place(rows, row)} cannot "
            "be applied: it does not identify a row. Set pipeline.keyless to `inserts` to skip updates and deletes, or name the "
            "table in pipeline.exclude to skip all of it; then run again"
        )


def _without_rereads(rows: pa.RecordBatch, table: Table, reads: int, inserts: bool) -> pa.RecordBatch:
    """Returns the rows without snapshot rows at any commit_ts other than `reads`."""
    other_ts = pc.fill_null(pc.not_equal(rows.column("commit_ts").cast(pa.int64()), reads), False)
    again = pc.and_(pc.equal(rows.column("op"), "read"), other_ts)
    if not pc.any(again).as_py():
        return rows
    if not inserts:
        row = pc.indices_nonzero(again)[0].as_py()
        raise UnsupportedError(
            f"{table.database}.{table.name} has no handle key, and a snapshot without its CREATE TABLE reads it again at "
            f"{place(rows, row)}: its rows would be in the table twice. Leave the table out of incremental and blocking "
            "snapshots; set pipeline.keyless to `inserts` to skip these rows, or name the table in "
            "pipeline.exclude; then run again"
        )
    return rows.filter(pc.invert(again))


def _old_keys(batch: TableBatch, rows: pa.RecordBatch, table: Table, types: DeclaredTypes) -> Iterator[pa.RecordBatch]:
    """Yields a delete for each old key of an update that changes the key."""
    before = Image.of(rows, "before", batch.shape.before_columns, types)
    after = Image.of(rows, "after", batch.shape.after_columns, types)
    moved = pa.repeat(pa.scalar(False), rows.num_rows)
    for name in (n.lower() for n in table.keys):
        if name in before.arrays and name in after.arrays and not pa.types.is_null(after.arrays[name].type):
            differs = pc.not_equal(before.arrays[name], after.arrays[name])  # NULL where there is no before image
            moved = pc.or_(moved, pc.fill_null(differs, False))
    moved = pc.and_(moved, pc.equal(rows.column("op"), "update"))
    if pc.any(moved).as_py():
        left = rows.filter(moved)
        _check_whole_rows(left, batch, table)
        old = Image.of(left, "after", batch.shape.after_columns, types)
        older = Image.of(left, "before", batch.shape.before_columns, types)
        old.arrays |= older.arrays  # a partial before image leaves out what did not change
        old.columns |= older.columns
        yield _key_rows(old, table)


def _check_whole_rows(rows: pa.RecordBatch, batch: TableBatch, table: Table) -> None:
    missing = [c.name for c in batch.shape.columns if c not in batch.shape.after_columns]
    if missing:
        raise UnsupportedError(
            f"{table.database}.{table.name}: the update at {place(rows, 0)} changes the key and does not carry "
            f"{', '.join(missing)}, so these values of the row would be lost. Configure the producer to send whole rows, "
            "or name the table in pipeline.exclude to skip it; then run again"
        )


def _key_rows(image: Image, table: Table) -> pa.RecordBatch:
    arrays = [
        image.key(c, table) if c.name in table.keys else pa.nulls(image.rows.num_rows, sink_type(c.type).arrow)
        for c in table.columns
    ]
    return _assemble(image.rows, arrays, deleted=True, has=None, irregular={})


def _written_rows(image: Image, table: Table, policy: str) -> pa.RecordBatch:
    image.irregular = irregular_texts(image.rows, table)
    arrays = [image.key(c, table) if c.name in table.keys else image.column(c, table) for c in table.columns]
    if policy == "fail" and image.irregular:
        _fail(image, table)
    has = [c.name.lower() in image.columns for c in table.columns]
    return _assemble(image.rows, arrays, deleted=False, has=None if all(has) else has, irregular=image.irregular)


def irregular_texts(rows: pa.RecordBatch, table: Table) -> dict[int, dict[str, str]]:
    """Returns row number -> column -> text of the irregular values that the decoder marked in after images."""
    column = rows.column("irregular")
    if not len(column.keys):
        return {}
    offsets = column.offsets
    positions = pc.indices_nonzero(pc.not_equal(offsets[1:], offsets[:-1]))
    names = {c.name.lower(): c.name for c in table.columns}
    irregular = {
        row: {
            names.get(name.lower(), name): text.decode(errors="replace")
            for name, text in texts
            if not name.startswith(BEFORE)
        }
        for row, texts in zip(positions.to_pylist(), column.take(positions).to_pylist(), strict=True)
    }
    return {row: texts for row, texts in irregular.items() if texts}


def _fail(image: Image, table: Table) -> NoReturn:
    row = min(image.irregular)
    name, text = next(iter(image.irregular[row].items()))
    column = table.column(name)
    raise SchemaError(
        f"{named(table, name)} holds {text!r} at {place(image.rows, row)}, which "
        f"{column.type if column else 'its type'} cannot hold downstream, and `irregular: fail` is set. Correct it upstream, "
        "or set sink.irregular to `keep` or `null`"
    )


def _assemble(
    rows: pa.RecordBatch,
    arrays: list[pa.Array],
    *,
    deleted: bool,
    has: list[bool] | None,
    irregular: dict[int, dict[str, str]],
) -> pa.RecordBatch:
    n = rows.num_rows
    place: list[Any] = [
        pa.repeat(pa.scalar(has, _BITS), n),
        pa.repeat(pa.scalar(deleted), n),
        text_maps(irregular, n),
        rows.column("commit_ts").cast(pa.int64()),
        rows.column("topic"),
        rows.column("partition"),
        rows.column("offset"),
        rows.column("index"),
        pa.repeat(pa.scalar(0 if deleted else 1, pa.int32()), n),
        rows.column("op"),
        rows.column("commit_time").cast(pa.timestamp("us", tz="UTC")),
    ]
    names = [f"c{i}" for i in range(len(arrays))] + [name for name, _, _ in _METADATA]
    if OWNER in rows.schema.names:
        names.append(OWNER)
        place.append(rows.column(OWNER))
    return pa.RecordBatch.from_arrays(arrays + place, names=names)


def text_maps(irregular: dict[int, dict[str, str]], n: int) -> pa.Array:
    """Row -> column -> text, as a column of maps."""
    if not irregular:
        nothing = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n + 1), nothing, nothing)
    return pa.array([list(irregular[row].items()) if row in irregular else [] for row in range(n)], _MAP)
