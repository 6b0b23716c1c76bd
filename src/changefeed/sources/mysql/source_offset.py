"""The source offset of a MySQL server: a position in its log, and what is left of the first copy.

    {"version": 1, "server": "0000…-0001", "file": "binlog.000003", "position": 14624, "begun": 1795855222}
    {…, "gtids": "0-1-306", "shift": 6}                         for another server: see `failover.py`
    {…, "patterns": ["shop.*"]}                                  of `source.tables`: their tables are complete
    {…, "joining": ["shop.*", "crm.*"], "copy": …}               and those for which tables are copied now
    {…, "columns": [["shop.a.b"], ["shop.a.c 5d41…"]], "joining_columns": …}    the same of columns that are excluded or masked
    {…, "maps": ["dGhl…"]}                                      inside of a transaction: the table maps of the statement
    {…, "copy": {"tables": [["shop", "orders", "9a1e0c…"]], "table": 0, "from": "1000", "chunks": 3}}   inside of the first copy
    {…, "copy": {…, "from": ["7", "1000"], …}}                   of a table whose key has several columns
    {…, "copy_bytes": 6}                                         bytes behind the position that earlier copies beside the log have
    {…, "complete": ["binlog.000003", 20112]}                   after it: the tables are complete at this position
    {…, "requests": [{"tables": [["shop", "orders"]], "where": "id > 7"}]}       tables to copy again, see `copying_again.py`
    {…, "signals": ["ops.signals", 17, 0]}                      the signal topic, and the next offset of each partition
    {…, "history": "eJy…"}                                      definitions at the position, see `schema_history.py`
    {…, "transaction": {"id": "0-1-23", …}}                     of a stream of events, inside of a transaction
    {…, "prepared": {"X'61',X'',1": ["binlog.000003", 14211, 14538]}}            XA transactions that have not ended, see `xa.py`
    {…, "unsent": ["binlog.000003", 14700, 1]}                  of one that continues a connector: what that has not sent

While the first copy is read, the position stays where the log was when it began. See `first_copy.py`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from changefeed.sources.copies import CopyRequest, read_request

_POSITION_BITS = 40


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in the log: the start of an event, or the end of the last one.

    Attributes:
        file: name of a file of the log.
        position: offset in it, in bytes.
        shift: added to the numbers of files after a failover, see `failover.py`.
    """

    file: str
    position: int
    shift: int = 0

    @property
    def file_number(self) -> int:
        """The number of the file, with the shift."""
        return int(self.file.rpartition(".")[2]) + self.shift

    @property
    def number(self) -> int:
        """`file number << 40 | position`: the commit_ts of what is there."""
        return self.file_number << _POSITION_BITS | self.position

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An XA transaction that was prepared; see `xa.py`.

    Attributes:
        start, end: its GTID, and the position after its XA_PREPARE.
        commit: the position of its XA COMMIT; None if it is not committed.
        seconds: the time of XA COMMIT, in seconds since 1970.
    """

    start: LogPosition
    end: LogPosition
    commit: LogPosition | None = None
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of the first copy.

    Attributes:
        tables: all of its tables: database and name.
        fingerprints: of the definition of each table.
        table: index of the table that is read next.
        start: SQL literals of the first key that was not read of it; None at its beginning. Earlier versions wrote the first
            column of a key alone.
        chunks: number of chunks that have been read.
        requests: the number of the source offset's requests that this copy carries out.
        where: the condition of the rows that are copied; None: all rows.
    """

    tables: tuple[tuple[str, str], ...]
    fingerprints: tuple[str, ...]
    table: int = 0
    start: tuple[str, ...] | None = None
    chunks: int = 0
    requests: int = 0
    where: str | None = None


@dataclass(frozen=True, slots=True)
class SignalOffsets:
    """The places where the signal topic is read next; see `signal_topic.py`.

    Attributes:
        topic: its name.
        offsets: of each partition, by its number.
    """

    topic: str
    offsets: tuple[int, ...]


class RuledColumns(NamedTuple):
    """Columns that are excluded or masked.

    Attributes:
        excluded: the patterns of `source.exclude-columns`.
        masked: those of `source.mask-columns`, with fingerprints, see `ColumnPatterns.masked`.
    """

    excluded: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()


NO_COLUMNS = RuledColumns()


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """See the head of this file.

    Attributes:
        server: what identifies the log, see `server.identity_of`.
        at: the position of the next event.
        begun: when the file of `at` was begun, in seconds since 1970; 0 if that is not known. After RESET MASTER there are
            files with the same names.
        maps: the events TABLE_MAP of the statement of which rows come next, if it was begun.
        copy: what is left of the first copy; None without one, or after it.
        complete: the tables are complete at this position, and no cut is before it; None without a first copy.
        patterns: those of `source.tables` whose tables are captured; None in an offset without them.
        joining: those for which further tables are copied; None without such a copy, empty if it has to begin again. See
            `planning.py`.
        columns, joining_columns: the columns that are excluded or masked, which belong to `patterns` and `joining`.
        gtids: the GTIDs of all transactions before `at`, as `gtid_set.parse` takes them; None if they are not known.
        transaction: of a stream of events, the transaction that was begun (`OpenTransaction.plain`); None between two.
        unsent: of a stream of events, the first event whose rows are not all sent, and the number of its rows that are; None if
            all that comes next is unsent.
        requests: tables to copy again that are not complete, in the order of the requests.
        signals: where the signal topic is read next; None if it was not read yet.
        history: the definitions of the tables at `at`, as `schema_history.read_history` takes them; None: the log names columns.
        prepared: XA transactions before `at` that are neither committed nor rolled back, with their names.
        copy_bytes: number of bytes behind `at` that the rows of copies beside the log have; see `planning.py`.
    """

    server: str
    at: LogPosition
    begun: int = 0
    maps: tuple[bytes, ...] = field(default=(), repr=False)
    copy: CopyProgress | None = None
    complete: LogPosition | None = None
    gtids: str | None = None
    patterns: tuple[str, ...] | None = None
    joining: tuple[str, ...] | None = None
    transaction: dict[str, Any] | None = None
    unsent: tuple[LogPosition, int] | None = None
    requests: tuple[CopyRequest, ...] = ()
    copy_bytes: int = 0
    prepared: tuple[tuple[str, Prepared], ...] = ()
    signals: SignalOffsets | None = None
    history: str | None = field(default=None, repr=False)
    columns: RuledColumns = NO_COLUMNS
    joining_columns: RuledColumns = NO_COLUMNS

    def selects(self, tables: tuple[str, ...], columns: RuledColumns) -> bool:
        """Whether the tables are complete, or are copied now, for these patterns of tables and these columns."""
        if self.joining is not None:
            return (self.joining, self.joining_columns) == (tables, columns)
        return self.patterns in (None, tables) and self.columns == columns

    @property
    def is_first_copy(self) -> bool:
        """Whether the first copy is not complete: then its positions are of this server alone."""
        return self.is_copying and self.joining is None

    @property
    def is_copying(self) -> bool:
        """Whether the first copy, or one of tables that join, is not complete."""
        return self.copy is not None or self.complete is not None

    def text(self) -> str:
        """The source offset in the form that the ledger stores."""
        document: dict[str, Any] = {
            "version": 1, "server": self.server, "file": self.at.file, "position": self.at.position,
            "begun": self.begun,
        }  # fmt: skip
        if self.gtids is not None:
            document["gtids"] = self.gtids
        if self.patterns is not None:
            document["patterns"] = list(self.patterns)
        if self.joining is not None:
            document["joining"] = list(self.joining)
        for name, columns in (("columns", self.columns), ("joining_columns", self.joining_columns)):
            if any(columns):
                document[name] = list(map(list, columns))
        if self.at.shift:
            document["shift"] = self.at.shift
        if self.maps:
            document["maps"] = [b64encode(table_map).decode() for table_map in self.maps]
        if self.copy is not None:
            copy = self.copy
            tables = [[*name, mark] for name, mark in zip(copy.tables, copy.fingerprints, strict=True)]
            start = copy.start[0] if copy.start is not None and len(copy.start) == 1 else copy.start
            document["copy"] = {"tables": tables, "table": copy.table, "from": start, "chunks": copy.chunks}
            if copy.requests:
                document["copy"] |= {"requests": copy.requests, "where": copy.where}
        if self.complete is not None:
            document["complete"] = [self.complete.file, self.complete.position]
        if self.transaction is not None:
            document["transaction"] = self.transaction
        if self.unsent is not None:
            document["unsent"] = [self.unsent[0].file, self.unsent[0].position, self.unsent[1]]
        if self.prepared:
            places = {name: [each.start.file, each.start.position, each.end.position] for name, each in self.prepared}
            document["prepared"] = places
        if self.copy_bytes:
            document["copy_bytes"] = self.copy_bytes
        if self.requests:
            document["requests"] = [request.to_dict() for request in self.requests]
        if self.signals is not None:
            document["signals"] = [self.signals.topic, *self.signals.offsets]
        if self.history is not None:
            document["history"] = self.history
        return json.dumps(document)


def read(text: str) -> SourceOffset:
    """Reads a source offset of the ledger."""
    document = json.loads(text)
    copy, complete, shift = document.get("copy"), document.get("complete"), document.get("shift", 0)
    return SourceOffset(
        document["server"],
        LogPosition(document["file"], document["position"], shift),
        document["begun"],
        tuple(map(b64decode, document.get("maps", ()))),
        None
        if copy is None
        else CopyProgress(
            tuple((database, table) for database, table, _ in copy["tables"]),
            tuple(mark for _, _, mark in copy["tables"]),
            copy["table"],
            None if (start := copy["from"]) is None else (start,) if isinstance(start, str) else tuple(start),
            copy["chunks"],
            copy.get("requests", 0),
            copy.get("where"),
        ),
        None if complete is None else LogPosition(complete[0], complete[1], shift),
        document.get("gtids"),
        None if (patterns := document.get("patterns")) is None else tuple(patterns),
        None if (joining := document.get("joining")) is None else tuple(joining),
        document.get("transaction"),
        None if (unsent := document.get("unsent")) is None else (LogPosition(*unsent[:2]), unsent[2]),
        tuple(map(read_request, document.get("requests", ()))),
        document.get("copy_bytes", 0 if joining is None else 3),  # earlier versions wrote none, and always had 3
        tuple(
            (name, Prepared(LogPosition(file, start, shift), LogPosition(file, end, shift)))
            for name, (file, start, end) in document.get("prepared", {}).items()
        ),
        None if (signals := document.get("signals")) is None else SignalOffsets(signals[0], tuple(signals[1:])),
        document.get("history"),
        RuledColumns(*map(tuple, document.get("columns", ()))),
        RuledColumns(*map(tuple, document.get("joining_columns", ()))),
    )
