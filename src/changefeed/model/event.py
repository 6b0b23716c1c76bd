"""Change events that are not rows, and dead letters. Rows travel in columns: see `batch.py`, and one by one: `change.py`.

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
    """A wall-clock time in UTC, with as many digits as the producer sent.

    Attributes:
        us: microseconds since the epoch.
        digits: of the fraction: 0, 3 or 6.
    """

    us: int
    digits: int

    @property
    def datetime(self) -> dt.datetime:
        """The time as Python has it, in UTC."""
        return _EPOCH + dt.timedelta(microseconds=self.us)

    def __str__(self) -> str:
        return self.datetime.isoformat(timespec=_TIMESPECS[self.digits]).replace("+00:00", "Z")

    def __format__(self, spec: str) -> str:
        """Formats like `datetime`: `f"{event.instant:%H:%M}"`."""
        return format(self.datetime, spec) if spec else str(self)


_TIMESPECS = {0: "seconds", 3: "milliseconds", 6: "microseconds"}


class _Event:
    """The fields that all events except rows share."""

    __slots__ = ()

    @property
    def position(self) -> Position:
        """The position of the event."""
        place: Position = self.place  # type: ignore[attr-defined]  # each subclass has it
        return place

    @property
    def commit_time(self) -> dt.datetime | None:
        """When the transaction was committed, in UTC, as for rows; None where the protocol does not carry it.

        `instant` has the same time with the digits that are known.
        """
        instant: Instant | None = getattr(self, "instant", None)  # dead letters have none
        return None if instant is None else instant.datetime

    def __str__(self) -> str:
        from changefeed.model.text import describe, event_line

        return describe(json.loads(event_line(self)))  # type: ignore[arg-type]  # of one of the subclasses


@dataclass(frozen=True, slots=True)
class SchemaChange(_Event):
    """DDL.

    Attributes:
        type: what it does, snake case: `create_table`, `add_column`, … or `other`.
        ddl: the statement's text as sent.
        columns: the table after the change; None if the protocol does not contain them.
        sequence: its place in the order of changes where there is no commit_ts.
        origin: other fields of the protocol, by its own keys.
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
    """The promise that no later event of the partition has a commit_ts at or below this one."""

    commit_ts: int
    place: Place
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionMark(_Event):
    """A transaction begins or ends. `status` is `begin` or `end`, `tables` maps names to event counts."""

    status: str
    id: str
    place: Place
    event_count: int | None = None
    tables: dict[str, int] | None = None
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heartbeat(_Event):
    """The producer lives.

    Attributes:
        sequence: promise that nothing of the partition follows at or below it in the order of changes; None for none.
    """

    place: Place
    instant: Instant | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    sequence: int | None = None


Control = SchemaChange | Resolved | TransactionMark | Heartbeat


@dataclass(frozen=True, slots=True)
class DeadLetter(_Event):
    """A record, or one message of it, that could not be decoded; nothing of it has been used.

    Attributes:
        reason: stable code, `ProtocolError.reason`.
        error: the full message.
        byte: where in the key or value the contradiction was seen, if known.
        key, value, headers: the whole record's, as read.
        database, table: the table of the message, if it could be read.
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
