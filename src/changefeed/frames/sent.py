"""Lines by which rows are recognized when their producer sends them again: a few numbers for each row.

    offset, index   position of the row in its partition; index 0 if the record has only one event
    commit_ts       of the row
    table           hash of the table's name
    same            hash: equal for a row that is sent again
    keyless         the table has no key: its rows are appended, so one that is sent again must be left out
    order           number of the row in its transaction, NULL if the producer does not count
    time            commit time in milliseconds
    gtid            of the transaction; only of tables without a key

Rule 1. Where a row has a place in a binlog (`places`), its hash is made of its number in the event at `commit_ts`, its op and its
commit time. The events of a compressed transaction of MySQL have one place, and their rows are numbered from 0 again: so the
values belong to the hash of a row without a key, and rows differ in `order`.
Rule 2. In other protocols it is made of the op and of the key, or of all values if the table has no key. Rows with a key have
lines if there may be a table without one: in any partition, they prove where the producer began again.
Rule 3. Rows of snapshots have no lines, see `stages.latest.last_reading`.

Hashes are computed by columns: 64 bits, of the values as they are in Arrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.partitions import Part, by_partition
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.shared_rows import adjacent, column_of_tables
from changefeed.model.table import TableShape
from changefeed.protocols import origin

LINES = pa.schema(
    [
        ("offset", pa.int64()),
        ("index", pa.int32()),
        ("commit_ts", pa.int64()),
        ("table", pa.int64()),
        ("same", pa.int64()),
        ("keyless", pa.bool_()),
        ("order", pa.int64()),
        ("time", pa.int64()),
        ("gtid", pa.string()),
    ]
)
_LINES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), *LINES])
KEYLESS = "*keyless"
"""In place of a table's name in `Dated`: the pipeline may have a table without a key."""
_OPS = ("insert", "update", "delete", "upsert")
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_Hashes = npt.NDArray[np.uint64]


def sent_lines(decoded: Decoded, *, places: bool, keyed: bool) -> Iterator[Part]:
    """The lines of each partition.

    Args:
        decoded: the rows.
        places: whether rows have a place in a binlog, see Rule 1.
        keyed: whether rows with a key have lines, although the batch has no others; see Rule 2.
    """
    tables = adjacent(table for table in decoded.tables if len(table))
    keyless = [not any(column.key for column in table.shape.columns) for table in tables]
    if not tables or not (places or keyed or any(keyless)):
        return
    lines = _lines(tables, keyless, places=places)
    streamed = pc.and_(pc.not_equal(column_of_tables(tables, "op"), "read"), pc.is_valid(lines.column("commit_ts")))
    for topic, partition, of_partition in by_partition(lines.filter(streamed)):
        yield topic, partition, of_partition.select(LINES.names)


def keyless_lines(lines: pa.RecordBatch) -> pa.RecordBatch:
    """The lines of rows without a key."""
    return lines.filter(lines.column("keyless"))


def _lines(tables: list[TableBatch], keyless: list[bool], *, places: bool) -> pa.RecordBatch:
    lengths = list(map(len, tables))
    time = pc.cast(
        pa.concat_arrays([table.rows.column("commit_time").cast(_MILLISECONDS, safe=False) for table in tables])
        if len({table.schema.field("commit_time").type for table in tables}) > 1
        else column_of_tables(tables, "commit_time").cast(_MILLISECONDS, safe=False),
        pa.int64(),
    )
    names = np.repeat(np.array([_hash_of(table.name.lower()) for table in tables], np.uint64), lengths)
    hashes = _mixed(names ^ _numbers(pc.index_in(column_of_tables(tables, "op"), value_set=pa.array(_OPS))))
    gtid = [pa.nulls(length, pa.string()) for length in lengths]
    content = [np.zeros(length, np.uint64) for length in lengths]
    for i, table in enumerate(tables):
        if keyless[i] or not places:
            content[i] = _images(table, whole=keyless[i])
        if keyless[i] and places:
            server, gtid[i] = origin.servers(table.rows.column("origin"))
            content[i] = _mixed(content[i] ^ _numbers(server)) ^ hashes_of(gtid[i])
    hashes ^= np.concatenate(content)
    commit_ts = column_of_tables(tables, "commit_ts").cast(pa.int64())
    if places:
        row = origin.row_numbers(column_of_tables(tables, "origin"))
        hashes = _mixed(hashes ^ _mixed(_numbers(row) + _PRIME)) ^ _mixed(_numbers(time))
        commit_ts = pc.if_else(pc.is_valid(row), commit_ts, pa.scalar(None, pa.int64()))  # without a place, no line
    columns = {
        "topic": column_of_tables(tables, "topic"),
        "partition": column_of_tables(tables, "partition"),
        "offset": column_of_tables(tables, "offset"),
        "index": pc.fill_null(column_of_tables(tables, "index"), 0),
        "commit_ts": commit_ts,
        "table": pa.array(names.view(np.int64)),
        "same": pa.array(_mixed(hashes).view(np.int64)),
        "keyless": pa.array(np.repeat(np.array(keyless), lengths)),
        "order": pc.struct_field(column_of_tables(tables, "transaction"), "order"),
        "time": time,
        "gtid": pa.concat_arrays(gtid),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _LINES.names], schema=_LINES)


def _images(table: TableBatch, *, whole: bool) -> _Hashes:
    """The hash of each row's image after the change, or before a delete; of its key, if not `whole`."""
    rows, shape = table.rows, table.shape
    after = _image(rows.column("after"), shape, whole=whole)
    deleted = pc.equal(rows.column("op"), "delete")
    if not pc.any(deleted).as_py():
        return after
    before = _image(rows.column("before"), shape, whole=whole)
    return np.where(deleted.to_numpy(zero_copy_only=False), before, after)


def _image(image: pa.StructArray, shape: TableShape, *, whole: bool) -> _Hashes:
    keys = {column.name for column in shape.columns if column.key}
    hashes = np.zeros(len(image), np.uint64)
    for field in image.type:
        if whole or field.name in keys:
            hashes += _mixed(hashes_of(pc.struct_field(image, [field.name])) ^ np.uint64(_hash_of(field.name.lower())))
    return hashes


def hashes_of(column: pa.Array) -> _Hashes:
    """The hash of each value; values that are equal in Arrow have equal hashes, whatever the width of their type."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    if pa.types.is_floating(kind):
        hashes = _mixed(column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64))
    elif _is_number(kind):
        hashes = _mixed(_numbers(column))
    elif pa.types.is_decimal(kind):
        hashes = _texts(column.cast(pa.string()))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes = _texts(column)
    else:
        hashes = _texts(pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string()))
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), hashes, _NULL) if column.null_count else hashes


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind))


def _numbers(column: pa.Array) -> _Hashes:
    """Integers, booleans, dates and times as numbers; NULL as 0."""
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    if not pa.types.is_uint64(column.type):
        column = column.cast(pa.int64())
    numbers: _Hashes = column.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return numbers


def _texts(column: pa.Array) -> _Hashes:
    """The hash of each text: the sum of its bytes, each times a power of a prime that its place decides."""
    texts = column.cast(pa.large_binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return np.zeros(len(texts), np.uint64)
    lengths = np.diff(offsets)
    values = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    starts = offsets[:-1] - offsets[0]
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _PRIME), dtype=np.uint64)
    values = (values + np.uint64(1)) * powers[np.arange(len(values)) - np.repeat(starts, lengths)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return _mixed((sums[starts + lengths] - sums[starts]) ^ lengths.astype(np.uint64))


def _mixed(numbers: _Hashes) -> _Hashes:
    """Spreads the bits of numbers over 64 bits (splitmix64)."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return numbers ^ (numbers >> np.uint64(31))


def combined(*numbers: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """One hash of several integers in each row."""
    hashes = np.zeros(len(numbers[0]), np.uint64)
    for column in numbers:
        hashes = _mixed(hashes + _PRIME ^ _mixed(np.asarray(column, np.int64).view(np.uint64)))
    return hashes.view(np.int64)


def table_hash(name: str) -> int:
    """The hash in `table` of a table, `database.table`."""
    return int(np.array([_hash_of(name.lower())], np.uint64).view(np.int64)[0])


def _hash_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
