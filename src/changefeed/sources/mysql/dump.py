"""Reads the binary log from the server: COM_BINLOG_DUMP over a connection of its own.

    client   SET …, COM_REGISTER_SLAVE, COM_BINLOG_DUMP: position (4), flags (2), server id (4), file
    server   ROTATE (artificial): the file that follows │ FORMAT_DESCRIPTION │ event │ event │ …
             ROTATE: the end of a file │ ROTATE (artificial): the next one │ FORMAT_DESCRIPTION │ …
             EOF at the end of the log, because the flag 1 asks not to wait for more

Rule 1. Events that the server makes for the connection have no place in the file: artificial ones, and of the types
        `_OF_CONNECTION` those whose next position is 0, such as a FORMAT_DESCRIPTION that is sent again. So do heartbeats,
        whose next position is that of the event that was sent or passed over last.
Rule 2. The next position in a header has 32 bits. In a longer file the upper bits are those of the last position, plus one where
        the lower ones begin again. MariaDB 11.8 writes 0 inside of a transaction: such an event follows the one before, so that
        none of them may be missing (see `_asks_for_statements`).
        No connection can ask for a position of more than 32 bits: then it asks for the file, and passes over what comes before.
Rule 3. Each connection asks for the server's identity: between two of them, the address may lead to another one.
Rule 4. MariaDB sends GTIDs only to a replica of capability 4; both servers send checksums only to one that asks for them.
Rule 5. A server that sends nothing for three heartbeats is taken for lost. MySQL passes over transactions that are not asked
        for, which may be most of a long log, and sends heartbeats meanwhile. Otherwise a server that is not asked to wait
        always has something to send.
"""

from __future__ import annotations

import random
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from changefeed.codec import decoding
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.framing import CHECKSUM_SIZE, HEADER_SIZE
from changefeed.mysql.gtid_set import GtidSet, MySqlGtids
from changefeed.sources.mysql.connection import (
    Address,
    LostLogError,
    check_end,
    connect,
    is_mariadb,
    lost,
    received,
    rows,
    translated,
)
from changefeed.sources.mysql.server import check_identity
from changefeed.sources.mysql.source_offset import LogPosition, SourceOffset

if TYPE_CHECKING:
    from pymysql.connections import Connection

_REGISTER, _DUMP, _DUMP_GTIDS = 0x15, 0x12, 0x1E
_NON_BLOCKING, _ANNOTATIONS, _THROUGH_GTIDS = 1, 2, 4  # of MariaDB, of MySQL
FIRST = 4
"""The position of the first event of a file."""
FARTHEST = 2**32 - 1
"""The last position that a connection can ask for: Rule 2."""
HEARTBEAT_SECONDS = 30.0
"""Seconds without an event after which a server sends a heartbeat: Rule 5."""
_MISSED = 3  # heartbeats
_HEARTBEATS = frozenset({codes.HEARTBEAT, codes.HEARTBEAT_V2})
_RANGE = 100  # server ids of one section
_HEADER = struct.Struct("<IBIIIH")
_NEXT_AT = 13  # the next position, in a header
_BEGIN = b"\0BEGIN"
_LONGEST_BEGIN = len(_BEGIN) + CHECKSUM_SIZE
_OF_CONNECTION = frozenset({
    codes.ROTATE, codes.FORMAT_DESCRIPTION, codes.PREVIOUS_GTIDS, codes.MARIADB_GTID_LIST, codes.START_ENCRYPTION,
})  # fmt: skip
GTIDS = frozenset({codes.GTID, codes.ANONYMOUS_GTID, codes.GTID_TAGGED, codes.MARIADB_GTID})
"""The events that begin a transaction."""
QUERIES = frozenset({codes.QUERY, codes.QUERY_COMPRESSED})
"""The events that have a statement."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event of the log as the server sent it.

    Attributes:
        code: its type, see `codes`.
        at: its position; of an artificial event, that of the next one.
        end: the position after it.
        data: its bytes, from the header to the checksum.
        placed: whether it is in the file; artificial events are not.
        is_undone: whether it is a part of a transaction that was rolled back; see `rolled_back.py`.
        is_prepared: whether it is a part of an XA transaction, whose rows count at its XA COMMIT alone, or that statement; see
            `xa.py`. Only a stream marks either.
    """

    code: int
    at: LogPosition
    end: LogPosition
    data: bytes
    placed: bool
    is_undone: bool = False
    is_prepared: bool = False

    @property
    def timestamp(self) -> int:
        """Seconds since 1970; of a format description, when its file was begun."""
        return int.from_bytes(self.data[:4], "little")

    @property
    def is_begin(self) -> bool:
        """Whether it is the statement BEGIN, which most transactions have: so it is not parsed."""
        return self.code == codes.QUERY and _BEGIN in self.data[-_LONGEST_BEGIN:]

    @property
    def has_checksum(self) -> bool:
        """Whether the bytes end with their CRC32."""
        return len(_without_checksum(self.data)) < len(self.data)


def dump(
    address: Address,
    start: LogPosition,
    server_id: int | None = None,
    identity: str | None = None,
    *,
    statements: bool = False,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> Iterator[LogEvent]:
    """Yields the events of the log from a position to its current end.

    Args:
        address: the server.
        start: the start of an event, or the end of the log.
        server_id: the first of the ids that the connection may use; None for one at random.
        identity: of the server that must answer, see `identity_of`; None: any.
        statements: whether MariaDB must send the statements of rows, too; MySQL always sends those that it has logged.
        heartbeat_seconds: see Rule 5.

    Raises:
        AccessError: the user may not read the log.
        AnotherServerError: another server answers.
        SourceError: the server no longer has the position, or does not answer.
    """
    first = start if start.position <= FARTHEST else replace(start, position=FIRST)
    with _connected(address, identity, None, heartbeat_seconds) as connection:
        _ask(connection, first, server_id, statements=statements)
        events = _events(connection, first)
        yield from events if first == start else from_position(events, start)


def dump_bytes(
    address: Address,
    start: LogPosition,
    server_id: int | None = None,
    identity: str | None = None,
    *,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> Iterator[bytes]:
    """Yields the same events as `dump`, many at a time, end to end: the kernel splits what is received.

    Args and errors as of `dump`.
    """
    if start.position > FARTHEST:
        events = dump(address, start, server_id, identity, heartbeat_seconds=heartbeat_seconds)
        yield from (event.data for event in events)
        return
    with _connected(address, identity, None, heartbeat_seconds) as connection:
        _ask(connection, start, server_id, statements=False)
        packets = decoding.changefeed_kernel.BinlogPackets(connection._next_seq_id)
        connection._sock.settimeout(connection._read_timeout)
        other: bytes | None = None
        while other is None:
            events, is_sound, other = packets.split(received(connection))
            if events:
                yield events
            if not is_sound:
                raise lost()
        size = len(other) - 1
        unread = f"an event has {size} bytes, its header declares another size"
        check_end(other, f"the binary log of {address} cannot be read: {unread}")


def _ask(connection: Connection[Any], start: LogPosition, server_id: int | None, *, statements: bool) -> None:
    """Asks for the log from a position on."""
    flags = _NON_BLOCKING | (_ANNOTATIONS if _asks_for_statements(connection, statements=statements) else 0)
    own_id = _registered(connection, server_id)
    request = struct.pack("<IHI", start.position, flags, own_id) + start.file.encode()
    connection._execute_command(_DUMP, request)


def _asks_for_statements(connection: Connection[Any], *, statements: bool) -> bool:
    """Whether MariaDB is asked for the statements of rows: also if it may write events without positions, see Rule 2."""
    if not is_mariadb(connection):
        return False
    return statements or bool(rows(connection, "SHOW GLOBAL VARIABLES LIKE 'binlog_legacy_event_pos'"))


def dump_after(
    address: Address, gtids: GtidSet, identity: str, *, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> Iterator[LogEvent]:
    """Yields the events of the transactions that are not among these GTIDs, to the current end of the log.

    Raises:
        ValueError: the server cannot be asked for them.
        AccessError, SourceError: see `dump`.
    """
    with _connected(address, identity, gtids, heartbeat_seconds) as connection:
        _ask_after(connection, gtids)
        yield from _events(connection, LogPosition("", FIRST))


def _ask_after(connection: Connection[Any], gtids: GtidSet) -> None:
    """Asks for the log without the transactions of a set; MariaDB has it from the session, see `_session`."""
    own_id = _registered(connection, None)
    if isinstance(gtids, MySqlGtids):
        data = gtids.encoded()
        flags = _NON_BLOCKING | _THROUGH_GTIDS
        request = struct.pack("<HIIQI", flags, own_id, 0, FIRST, len(data)) + data
        connection._execute_command(_DUMP_GTIDS, request)
    else:
        connection._execute_command(_DUMP, struct.pack("<IHI", FIRST, _NON_BLOCKING, own_id))


def from_position(events: Iterable[LogEvent], start: LogPosition) -> Iterator[LogEvent]:
    """Yields those of a file's events that a connection gets which asks for a position in it."""
    for event in events:
        if event.code == codes.FORMAT_DESCRIPTION and event.placed and event.at.file == start.file:
            yield LogEvent(event.code, start, start, _sent_again(event.data), placed=False)
        elif not event.placed or event.at.number >= start.number:
            yield event


def _sent_again(data: bytes) -> bytes:
    """A format description as the server sends it in the middle of a file: without a next position."""
    body = _without_checksum(data)
    sent = body[:_NEXT_AT] + bytes(4) + body[_NEXT_AT + 4 :]
    return sent if body == data else sent + zlib.crc32(sent).to_bytes(CHECKSUM_SIZE, "little")


@contextmanager
def _connected(
    address: Address, identity: str | None, gtids: GtidSet | None, heartbeat_seconds: float
) -> Iterator[Connection[Any]]:
    """A connection that is prepared for the log; each answer must come within three heartbeats."""
    connection = connect(address)
    try:
        connection._read_timeout = _MISSED * heartbeat_seconds
        with translated(address):
            if identity is not None:
                check_identity(address, connection, identity)
            nanoseconds = round(heartbeat_seconds * 1e9)
            rows(connection, f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
            for statement in _session(mariadb=is_mariadb(connection), after=gtids):
                rows(connection, statement)
            yield connection
    finally:
        connection._force_close()  # a polite end would wait for what the server still sends


def of_same_log(events: Iterable[LogEvent], known: SourceOffset, address: Address) -> Iterator[LogEvent]:
    """Yields the events, after checking that their file is the one that was read before.

    Raises:
        LostLogError: it is another one.
    """
    for event in events:
        is_start = event.code == codes.FORMAT_DESCRIPTION and event.at.file == known.at.file
        if is_start and known.begun not in (0, event.timestamp):
            raise LostLogError(f"{address} has another {known.at.file} than before: its log was reset")
        yield event


def _registered(connection: Connection[Any], server_id: int | None) -> int:
    """Registers a replica; returns its id."""
    own_id = random.randint(2**31, 2**32 - 1) if server_id is None else server_id + random.randrange(_RANGE)
    connection._execute_command(_REGISTER, _registration(own_id))  # PyMySQL has no method
    connection._read_packet()
    return own_id


def _events(connection: Connection[Any], at: LogPosition) -> Iterator[LogEvent]:
    while True:
        packet = connection._read_packet()
        if packet.is_eof_packet():
            return
        event = placed(packet.get_all_data()[1:], at)
        at = event.end
        yield event


def _session(*, mariadb: bool, after: GtidSet | None) -> list[str]:
    """The statements that prepare a connection for the log: Rule 4."""
    if mariadb:
        begin = "" if after is None else f", @slave_connect_state = '{after}', @slave_gtid_strict_mode = 1"
        return ["SET @mariadb_slave_capability = 4, @master_binlog_checksum = @@GLOBAL.binlog_checksum" + begin]
    checksum = "@master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum"
    return [f"SET {checksum}, @slave_uuid = '{uuid.uuid4()}'"]


def _registration(server_id: int) -> bytes:
    """The body of COM_REGISTER_SLAVE: no host, user, password and port."""
    return struct.pack("<IBBBHII", server_id, 0, 0, 0, 0, 0, 0)


def placed(data: bytes, at: LogPosition) -> LogEvent:
    """Returns an event with its position, given the position after the one before."""
    _, code, _, size, following, flags = _HEADER.unpack_from(data)
    if code == codes.ROTATE and (flags & codes.ARTIFICIAL or following == 0):
        body = _without_checksum(data)[HEADER_SIZE:]
        end = LogPosition(body[8:].decode(), int.from_bytes(body[:8], "little"), at.shift)
        return LogEvent(code, end, end, data, placed=False)
    if flags & codes.ARTIFICIAL or code in _HEARTBEATS or (following == 0 and code in _OF_CONNECTION):
        return LogEvent(code, at, at, data, placed=False)
    if following == 0:
        return LogEvent(code, at, LogPosition(at.file, at.position + size, at.shift), data, placed=True)
    upper = at.position >> 32
    if following < at.position & 0xFFFFFFFF:
        upper += 1
    end = LogPosition(at.file, upper << 32 | following, at.shift)
    return LogEvent(code, LogPosition(at.file, end.position - size, at.shift), end, data, placed=True)


def _without_checksum(data: bytes) -> bytes:
    """The bytes of an event before its checksum, if it has one: no format description has declared it yet."""
    body, stored = data[:-CHECKSUM_SIZE], int.from_bytes(data[-CHECKSUM_SIZE:], "little")
    return body if zlib.crc32(body) == stored else data
