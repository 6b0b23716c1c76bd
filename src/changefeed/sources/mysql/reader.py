"""The tasks of a batch: they read slices of the log, chunks of the first copy and definitions, and pack them for the pipeline.

The rows of a first copy have the commit_ts of the position L at which it began; the definitions are just before it. No other
change is there, because an event has at least 19 bytes:

    L - 2   DROP TABLE IF EXISTS, of an earlier try
    L - 1   CREATE TABLE, as the server shows it
    L       rows, with the op `read`; their offset is the number of the chunk, so that chunks are in order
    V - 1   TRUNCATE TABLE, of a table without a key that is read at a later position V: see `keyless.py`
    V       its rows, in the same form
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import SchemaError, SourceError
from changefeed.frames.chunks import pack
from changefeed.frames.mapped import Work
from changefeed.model.batch import Decoded
from changefeed.model.event import Control, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.protocols.origin import NAMES_RULE, OF_COPY
from changefeed.sources.mysql.batches import LogSlice
from changefeed.sources.mysql.changes import PARTITION, TOPIC, LogDecoder, records_at
from changefeed.sources.mysql.column_rules import ColumnRules
from changefeed.sources.mysql.columns import columns_of
from changefeed.sources.mysql.connection import Address, GoneError, connect, translated
from changefeed.sources.mysql.dump import LogEvent, dump, dump_bytes
from changefeed.sources.mysql.first_copy import CopyChunk, Definitions
from changefeed.sources.mysql.kernel_decoder import KernelLogDecoder, is_available
from changefeed.sources.mysql.keyless import begin_view
from changefeed.sources.mysql.masks import ColumnPatterns
from changefeed.sources.mysql.rolled_back import without
from changefeed.sources.mysql.selected import copied_rows
from changefeed.sources.mysql.selecting import select
from changefeed.sources.mysql.server import Server, check_identity
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured, CopiedTable, quoted
from changefeed.sources.mysql.xa import PreparedRows

if TYPE_CHECKING:
    from pymysql.connections import Connection

_PACKED_ROWS = 20_000  # rows that are packed together

Part = LogSlice | CopyChunk | Definitions


@dataclass(frozen=True, slots=True)
class Reading:
    """The server that tasks read, and what they read of it; it is pickled for them.

    Attributes:
        identity: of the server; tasks read no other one.
        kind: `mysql` or `mariadb`.
        low: where the log was when the first copy began.
        columns: the rules for rows of a copy; those for the log are in `captured`, and may be earlier ones.
    """

    address: Address
    identity: str
    captured: Captured
    kind: str
    low: LogPosition
    server_id: int | None = None
    columns: ColumnPatterns = field(default_factory=ColumnPatterns)


def read_parts(reading: Reading, parts: Sequence[Part]) -> Work:
    """Returns the function that workers run: it reads the parts whose numbers are its input."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            yield from read(reading, parts[number])

    return run


def read(reading: Reading, part: Part) -> Iterator[pa.RecordBatch]:
    """Yields the chunks of one part.

    Raises:
        AccessError, SourceError: the server refuses the user, does not answer, or no longer has what comes next.
        UnsupportedError: the log has something that the source does not read.
    """
    match part:
        case LogSlice():
            yield from _read_log(reading, part)
        case CopyChunk() if part.table.is_keyless:
            yield from _read_keyless(reading, part)
        case CopyChunk():
            yield from _read_chunk(reading, part)
        case Definitions():
            yield _packed_definitions(reading, part)


def _read_log(reading: Reading, part: LogSlice) -> Iterator[pa.RecordBatch]:
    if part.history is not None:
        reading = replace(reading, captured=replace(reading.captured, named=part.history.named))
    prepared = PreparedRows(part.prepared)
    for each in part.prepared:
        if each.start.number < part.start.number:
            for decoded, _ in _decoded(reading, LogSlice(each.start, each.end, is_complete=False, prepared=(each,))):
                prepared.without(decoded)
    for decoded, records in _decoded(reading, part):
        yield pack(without(prepared.without(decoded), part.undone), records)
    tables, positions = prepared.committed()
    if tables:
        yield pack(Decoded(tables), records_at(positions))


_Changes = tuple[Decoded, pa.RecordBatch]  # with their records
_Read = Generator[_Changes, None, tuple[LogDecoder, LogPosition]]


def _decoded(reading: Reading, part: LogSlice) -> Iterator[_Changes]:
    """Yields the changes of a slice."""
    decoder, at = yield from _read_by_kernel(reading, part) if is_available() else _read_by_reference(reading, part)
    if at.number < part.end.number:
        raise SourceError(
            f"{reading.address} sent its binary log to {at} alone, and had sent it to {part.end} before: it lost the end of its "
            "log, or another server answers",
            transient=True,
        )
    if part.is_complete:
        decoder.mark(part.mark or part.end)
    yield decoder.decoded()


def _read_by_kernel(reading: Reading, part: LogSlice) -> _Read:
    """Yields the changes of a slice except the last; returns the decoder, and the position after the last event."""
    decoder = KernelLogDecoder(reading.captured, part.start, part.end, part.maps, _ends(part), _rollbacks(part))
    blocks: Iterable[bytes] = [b"".join(event.data for event in part.events or ())]
    if part.events is None:
        blocks = dump_bytes(reading.address, part.start, reading.server_id, reading.identity)
    for block in blocks:
        decoder.feed(block)
        while (stop := decoder.run(_PACKED_ROWS)) == "full":
            yield decoder.decoded()
        if stop == "end":
            break
    return decoder, decoder.at


def _read_by_reference(reading: Reading, part: LogSlice) -> _Read:
    """Does the same as `_read_by_kernel`, event by event."""
    decoder = LogDecoder(reading.captured, part.maps, prepared=_ends(part), undone=_rollbacks(part))
    events: Iterable[LogEvent] = part.events or ()
    if part.events is None:
        events = dump(reading.address, part.start, reading.server_id, reading.identity)
    at = part.start
    for event in events:
        at = event.end
        if event.placed and event.at.number >= part.end.number:
            break
        decoder.add(event)
        if decoder.count >= _PACKED_ROWS:
            yield decoder.decoded()
    return decoder, at


def _ends(part: LogSlice) -> frozenset[LogPosition]:
    return frozenset(each.end for each in part.prepared)


def _rollbacks(part: LogSlice) -> frozenset[LogPosition]:
    return frozenset(each.end for each in part.undone)


def _read_chunk(reading: Reading, part: CopyChunk) -> Iterator[pa.RecordBatch]:
    connection = connect(reading.address)
    try:
        with translated(reading.address):
            check_identity(reading.address, connection, reading.identity)
        yield from _read_rows(reading, part, connection, reading.low.number)
    finally:
        connection._force_close()  # a polite end would read the rows that are left


def _read_keyless(reading: Reading, part: CopyChunk) -> Iterator[pa.RecordBatch]:
    server = Server.open(reading.address)
    try:
        check_identity(reading.address, server.connection, reading.identity)
        at = begin_view(server, part.table, reading.low)
        if at != reading.low:
            yield _packed_truncation(reading, part, at.number - 1)
        yield from _read_rows(reading, part, server.connection, at.number)
    finally:
        server.connection._force_close()


def _read_rows(
    reading: Reading, part: CopyChunk, connection: Connection[Any], commit_ts: int
) -> Iterator[pa.RecordBatch]:
    rules = ColumnRules(reading.columns)
    table = rules.table(part.table.table)
    shape = TableShape(table.database, table.table, columns_of(table))
    count = 0
    with translated(reading.address):
        for columns in select(connection, part.query(table)):
            try:
                rows = copied_rows(table, shape, columns, commit_ts=commit_ts, offset=part.number, first=count)
            except (ValueError, IndexError, SchemaError) as error:  # planning again reads the definition again
                name = ".".join(part.table.name)
                raise GoneError(f"{name} was changed while it was read: {error}", transient=True) from error
            yield pack(Decoded([rules.batch(rows)]), records_at([part.number] * len(rows)))
            count += len(rows)


def _packed_truncation(reading: Reading, part: CopyChunk, commit_ts: int) -> pa.RecordBatch:
    database, table = part.table.name
    statement = f"TRUNCATE TABLE {quoted(database)}.{quoted(table)}"
    change = _change("truncate_table", database, table, statement, commit_ts, 0, reading)
    return pack(Decoded(control=[change]), records_at([0]))


def _packed_definitions(reading: Reading, part: Definitions) -> pa.RecordBatch:
    low, changes = reading.low.number, list[Control]()
    for database, name in part.dropped:
        drop = f"DROP TABLE IF EXISTS {quoted(database)}.{quoted(name)}"
        changes.append(_change("drop_table", database, name, drop, low - 2, len(changes), reading))
    for table in part.tables if part.replaces else ():
        database, name = table.name
        create = _change("create_table", database, name, table.create, low - 1, len(changes), reading)
        changes.append(replace(create, columns=_columns(table)))
    return pack(Decoded(control=changes), records_at([0] * len(changes)))


def _change(
    kind: str, database: str, table: str, statement: str, commit_ts: int, number: int, reading: Reading
) -> SchemaChange:
    place = Place(TOPIC, PARTITION, 0, number, number)
    origin = {"connector": reading.kind, NAMES_RULE: reading.captured.names_rule, **OF_COPY}
    return SchemaChange(kind, database, table, statement, place, commit_ts=commit_ts, origin=origin)


def _columns(table: CopiedTable) -> tuple[Column, ...] | None:
    """The columns of a table with types that only MariaDB has: its statement cannot be read."""
    if any(column.mariadb_type is not None for column in table.table.columns):
        return columns_of(table.table)
    return None
