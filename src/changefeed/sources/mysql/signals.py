r"""Requests to copy tables again that are rows of a table of the server: the signal table of Debezium's connectors.

    id           type               data
    ad-hoc-1     execute-snapshot   {"data-collections": ["shop.orders"], "type": "incremental"}
    ad-hoc-2     execute-snapshot   {"data-collections": ["shop\..*"], "additional-conditions":
                                      [{"data-collection": "shop.items", "filter": "price > 5"}]}
    note-1       log                {"message": "after the repair"}

Rule 1. A row that is inserted is a signal; its columns count by their order, not by their names. Updates and deletes are none.
        One in an XA transaction counts when that is prepared: a copy that was not needed does no harm.
Rule 2. The planner sees each event of the log once, before its batch is in the ledger. So a signal is carried out exactly once.
Rule 3. A signal never stops a pipeline: anyone who may write the table can send one. What cannot be carried out is a warning.
Rule 4. `data-collections` are regular expressions for `database.table`, of the captured tables at this moment. A table with a
        filter is copied in part (`copying_again.py`), all others whole: for both types of snapshots.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from changefeed.model.names import names_of
from changefeed.mysql.binlog import Parser, Rows, codes
from changefeed.mysql.binlog.framing import HEADER_SIZE
from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql.dump import GTIDS, LogEvent
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Name, quoted

_log = logging.getLogger(__name__)
_ID = slice(HEADER_SIZE, HEADER_SIZE + 6)  # of a table map and of a row event: the number of the table
_NAME_AT = HEADER_SIZE + 8  # in a table map, behind the number and the flags
_INSERTS = frozenset(code for code, kind in KINDS.items() if kind.op == "insert")
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Signal:
    """A row of the signal table, or a record of the signal topic.

    Attributes:
        place: of its event in the log, or of the record.
        id: its name for people.
        type: such as `execute-snapshot`.
        data: JSON, by its type.
    """

    place: str
    id: str
    type: str
    data: str


class SignalLog:
    """The signals among the events of a log, which pass through `watched`."""

    def __init__(self, table: str, *, ignores_case: bool) -> None:
        """Looks for the rows of a table.

        Args:
            table: `database.table`.
            ignores_case: whether the server compares names of tables without their case.
        """
        self._ignores_case = ignores_case
        self._name = names_of(self._folded(table))
        self._bytes = b"".join(bytes([len(n)]) + n + b"\0" for n in (name.encode() for name in self._name))
        self._parser = Parser()
        self._ids = set[bytes]()  # numbers of the table in the open transaction
        self._found = list[tuple[LogPosition, Signal]]()

    def watched(self, events: Iterable[LogEvent], maps: Iterable[bytes] = ()) -> Iterator[LogEvent]:
        """Yields the events, and notes their signals.

        Args:
            events: of the log.
            maps: the table maps of the statement that is open before them.
        """
        waiting = [*maps]  # for the format of the log
        for event in events:
            if event.code == codes.FORMAT_DESCRIPTION:
                self._parser.feed(event.data)
                for data in waiting:
                    self._map(data)
                waiting = []
            elif event.code == codes.TABLE_MAP:
                self._map(event.data)
            elif event.code in GTIDS:
                self._ids.clear()
            elif not event.is_undone and self._may_have_signals(event):
                self._read(event)
            yield event

    def before(self, end: LogPosition) -> list[Signal]:
        """The signals before a position."""
        return [signal for at, signal in self._found if at.number < end.number]

    def _may_have_signals(self, event: LogEvent) -> bool:
        if event.code == codes.TRANSACTION_PAYLOAD:
            return self._bytes in self._folded(self._parser.inflate(event.data))
        return event.code in _INSERTS and event.data[_ID] in self._ids

    def _folded(self, name: Any) -> Any:
        return name.lower() if self._ignores_case else name

    def _map(self, data: bytes) -> None:
        if self._folded(data[_NAME_AT : _NAME_AT + len(self._bytes)]) == self._bytes:
            self._parser.feed(data)
            self._ids.add(data[_ID])

    def _read(self, event: LogEvent) -> None:
        for part in self._parser.feed(event.data):
            if not isinstance(part, Rows) or part.op != "insert":
                continue
            if (self._folded(part.table.database), self._folded(part.table.table)) != self._name:
                continue
            for _, after in part.rows:
                values = dict(zip(part.after_columns or (), after or (), strict=True))
                texts = (_text(values.get(number)) for number in range(_COLUMNS))
                self._found.append((event.at, Signal(str(event.at), *texts)))


def copies_of(signals: Iterable[Signal], tables: Callable[[], list[Name]]) -> tuple[CopyRequest, ...]:
    """Returns the requests of signals to copy tables again, and logs what the others say.

    Args:
        signals: in their order.
        tables: returns the captured tables at this moment.
    """
    requests = list[CopyRequest]()
    for signal in signals:
        try:
            requests += _carried_out(signal, tables)
        except (ValueError, TypeError, KeyError, AttributeError, re.error) as error:
            reason = str(error) or type(error).__name__
            _log.warning("the signal %s at %s is passed over (%s): %s", signal.id, signal.place, reason, signal.data)
    return tuple(requests)


def missing_table(server: Server, table: str) -> list[str]:
    """Returns a sentence if the server does not have the signal table, or one with too few columns."""
    database, name = names_of(table)
    columns = server.texts(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, name),
    )
    if len(columns) >= _COLUMNS:
        return []
    return [
        f"source.signal-table: {server.address} has no table {table} with columns for an id, a type and data, so that no signal "
        f"can come: CREATE TABLE {quoted(database)}.{quoted(name)} (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, "
        "data VARCHAR(2048))"
    ]


def _carried_out(signal: Signal, tables: Callable[[], list[Name]]) -> list[CopyRequest]:
    data = json.loads(signal.data or "{}")
    if signal.type == "log":
        _log.info("signal %s at %s: %s", signal.id, signal.place, data["message"])
        return []
    if signal.type != "execute-snapshot":
        raise ValueError(f"its type is {signal.type!r}, expected execute-snapshot or log")
    if str(data.get("type") or "incremental").lower() not in ("incremental", "blocking"):
        raise ValueError(f"the snapshot's type is {data['type']!r}, expected incremental or blocking")
    names = tables()
    chosen = [name for pattern in data["data-collections"] for name in _selected(pattern, names)]
    filters = {name: str(data["additional-condition"]) for name in chosen} if data.get("additional-condition") else {}
    for condition in data.get("additional-conditions") or ():
        filters |= dict.fromkeys(_selected(condition["data-collection"], chosen), str(condition["filter"]))
    if any(re.match(r"\s*select\b", where, re.IGNORECASE) for where in filters.values()):
        raise ValueError("a filter is a SELECT statement, expected the condition alone")
    if not chosen:
        raise ValueError("it names no table that is captured")
    whole = tuple(dict.fromkeys(name for name in chosen if name not in filters))
    return [
        *([CopyRequest(whole, None, signal.id)] if whole else []),
        *(CopyRequest((name,), where, signal.id) for name, where in filters.items()),
    ]


def _selected(pattern: str, names: Iterable[Name]) -> list[Name]:
    return [name for name in names if re.fullmatch(pattern, ".".join(name))]


def _text(value: Any) -> str:
    """A value of a column of text; bytes, where the log does not name the character set, are UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)
