"""The transaction to which the rows of the log belong: the details that events carry, and tables do not need.

    GTID          id, commit time       ┐
    BEGIN         thread                ├─▶ origin and transaction of each row ─▶ `RowDetails`, Arrow columns for a whole event
    ROWS_QUERY    statement             ┘
    XID, COMMIT   the end, with the number of events of each table

Rule 1. An origin has the members of Debezium's source block by their names (`file`, `pos`, `row`, `gtid`, `server_id`, `thread`,
        `query`), and as `envelope` the time at which the event was read. It is JSON, made once for each event of the log; only
        the number of the row differs.
Rule 2. An update that changes the key counts as two events of its transaction: it is written as a delete and an insert.
Rule 3. MariaDB does not log the thread, and begins a transaction with its GTID; MySQL with BEGIN. A schema change is not one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.batch import TRANSACTION
from changefeed.model.event import Instant, TransactionMark
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.model.table import TableShape, canonical
from changefeed.mysql.binlog.events import Gtid, Header, MariaDbGtid, Query, Rows, RowsQuery
from changefeed.sources.mysql.source_offset import LogPosition

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True, slots=True)
class RowDetails:
    """The details of consecutive rows of one event.

    Attributes:
        opening, closing: the JSON of their origins, before and after the number of the row.
        numbers: the number of each row in its event.
        commit_us: time of the commit, in microseconds since 1970.
        id: name of the transaction; None outside of one.
        orders, table_orders: the numbers of the rows in their transaction, and among those of their table.
    """

    opening: str
    closing: str
    numbers: Numbers
    commit_us: int
    id: str | None
    orders: Numbers
    table_orders: Numbers


def closing(context: str, now: Callable[[], int]) -> str:
    """Returns the end of an origin: when the row was read, and the run, as JSON."""
    return f',"envelope":{{"ts_ns":{now()}}},"context":{context}}}'


def run_details(context: dict[str, str], now: Callable[[], int]) -> dict[str, Any]:
    """Returns the same for the origin of a schema change."""
    return {"envelope": {"ts_ns": now()}, "context": context}


def origin_column(details: Sequence[RowDetails]) -> pa.Array:
    """Returns the origins of all rows."""
    counts = [len(each.orders) for each in details]
    of = pa.array(np.repeat(np.arange(len(details)), counts))
    opening, closing = (pa.array([getattr(each, side) for each in details]).take(of) for side in ("opening", "closing"))
    numbers = np.concatenate([each.numbers for each in details])
    return pc.binary_join_element_wise(opening, pa.array(numbers).cast(pa.string()), closing, "")


def transaction_column(details: Sequence[RowDetails]) -> pa.Array:
    """Returns the transactions of all rows."""
    counts = [len(each.orders) for each in details]
    ids = pa.array([each.id for each in details], pa.string()).take(
        pa.array(np.repeat(np.arange(len(details)), counts))
    )
    orders = [
        pa.array(np.concatenate([getattr(each, name) for each in details])) for name in ("orders", "table_orders")
    ]
    return pa.StructArray.from_arrays([ids, *orders], fields=list(TRANSACTION), mask=pc.is_null(ids))


def time_column(details: Sequence[RowDetails]) -> pa.Array:
    """Returns the commit times of all rows, in microseconds."""
    times = np.repeat([each.commit_us for each in details], [len(each.orders) for each in details])
    return pa.array(times, pa.timestamp("us", tz="UTC"))


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that has begun. `plain` and `restored` convert it for the source offset.

    Attributes:
        id: its name: GTID, or `file=…,pos=…` of its beginning.
        gtid: its GTID; None for an anonymous one.
        commit_us: time of the commit in microseconds since 1970; None if only the headers of its events have a time.
        thread: number of the connection; None if it is not logged.
        query: the statement whose rows follow; None if it is not logged.
        counts: `database.table` -> number of events so far.
    """

    id: str
    gtid: str | None
    commit_us: int | None = None
    thread: int | None = None
    query: str | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Returns the transaction as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def restored(cls, plain: dict[str, Any]) -> OpenTransaction:
        """Creates the transaction from what `plain` returned."""
        return cls(**plain)


class Transactions:
    """Follows the transactions of a log, event by event.

    Attributes:
        open: the transaction of the next rows; None between two.
    """

    def __init__(
        self,
        context: dict[str, str],
        open_transaction: OpenTransaction | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begins at a position of the log.

        Args:
            context: identifies the run; the origin's `context`.
            open_transaction: the transaction that is open there.
            now: returns the time in nanoseconds since 1970.
        """
        self.open = open_transaction
        self.context, self._now = context, now
        self._context = canonical(context)
        self._gtid: Gtid | MariaDbGtid | None = None  # of the next transaction or statement

    def gtid(self, event: Gtid | MariaDbGtid, at: LogPosition) -> bool:
        """Reads a GTID; returns whether it begins a transaction: Rule 3."""
        self._gtid, self.open = event, None
        if isinstance(event, MariaDbGtid) and not event.standalone:
            self.open = OpenTransaction(event.gtid, event.gtid)
            return True
        return False

    def begin(self, event: Query, at: LogPosition) -> bool:
        """Reads a BEGIN; returns whether it begins a transaction."""
        if self.open is not None:
            return False
        gtid = self._gtid
        assert not isinstance(gtid, MariaDbGtid)
        name = None if gtid is None else gtid.gtid
        commit_us = None if gtid is None else gtid.commit_us
        self.open = OpenTransaction(name or f"file={at.file},pos={at.position}", name, commit_us, event.thread_id)
        return True

    def statement(self, event: RowsQuery) -> None:
        """Reads the statement whose rows follow."""
        if self.open is not None:
            self.open.query = event.statement.decode(errors="replace")

    def details(self, header: Header, moved: Numbers, at: LogPosition, shape: TableShape) -> RowDetails:
        """Returns the details of an event's rows, and counts them.

        Args:
            header: the event's header.
            moved: 1 for each row whose key changes, else 0: see `moved`.
            at: the event's position.
            shape: of the rows.
        """
        of, name, steps = self.open, full_name(shape.database, shape.table), moved + 1
        orders = np.cumsum(steps) - steps + 1
        total, before = (0, 0) if of is None else (sum(of.counts.values()), of.counts.get(name, 0))
        if of is not None:
            of.counts[name] = before + int(steps.sum())
        origin = self._source(header.server_id, at)
        if of is not None:
            origin |= {key: value for key in ("thread", "query") if (value := getattr(of, key)) is not None}
        opening = f'{canonical(origin)[:-1]},"row":'
        seconds_us = header.timestamp * 1_000_000
        commit_us = seconds_us if of is None or of.commit_us is None else of.commit_us
        return RowDetails(
            opening, closing(self._context, self._now), np.arange(len(moved)), commit_us, None if of is None else of.id,
            orders + total, orders + before,
        )  # fmt: skip

    def of_statement(self, query: Query, at: LogPosition, connector: str) -> tuple[dict[str, Any], Instant]:
        """Returns origin and time of a schema change."""
        gtid = self._gtid
        commit_us = gtid.commit_us if isinstance(gtid, Gtid) else None
        us = query.header.timestamp * 1_000_000 if commit_us is None else commit_us // 1000 * 1000
        origin = {"connector": connector, **self._source(query.header.server_id, at), "row": 0}
        if isinstance(gtid, Gtid | MariaDbGtid) and gtid.gtid is not None:
            origin["gtid"] = gtid.gtid
        if self.open is not None and self.open.thread is not None:
            origin["thread"] = self.open.thread
        return origin | run_details(self.context, self._now), Instant(us, 6)

    def mark(self, status: str, place: Place, seconds: int) -> TransactionMark:
        """Returns the mark of the open transaction's beginning or end; `seconds`: the time in the header of the event."""
        of = self.open
        assert of is not None
        us = seconds * 1_000_000 if of.commit_us is None else of.commit_us
        if status == "begin":
            return TransactionMark(status, of.id, place, instant=Instant(us, 3))
        return TransactionMark(status, of.id, place, sum(of.counts.values()), dict(of.counts), Instant(us, 3))

    def _source(self, server_id: int, at: LogPosition) -> dict[str, Any]:
        source: dict[str, Any] = {"server_id": server_id}
        if self.open is not None and self.open.gtid is not None:
            source["gtid"] = self.open.gtid
        return source | {"file": at.file, "pos": at.position}


def moved(rows: Rows, shape: TableShape) -> Numbers:
    """Returns 1 for each update that changes the key, else 0: Rule 2."""
    if rows.op != "update":
        return np.zeros(len(rows.rows), np.int64)
    numbers = {column.name: number for number, column in enumerate(rows.table.columns)}
    places = [
        [columns.index(numbers[key]) for key in shape.keys if numbers.get(key) in columns]
        for columns in (rows.before_columns or (), rows.after_columns or ())
    ]
    old_places, new_places = places
    if not shape.keys or len(old_places) != len(new_places):
        return np.zeros(len(rows.rows), np.int64)
    return np.fromiter(
        (
            old is not None and new is not None
            and any(old[i] != new[j] for i, j in zip(old_places, new_places, strict=True))
            for old, new in rows.rows
        ),
        np.int64, len(rows.rows),
    )  # fmt: skip
