"""Events without rows: the log's own, statements, GTIDs and ends of transactions. A reader for each, after the header.

FORMAT_DESCRIPTION  version (2) = 4, server version (50, filled with 00), created (4), header size (1) = 19, fixed sizes
                    of all types, method of the checksum (1): 0 none, 1 CRC32
ROTATE              position (8), file                  HEARTBEAT     file; the position is the header's
INCIDENT            number (2), length (1), message     HEARTBEAT_V2  field (packed), length (packed), value: 1 file, 2 position
XID                 number (8)                          XA_PREPARE    one phase (1), format id, two lengths (4 each), gtrid, bqual
ROWS_QUERY          length (1, of no use), statement    ANNOTATE_ROWS statement
GTID                flags (1), UUID (16), number (8), then if there are more bytes: 02, last committed (8), sequence number (8),
                    commit time (7; top bit: the original's follows), size (packed), version (4; top bit as before)
PREVIOUS_GTIDS      count (8), then UUID (16), count (8), and intervals: first, last + 1 (8 each); with tags the
                        highest byte of the first count is 1, the six below it are the count, and size and text of a tag
                        follow each UUID
GTID of MariaDB     number (8), domain (4), flags (1), 2: commit id (8); 64, 128: format id (4), two lengths (1), gtrid, bqual;
                    then extra flags (1), 1: engines (1), 4, 8: number of the ALTER's start (8), 16: thread (4); filled with 00
GTID_LIST           count of 28 bits and flags of 4, then domain, server (4 each), number (8)
CHECKPOINT          length (4), file
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from changefeed.errors import ProtocolError, UnsupportedError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog import events as e
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.framing import HEADER_SIZE
from changefeed.mysql.binlog.query import read_query
from changefeed.mysql.binlog.tagged import read_tagged_gtid, varlen

_VERSION = 4
_CHECKSUMS = {0: False, 1: True}
_TOP = {4: 1 << 31, 7: 1 << 55}
_GROUP_COMMIT, _XA = 2, 64 | 128
_ENGINES, _THREAD = 1, 16
_ALTER = codes.ALTER_STARTED | codes.ALTER_ENDS
_MARIADB_FIXED = 19
_LOGICAL_CLOCK = 2


def read_format(cursor: EventCursor, header: e.Header) -> e.FormatDescription:
    """Reads a FORMAT_DESCRIPTION, whose checksum has been taken off.

    Raises:
        ProtocolError: the bytes contradict the format, or are of another version.
    """
    version = cursor.uint(2)
    if version != _VERSION:
        raise ProtocolError(f"binlog version {version}, expected {_VERSION}", reason="bad-version", byte=HEADER_SIZE)
    server = _text(cursor.take(50).rstrip(b"\0"), cursor)
    created, size = cursor.uint(4), cursor.uint(1)
    if size != HEADER_SIZE:
        raise ProtocolError(f"header size {size}, expected {HEADER_SIZE}", reason="bad-version", byte=cursor.at - 1)
    sizes = cursor.take(max(cursor.left - 1, 0))
    if len(sizes) < codes.TABLE_MAP:
        raise ProtocolError(
            f"{len(sizes)} event types, expected at least {codes.TABLE_MAP}", reason="bad-length", byte=cursor.at
        )
    method = cursor.uint(1)
    if method not in _CHECKSUMS:
        raise ProtocolError(f"checksum method {method} is unknown", reason="bad-version", byte=cursor.at - 1)
    return e.FormatDescription(header, version, server, created, sizes, _CHECKSUMS[method])


def _rotate(cursor: EventCursor, header: e.Header) -> e.Rotate:
    position = cursor.uint(8)
    return e.Rotate(header, _text(cursor.rest(), cursor), position)


def _heartbeat(cursor: EventCursor, header: e.Header) -> e.Heartbeat:
    return e.Heartbeat(header, _text(cursor.rest(), cursor), header.next_position)


def _heartbeat_v2(cursor: EventCursor, header: e.Header) -> e.Heartbeat:
    file, position = "", header.next_position
    while cursor.left and (field := cursor.packed()):
        value = EventCursor(cursor.packed_bytes(), f"heartbeat field {field}")
        if field == 1:
            file = _text(value.rest(), cursor)
        elif field == 2:
            position = value.packed()
            value.finish()
        else:
            raise ProtocolError(f"heartbeat field {field} is unknown", reason="unknown-option", byte=cursor.at)
    return e.Heartbeat(header, file, position)


def _incident(cursor: EventCursor, header: e.Header) -> e.Incident:
    number = cursor.uint(2)
    message = _text(cursor.prefixed(1), cursor)
    cursor.rest()  # MySQL writes two checksums
    return e.Incident(header, number, message)


def _stop(cursor: EventCursor, header: e.Header) -> e.Stop:
    return e.Stop(header)


def _xid(cursor: EventCursor, header: e.Header) -> e.Xid:
    return e.Xid(header, cursor.uint(8))


def _xa_prepare(cursor: EventCursor, header: e.Header) -> e.XaPrepare:
    one_phase, format_id = cursor.uint(1), _signed(cursor.uint(4))
    gtrid, bqual = cursor.uint(4), cursor.uint(4)
    return e.XaPrepare(header, bool(one_phase), format_id, cursor.take(gtrid), cursor.take(bqual))


def _rows_query(cursor: EventCursor, header: e.Header) -> e.RowsQuery:
    cursor.uint(1)  # the statement's length modulo 256
    return e.RowsQuery(header, cursor.rest())


def _annotate_rows(cursor: EventCursor, header: e.Header) -> e.RowsQuery:
    return e.RowsQuery(header, cursor.rest())


def _gtid(cursor: EventCursor, header: e.Header) -> e.Gtid:
    flags = cursor.uint(1)
    sid, number = uuid.UUID(bytes=cursor.take(16)), cursor.uint(8)
    gtid = f"{sid}:{number}" if header.code == codes.GTID else None
    if not cursor.left:
        return e.Gtid(header, gtid, bool(flags & 1))
    clock = cursor.uint(1)
    if clock != _LOGICAL_CLOCK:
        raise ProtocolError(f"logical clock {clock} is unknown", reason="unknown-option", byte=cursor.at - 1)
    last_committed, sequence_number = cursor.uint(8), cursor.uint(8)
    if not cursor.left:
        return e.Gtid(header, gtid, bool(flags & 1), last_committed, sequence_number)
    commit_us, original_us = _with_original(cursor, 7)
    size = cursor.packed() if cursor.left else None
    version, original_version = _with_original(cursor, 4) if cursor.left else (None, None)
    cursor.rest()  # the ticket of a commit group
    return e.Gtid(
        header,
        gtid,
        bool(flags & 1),
        last_committed,
        sequence_number,
        commit_us,
        original_us,
        size,
        version,
        original_version,
    )


def _with_original(cursor: EventCursor, size: int) -> tuple[int, int]:
    """A number of this server, and the one of the first server, which follows only if it differs."""
    number = cursor.uint(size)
    if number & _TOP[size]:
        return number ^ _TOP[size], cursor.uint(size)
    return number, number


def _previous_gtids(cursor: EventCursor, header: e.Header) -> e.PreviousGtids:
    start, count = cursor.at, cursor.uint(8)
    tagged = count >> 56
    if tagged > 1:
        raise ProtocolError(f"GTID set of format {tagged} is unknown", reason="unknown-option", byte=start)
    if tagged:
        count = count >> 8 & 0xFFFFFFFFFFFF
    sets: dict[str, list[str]] = {}
    for _ in range(count):
        sid = str(uuid.UUID(bytes=cursor.take(16)))
        tag = _text(cursor.take(varlen(cursor)), cursor) if tagged else ""
        parts = sets.setdefault(sid, [])
        if tag:
            parts.append(tag)
        for _ in range(cursor.uint(8)):
            first, end = cursor.uint(8), cursor.uint(8)
            if end <= first:
                raise ProtocolError(
                    f"interval {first}-{end - 1} of {sid} is empty", reason="bad-gtid", byte=cursor.at - 16
                )
            parts.append(str(first) if end == first + 1 else f"{first}-{end - 1}")
    return e.PreviousGtids(header, ",".join(":".join((sid, *parts)) for sid, parts in sets.items()))


def _mariadb_gtid(cursor: EventCursor, header: e.Header) -> e.MariaDbGtid:
    number, domain, flags = cursor.uint(8), cursor.uint(4), cursor.uint(1)
    gtid = f"{domain}-{header.server_id}-{number}"
    commit_id = cursor.uint(8) if flags & _GROUP_COMMIT else None
    xid = None
    if flags & _XA:
        format_id, gtrid, bqual = _signed(cursor.uint(4)), cursor.uint(1), cursor.uint(1)
        xid = (format_id, cursor.take(gtrid), cursor.take(bqual))
    alter = None
    if cursor.left and (extra := cursor.uint(1)):
        if extra & _ENGINES:
            cursor.uint(1)
        if extra & _ALTER:
            alter = (extra & _ALTER, cursor.uint(8) if extra & codes.ALTER_ENDS else None)
        if extra & _THREAD:
            cursor.uint(4)
        if extra & ~(_ENGINES | _ALTER | _THREAD):
            raise ProtocolError(
                f"extra flags {extra:#x} of a GTID are unknown", reason="unknown-option", byte=cursor.at
            )
    _zeros(cursor)
    return e.MariaDbGtid(header, gtid, flags, commit_id, xid, alter)


def _gtid_list(cursor: EventCursor, header: e.Header) -> e.MariaDbGtidList:
    word = cursor.uint(4)
    gtids = []
    for _ in range(word & 0xFFFFFFF):
        domain, server, number = cursor.uint(4), cursor.uint(4), cursor.uint(8)
        gtids.append(f"{domain}-{server}-{number}")
    if not gtids:  # an empty list is filled up to the fixed size of a GTID
        _zeros(cursor)
    return e.MariaDbGtidList(header, word >> 28, tuple(gtids))


def _checkpoint(cursor: EventCursor, header: e.Header) -> e.BinlogCheckpoint:
    return e.BinlogCheckpoint(header, _text(cursor.prefixed(4), cursor))


def _encrypted(cursor: EventCursor, header: e.Header) -> e.Event:
    raise UnsupportedError("the file is encrypted; read it through a connection to the server, which decrypts it")


def _skipped(cursor: EventCursor, header: e.Header) -> e.Skipped:
    cursor.rest()
    return e.Skipped(header)


def _zeros(cursor: EventCursor) -> None:
    start = cursor.at
    if cursor.rest().strip(b"\0"):
        raise ProtocolError("bytes follow the last field", reason="trailing-bytes", byte=start)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def _text(data: bytes, cursor: EventCursor) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{data!r:.80} is not UTF-8", reason="bad-text", byte=cursor.at) from error


READERS: dict[int, Callable[[EventCursor, e.Header], e.Event]] = {
    codes.QUERY: read_query,
    codes.QUERY_COMPRESSED: read_query,
    codes.STOP: _stop,
    codes.ROTATE: _rotate,
    codes.XID: _xid,
    codes.INCIDENT: _incident,
    codes.HEARTBEAT: _heartbeat,
    codes.HEARTBEAT_V2: _heartbeat_v2,
    codes.ROWS_QUERY: _rows_query,
    codes.GTID: _gtid,
    codes.ANONYMOUS_GTID: _gtid,
    codes.GTID_TAGGED: read_tagged_gtid,
    codes.PREVIOUS_GTIDS: _previous_gtids,
    codes.XA_PREPARE: _xa_prepare,
    codes.ANNOTATE_ROWS: _annotate_rows,
    codes.BINLOG_CHECKPOINT: _checkpoint,
    codes.MARIADB_GTID: _mariadb_gtid,
    codes.MARIADB_GTID_LIST: _gtid_list,
    codes.START_ENCRYPTION: _encrypted,
    **dict.fromkeys(
        (
            codes.INTVAR, codes.RAND, codes.USER_VAR, codes.APPEND_BLOCK, codes.DELETE_FILE, codes.BEGIN_LOAD_QUERY,
            codes.EXECUTE_LOAD_QUERY, codes.IGNORABLE, codes.TRANSACTION_CONTEXT, codes.VIEW_CHANGE,
        ),
        _skipped,
    ),
}  # fmt: skip
