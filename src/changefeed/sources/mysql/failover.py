"""Continues on another server, such as a replica that took over: at the first transaction that was not read, by GTID.

    known   server A, binlog.000007:4711, GTIDs 0-1-306          A is gone; the address leads to B
    B       has 0-1-306, and its log begins before it            else the run stops
    moved   server B, binlog.000002:980, behind 0-1-306          numbers of files go on: 000002 counts as 000008 (`shift`)

Rule 1. The source offset has the GTIDs of all transactions before it: those of the server when it was taken, then one for each
        transaction that is read (`Executed`). Without them, only the server itself can continue.
Rule 2. A server that lacks transactions that were read is waited for: a replica may be behind. One that no longer has those
        that come next cannot continue.
Rule 3. commit_ts never go back: if the new server's position is lower, all its file numbers count as higher by `shift`.
Rule 4. The rows of a copy may be ahead of the source offset (`keyless.py`), by at most 2^14 files: `FILES_OF_A_COPY`. So many
        numbers are left out when a server takes over before the copy is complete.
"""

from __future__ import annotations

import logging
import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from changefeed.errors import ProtocolError, SourceError
from changefeed.mysql.binlog import Parser, codes
from changefeed.mysql.binlog.events import MariaDbGtidList, PreviousGtids
from changefeed.mysql.binlog.framing import HEADER_SIZE
from changefeed.mysql.gtid_set import GtidSet, MariaDbGtids, MySqlGtids, parse
from changefeed.sources.mysql.connection import LostLogError
from changefeed.sources.mysql.dump import GTIDS, LogEvent, dump, dump_after
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition, SourceOffset

_log = logging.getLogger(__name__)
_EARLIER = "; or name the earlier server"
_UUID, _NUMBER = slice(HEADER_SIZE + 1, HEADER_SIZE + 17), slice(HEADER_SIZE + 17, HEADER_SIZE + 25)
_NUMBER_AND_DOMAIN = struct.Struct("<QI")
_SERVER = slice(5, 9)  # in the header
FILES_OF_A_COPY = 1 << 14
_LISTS = frozenset({codes.PREVIOUS_GTIDS, codes.MARIADB_GTID_LIST})


class Executed:
    """The GTIDs of all transactions up to an event: Rule 1."""

    def __init__(self, text: str | None) -> None:
        self._gtids = None if text is None else parse(text)

    def add(self, event: LogEvent) -> None:
        """Takes in the next event of the log."""
        if event.code == codes.MARIADB_GTID and self._gtids is not None:
            if not isinstance(self._gtids, MariaDbGtids):  # an empty text was taken for MySQL's empty set
                self._gtids = MariaDbGtids()
            domain, server, number = _of_mariadb(event)
            self._gtids.add(domain, server, number)
        elif event.code == codes.GTID and isinstance(self._gtids, MySqlGtids):
            source, number = _of_mysql(event)
            self._gtids.add(source, number, number)
        elif event.code in (codes.ANONYMOUS_GTID, codes.GTID_TAGGED):
            self._gtids = None  # such a transaction cannot be found on another server
        elif event.code in _LISTS and event.placed and self._gtids is None:
            self._gtids = _listed(event)

    def text(self) -> str | None:
        """The set, as `parse` takes it; None if it is not known."""
        return None if self._gtids is None else str(self._gtids)


def _of_mariadb(event: LogEvent) -> tuple[int, int, int]:
    """Domain, server and number of a transaction of MariaDB."""
    number, domain = _NUMBER_AND_DOMAIN.unpack_from(event.data, HEADER_SIZE)
    return domain, int.from_bytes(event.data[_SERVER], "little"), number


def _of_mysql(event: LogEvent) -> tuple[str, int]:
    """Source and number of a transaction of MySQL."""
    return _uuid(event.data[_UUID]), int.from_bytes(event.data[_NUMBER], "little")


@cache
def _uuid(sid: bytes) -> str:
    return str(uuid.UUID(bytes=sid))


def _is_in(gtids: GtidSet, event: LogEvent) -> bool:
    """Whether the transaction that an event begins is in a set."""
    if event.code == codes.MARIADB_GTID and isinstance(gtids, MariaDbGtids):
        domain, _, number = _of_mariadb(event)
        return gtids.has(domain, number)
    return event.code == codes.GTID and isinstance(gtids, MySqlGtids) and gtids.has(*_of_mysql(event))


def _listed(event: LogEvent) -> GtidSet | None:
    """The GTIDs before a file, which its first events list."""
    try:
        [read] = Parser(checksum=event.has_checksum).feed(event.data)
    except ProtocolError:
        return None
    if isinstance(read, PreviousGtids):
        gtids = parse(read.gtids)
        return None if isinstance(gtids, MySqlGtids) and gtids.tagged else gtids
    return parse(",".join(read.gtids)) if isinstance(read, MariaDbGtidList) else None


def moved(server: Server, known: SourceOffset) -> SourceOffset:
    """Returns where another server continues.

    Args:
        server: the one that answers now.
        known: the source offset of the earlier one; not one inside of a first copy.

    Raises:
        SourceError: it cannot, or not yet.
    """
    was = f"{server.address} is another server than before ({server.identity} for {known.server})"
    if known.gtids is None:
        raise LostLogError(
            f"{was}, and positions in its log mean nothing in another. With GTIDs (gtid_mode=ON in MySQL) a run continues on "
            "any replica",
            _EARLIER,
        )
    if known.maps:
        raise LostLogError(f"{was}, and a transaction had been read in part", _EARLIER)
    at = shifted(position_after(server, known.gtids), known)
    _log.warning("%s: reading goes on at %s, behind %s", was, at, known.gtids or "no transaction")
    return replace(
        known, server=server.identity, at=at, begun=0, prepared=()
    )  # places of XA transactions, too, are others


def shifted(at: LogPosition, known: SourceOffset) -> LogPosition:
    """Returns a position of another log so that it counts as being in a later file than all that was read before.

    Args:
        at: the position.
        known: the source offset up to which another log was read: rules 3 and 4.
    """
    last = known.at.file_number + (FILES_OF_A_COPY if known.is_copying else 0)
    at = replace(at, shift=known.at.shift)
    return replace(at, shift=at.shift + max(0, last + 1 - at.file_number))


def beginning(server: Server, start: LogPosition | str) -> tuple[LogPosition, str | None]:
    """Returns the position that a definition names, itself or by the GTIDs before it, and these GTIDs; None if not known.

    Raises:
        SourceError: the log does not have it.
    """
    if isinstance(start, str):
        return position_after(server, start), start
    server.check_has(start)
    return start, server.gtids_at(start)


def position_after(server: Server, gtids: str) -> LogPosition:
    """Returns the position of the first transaction that is not among these GTIDs; the end of the log if all are.

    Raises:
        SourceError: the server lacks some of them, or no longer has what comes after them.
    """
    if lacks := server.lacks(gtids):
        raise SourceError(
            f"{server.address} does not have all transactions that were read: it has not {lacks}. A replica gets them when it "
            "catches up; a server that took over without them has lost them, and a new pipeline with a first copy is needed",
            transient=True,
        )
    end, executed = server.end(), parse(gtids)
    if server.kind == "mariadb" and not isinstance(executed, MariaDbGtids):
        executed = MariaDbGtids()
    try:
        first = next(_begun(dump_after(server.address, executed, server.identity)), None)
    except ValueError as error:
        raise SourceError(f"{server.address}: {error}, and cannot be asked for") from error
    if first is None:
        return end
    for event in _begun(dump(server.address, first.at, identity=server.identity)):
        if _is_in(executed, event):
            raise LostLogError(
                f"{server.address} has transactions that were read in another order, behind {first.at}: its replication does not "
                "keep the order of commits (replica_preserve_commit_order, or several domains)",
                _EARLIER,
            )
    return first.at


def _begun(events: Iterable[LogEvent]) -> Iterator[LogEvent]:
    """Those of these events that begin a transaction."""
    return (event for event in events if event.placed and event.code in GTIDS)
