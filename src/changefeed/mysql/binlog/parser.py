"""The parser: events in order, from a file or a connection, to typed events.

    bytes ── framing ──▶ header, body ── READERS ─────────────────────────▶ QUERY, GTID, XID, …
                                      ├─ TABLE_MAP ──▶ kept for the statement ──▶ compiled once for the same bytes
                                      ├─ rows ─────── by the kept table map ────▶ images
                                      └─ TRANSACTION_PAYLOAD ── its events, by the same rules ──▶ each of them

Rule 1. Checksums are verified if the last format description declares them. Before the first one, `checksum` decides: an
        artificial rotate opens a connection before the format description.
Rule 2. Table maps hold until the end of their statement. A row event of a table without one is an error.
Rule 3. An unknown type is an error, unless the event carries the flag that it may be ignored.
Rule 4. Every error is a BinlogError with the event's type and position. The parser is not usable after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from changefeed.errors import ProtocolError, UnsupportedError
from changefeed.mysql.binlog import codes, framing
from changefeed.mysql.binlog.compression import inflate_payload
from changefeed.mysql.binlog.control import READERS, read_format
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.errors import BinlogError
from changefeed.mysql.binlog.events import (
    Event,
    FormatDescription,
    Header,
    Ignorable,
    Rotate,
    Rows,
    TableMapped,
    TransactionPayload,
)
from changefeed.mysql.binlog.rows import KINDS, NO_TABLES, STATEMENT_END, RowReader, read_rows
from changefeed.mysql.binlog.table_map import TableMap, read_table_map

_SHORT_ID_FIXED = 6  # the fixed part of row events whose table numbers have 4 bytes
_MOST_COMPILED = 10_000
_COMPRESSIONS = {0: "zstd", 255: "none"}
_PAYLOAD_SIZE, _COMPRESSION, _INFLATED_SIZE = 1, 2, 3


class Parser:
    """Parses the events of one log, in order.

    Attributes:
        format: the last format description; None before the first.
    """

    def __init__(self, *, checksum: bool = False, complete: Callable[[TableMap], TableMap] | None = None) -> None:
        """Begins a log.

        Args:
            checksum: whether events before the first format description end with a checksum.
            complete: adds details of a table's columns, such as names and character sets, where the server did not send them.
                Called once for each different table map.
        """
        self.format: FormatDescription | None = None
        self._checksum = checksum
        self._complete = complete
        self._tables: dict[int, RowReader] = {}
        self._compiled: dict[bytes, RowReader] = {}

    def file(self, data: bytes) -> Iterator[Event]:
        """Parses a whole binlog file.

        Raises:
            BinlogError: the bytes contradict the format.
        """
        for frame in framing.split_file(data):
            yield from self.feed(frame.data, frame.position)

    def feed(self, data: bytes, position: int | None = None) -> list[Event]:
        """Parses the next event: one, or for a transaction payload the payload and the events in it.

        Args:
            data: the bytes of the event, from its header to its checksum.
            position: its offset in the file; None: as in the header.

        Raises:
            BinlogError: the bytes contradict the format, or the event's type is unknown.
        """
        name = codes.name_of(data[4]) if len(data) >= framing.HEADER_SIZE else None
        try:
            header = framing.read_header(data, position)
            position = header.position
            body = data
            if header.code == codes.FORMAT_DESCRIPTION or self._checksum:
                body = framing.without_checksum(data, header.code)
            return self._event(body, header)
        except BinlogError:
            raise
        except ProtocolError as error:
            raise BinlogError(
                str(error), reason=error.reason, byte=error.byte, position=position, event=name
            ) from error
        except UnsupportedError as error:
            raise BinlogError(str(error), reason="unsupported", position=position, event=name) from error

    def inflate(self, data: bytes) -> bytes:
        """Returns the events in a transaction payload, without parsing them.

        Raises:
            ProtocolError: the bytes contradict the format.
        """
        header = framing.read_header(data, None)
        cursor = EventCursor(framing.without_checksum(data, header.code) if self._checksum else data, "event")
        cursor.at = framing.HEADER_SIZE
        return _inflated(cursor)[2]

    def in_payload(self, data: bytes, payload: Header) -> list[Event]:
        """Parses an event of a transaction payload. Raises as `inflate`."""
        return self._inner(framing.Frame(0, data), payload)

    def end_statement(self) -> None:
        """Forgets the table maps of the open statement: for callers that read row events of it themselves."""
        self._tables.clear()

    def complete_again(self) -> None:
        """Forgets all table maps, so that `complete` is called for each of them again."""
        self._tables.clear()
        self._compiled.clear()

    def _event(self, body: bytes, header: Header) -> list[Event]:
        cursor = EventCursor(body, "event")
        cursor.at = framing.HEADER_SIZE
        if header.code == codes.TRANSACTION_PAYLOAD:
            return self._payload(cursor, header)
        event = self._read(cursor, header)
        cursor.finish()
        return [event]

    def _read(self, cursor: EventCursor, header: Header) -> Event:
        code = header.code
        if code in KINDS:
            return self._rows(cursor, header)
        if code == codes.TABLE_MAP:
            return self._table_map(cursor, header)
        if code == codes.FORMAT_DESCRIPTION:
            self.format = read_format(cursor, header)
            self._checksum = self.format.checksum
            self._tables.clear()
            return self.format
        read = READERS.get(code)
        if read is not None:
            event = read(cursor, header)
            if isinstance(event, Rotate):
                self._tables.clear()
            return event
        if header.flags & codes.IGNORABLE_FLAG:
            cursor.rest()
            return Ignorable(header)
        raise ProtocolError("unknown event, which must not be ignored", reason="unknown-event")

    def _id_size(self, code: int) -> int:
        sizes = self.format.header_sizes if self.format is not None else b""
        return 4 if code <= len(sizes) and sizes[code - 1] == _SHORT_ID_FIXED else 6

    def _table_map(self, cursor: EventCursor, header: Header) -> TableMapped:
        body = cursor.data[cursor.at :]
        table = self._compiled.get(body)
        if table is None:
            mariadb = self.format is not None and self.format.mariadb
            described = read_table_map(cursor, self._id_size(header.code), mariadb=mariadb)
            table = RowReader(self._complete(described) if self._complete else described)
            if len(self._compiled) == _MOST_COMPILED:
                self._compiled.clear()
            self._compiled[body] = table
        cursor.rest()
        self._tables[table.table.table_id] = table
        return TableMapped(header, table.table)

    def _rows(self, cursor: EventCursor, header: Header) -> Event:
        kind = KINDS[header.code]
        table_id = cursor.uint(self._id_size(header.code))
        table = self._tables.get(table_id)
        if table is None:
            if table_id in NO_TABLES:
                return self._statement_end(cursor, header)
            raise ProtocolError(f"table {table_id} has no table map in this statement", reason="unknown-table")
        rows = read_rows(cursor, header, kind, table)
        if rows.statement_end:
            self._tables.clear()
        return rows

    def _statement_end(self, cursor: EventCursor, header: Header) -> Rows:
        """Reads an event by which the server ends a statement that has no rows left."""
        flags = cursor.uint(2)
        if not flags & STATEMENT_END:
            raise ProtocolError("rows of no table do not end their statement", reason="unknown-table")
        cursor.rest()
        self._tables.clear()
        return Rows(header, KINDS[header.code].op, _NO_TABLE, True, None, None, (), flags)

    def _payload(self, cursor: EventCursor, header: Header) -> list[Event]:
        compression, size, inflated = _inflated(cursor)
        events: list[Event] = [TransactionPayload(header, compression, size, len(inflated))]
        for frame in framing.split(inflated, 0):
            events += self._inner(frame, header)
        return events

    def _inner(self, frame: framing.Frame, payload: Header) -> list[Event]:
        """Parses an event inside of a payload: Rule 3 of `framing`. Its position is that of the payload."""
        header = framing.read_header(frame.data, payload.position)
        if header.code in (codes.TRANSACTION_PAYLOAD, codes.FORMAT_DESCRIPTION):
            raise ProtocolError(f"{header.name} inside of a payload", reason="unknown-event", byte=frame.position)
        return self._event(frame.data, header)


def _inflated(cursor: EventCursor) -> tuple[str, int, bytes]:
    """The compression of a payload, its size in the file, and the bytes of its events."""
    compression, size, declared = "none", None, None
    while field := cursor.packed():
        value = EventCursor(cursor.packed_bytes(), f"payload field {field}")
        if field == _COMPRESSION:
            number = value.packed()
            if number not in _COMPRESSIONS:
                raise ProtocolError(f"compression {number} is unknown", reason="unknown-option", byte=cursor.at)
            compression = _COMPRESSIONS[number]
        elif field == _INFLATED_SIZE:
            size = value.packed()
        elif field == _PAYLOAD_SIZE:
            declared = value.packed()
    data = cursor.rest()
    if declared != len(data) or size is None:
        raise ProtocolError(f"payload has {len(data)} bytes, its fields declare {declared}", reason="bad-length")
    return compression, len(data), inflate_payload(data, size) if compression == "zstd" else data


_NO_TABLE = TableMap(0, 0, "", "", ())
