"""Change events other than row changes, and dead letters. Row changes: `batch.py` in columns, `change.py` one by one.

`str(event)` is the line that `changefeed decode` prints for it.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any

from changefeed.model.position import Place, Position
from changefeed.model.table import Column

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
OPS = ("insert", "update", "delete", "read", "upsert")


@dataclass(frozen=True, slots=True)
class Instant:
    """A time in UTC, with the number of fraction digits that the producer sent.

    Attributes:
        us: microseconds since 1970-01-01 00:00:00 UTC.
        digits: number of known fraction digits: 0, 3 or 6.
    """

    us: int
    digits: int

    @property
    def datetime(self) -> dt.datetime:
        """The same time as a `datetime` in UTC."""
        return _EPOCH + dt.timedelta(microseconds=self.us)

    def __str__(self) -> str:
        return self.datetime.isoformat(timespec=_TIMESPECS[self.digits]).replace("+00:00", "Z")

    def __format__(self, spec: str) -> str:
        """Formats the time as `datetime` does: `f"{event.instant:%H:%M}"`."""
        return format(self.datetime, spec) if spec else str(self)


_TIMESPECS = {0: "seconds", 3: "milliseconds", 6: "microseconds"}


class _Event:
    """The fields of every event that is not a row change."""

    __slots__ = ()

    @property
    def position(self) -> Position:
        """Topic, partition, offset and index of the event."""
        place: Position = self.place  # type: ignore[attr-defined]  # each subclass has it
        return place

    @property
    def commit_time(self) -> dt.datetime | None:
        """Time of the commit, in UTC; None if the protocol does not carry it.

        `instant` is the same time with its number of known digits.
        """
        instant: Instant | None = getattr(self, "instant", None)  # dead letters have none
        return None if instant is None else instant.datetime

    def __str__(self) -> str:
        from changefeed.model.text import describe, event_line

        return describe(json.loads(event_line(self)))  # type: ignore[arg-type]  # of one of the subclasses


@dataclass(frozen=True, slots=True)
class SchemaChange(_Event):
    """A DDL statement was executed upstream.

    Attributes:
        type: the kind of statement in snake case: `create_table`, `add_column`, … or `other`.
        database, table: the names that the record contains; None if it does not contain them.
        ddl: the text of the statement, as sent; None if the record does not contain it.
        place: position of the event.
        commit_ts: the upstream's number of the transaction; None if the protocol does not carry it.
        instant: time of the commit; None if the protocol does not carry it.
        columns: the table's columns after the change; None if the record does not contain them.
        sequence: its place in the order of changes, if there is no commit_ts.
        origin: other fields of the protocol, by the protocol's own names.
    """

    type: str
    database: str | None
    table: str | None
    ddl: str | None
    place: Place
    columns: tuple[Column, ...] | None = None
    commit_ts: int | None = None
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Resolved(_Event):
    """A resolved event: no later event of the same partition will have a commit_ts at or below this one.

    Attributes:
        commit_ts: the upstream's number of a transaction.
        place: position of the event.
        instant: time of the commit_ts; None if the protocol does not carry it.
        origin: other fields of the protocol, by the protocol's own names.
    """

    commit_ts: int
    place: Place
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionMark(_Event):
    """The begin or end of a transaction.

    Attributes:
        status: `begin` or `end`.
        id: the transaction's name, such as a GTID.
        place: position of the event.
        event_count: number of the transaction's events; None if the record does not contain it.
        tables: `database.table` -> number of the transaction's events in it.
    """

    status: str
    id: str
    place: Place
    event_count: int | None = None
    tables: dict[str, int] | None = None
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heartbeat(_Event):
    """A sign of life of the producer.

    Attributes:
        place: position of the event.
        sequence: no later event of the partition will be at or below this in the order of changes; None if the event does
            not promise this.
    """

    place: Place
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    sequence: int | None = None


Control = SchemaChange | Resolved | TransactionMark | Heartbeat


@dataclass(frozen=True, slots=True)
class DeadLetter(_Event):
    """A record, or one message in it, that could not be decoded. None of its content has been used.

    Attributes:
        reason: a stable code, such as `truncated` or `bad-json` (docs/reference/errors.md).
        error: the full error message.
        byte: byte offset of the error in the key or value; None if unknown.
        key, value, headers: those of the whole record, as read.
        database, table: the table of the message; None if it could not be read.
    """

    reason: str
    error: str
    protocol: str
    place: Place
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    byte: int | None = None
    schema_id: int | str | None = None
    database: str | None = None
    table: str | None = None
