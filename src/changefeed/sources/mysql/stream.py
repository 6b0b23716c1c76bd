"""The changes of a server as one ordered stream with all details, for sinks to which changes are appended as events.

    view.py      rows, in one consistent view              ─┐
    dump.py ─▶ changes.py, transactions.py, definitions.py ─┴─▶ batches in the order of the log

Rule 1. One connection reads the log, in order: the events of a topic have an order, so nothing is divided among tasks, and no
        Spark is needed.
Rule 2. A batch ends between two transactions, or inside of one that is larger than twice a batch. Then the source offset has the
        transaction and the table maps of its statement.
Rule 3. Inside of the snapshot there is no source offset: a run that was killed there takes another snapshot. With
        `snapshot.mode: always` so does every other run, and with `when_needed` one whose log is lost.
Rule 4. A snapshot that is requested while the log is followed lies at one position of it: the log is read up to there, then come
        the rows. Until all of them have come, the source offset is that position with the request: a run that was killed there
        takes the snapshot again, and what was written of it stays.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow.compute as pc

from changefeed.errors import ConfigError, SourceError
from changefeed.model.batch import Decoded
from changefeed.model.definition import Table
from changefeed.model.event import Control
from changefeed.model.names import full_name
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources import StreamBatch
from changefeed.sources.mysql.batches import maps_after
from changefeed.sources.mysql.changes import LogDecoder
from changefeed.sources.mysql.column_rules import check_columns
from changefeed.sources.mysql.connection import Address, LostLogError
from changefeed.sources.mysql.debezium_offset import DebeziumOffset, first_unsent, read_offset
from changefeed.sources.mysql.definitions import Definitions
from changefeed.sources.mysql.dump import FIRST, GTIDS, LogEvent, dump, of_same_log
from changefeed.sources.mysql.earlier import earlier_history, has_same_columns
from changefeed.sources.mysql.failover import Executed, beginning, moved
from changefeed.sources.mysql.held_back import held_back
from changefeed.sources.mysql.kernel_events import event_decoder
from changefeed.sources.mysql.notifications import Notifications
from changefeed.sources.mysql.planning import check_begins
from changefeed.sources.mysql.section import MySqlSource
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.signals import SignalLog, copies_of
from changefeed.sources.mysql.source_offset import LogPosition, Prepared, SourceOffset, read
from changefeed.sources.mysql.table_locks import end
from changefeed.sources.mysql.tables import (
    Captured,
    CopiedTable,
    database_charsets,
    is_captured,
    list_tables,
    listed,
    mariadb_types,
    sequences,
)
from changefeed.sources.mysql.transactions import OpenTransaction, Transactions, run_details
from changefeed.sources.mysql.view import View, captured_tables, first_changes
from changefeed.sources.mysql.xa import PreparedLog, look_for

_log = logging.getLogger(__name__)
_Batches: TypeAlias = Generator[StreamBatch, None, SourceOffset]  # returns the source offset behind the last one


class MySqlStream:
    """The stream of a section; see the head of this file and `sources.EventStream`."""

    def __init__(self, section: MySqlSource, address: Address, tables: Mapping[str, Table]) -> None:
        """Opens the stream; `tables`: the definitions at the source offset where it continues."""
        self._section, self._address = section, address
        self._definitions = Definitions(tables)
        self._context = {"taskId": "0", "runId": str(uuid.uuid4())}
        self._server: Server | None = None
        self._captured: Captured | None = None
        self._is_first = True  # whether nothing was read of this stream

    def batches(self, before: str | None) -> Iterator[StreamBatch]:
        """See `EventStream`."""
        section = self._section
        if self._server is None:
            self._open()
        server = self._ask()
        is_first, self._is_first = self._is_first, False
        if before is None:
            check_begins(section)
        elif section.recovers and is_first:
            self._recover(server, read(before))
        if before is not None and section.snapshot_mode == "always" and is_first:
            yield from self._snapshot(server)
        elif before is not None:
            if section.follows_log:
                yield from self._following(server, read(before))
        elif not section.copies_first:
            yield from self._begin(server)
        else:
            yield from self._snapshot(server)

    def current_tables(self) -> Mapping[str, Table]:
        """See `EventStream`."""
        if self._server is None:
            self._open()
        server, definitions = self._ask(), Definitions({}, lower_case=self._definitions.lower_case)
        definitions.charsets |= database_charsets(server)
        for table in captured_tables(server, self._tables):
            definitions.apply(table.create, table.name[0])
        return dict(definitions.tables)

    def _recover(self, server: Server, known: SourceOffset) -> None:
        """Takes definitions that were changed outside of the log from the server."""
        at = known.at if known.server == server.identity else self._moved(server, known).at
        selector = self._tables.selector()
        log = dump(self._address, at, self._section.server_id, server.identity, statements=True)
        for name, table in earlier_history(server, self._tables, at, log).tables.items():
            is_same = has_same_columns(table, self._definitions.tables.get(name))
            if not is_same and is_captured(selector, table.database, table.name):
                _log.warning("%s: its definition is taken from the server, because of `snapshot.mode: recovery`", name)
                self._definitions.tables[name] = table

    def _following(self, server: Server, known: SourceOffset) -> Iterator[StreamBatch]:
        """Yields what follows a source offset: the log, or a snapshot if the log is lost and the section allows it."""
        try:
            if known.server != server.identity:
                known = self._moved(server, known)
            server.check_has(known.at)
            self._definitions.charsets |= database_charsets(server)
            yield from self._to_end(server, known)
        except LostLogError as error:
            if not self._section.copies_lost_log:
                raise
            _log.warning("%s. A snapshot is taken, because of `snapshot.mode: %s`", error, self._section.snapshot_mode)
            yield from self._snapshot(server)

    def _to_end(self, server: Server, known: SourceOffset) -> Iterator[StreamBatch]:
        """Yields what the log has behind a source offset, and the snapshots that are requested there: Rule 4."""
        while (known := (yield from self._log(server, known))).requests:
            known = yield from self._requested(server, known)

    def _requested(self, server: Server, known: SourceOffset) -> _Batches:
        """Yields the log up to a view, and then the rows that the first request wants of it; returns where it ends."""
        request = known.requests[0]
        view = View.open(server, self._tables, self._context, request)
        view.low = replace(view.low, shift=known.at.shift)
        if gone := sorted({*request.tables}.difference(table.name for table in view.tables)):
            _log.warning("not sent again, because they are not captured or do not exist: %s", listed(gone))
        known = yield from self._log(server, known, until=view.low)
        for table in view.tables:
            is_known = full_name(*table.name) in self._definitions.tables
            if not is_known:  # it is captured since the patterns were changed
                self._definitions.apply(table.create, table.name[0])
        notifications = Notifications(self._section.notification_topic, view.tables, request)
        for changes in notifications.started():
            yield self._batch(changes, known)
        for changes in notifications.among(view.rows(self._definitions)):
            yield self._batch(changes, known)
        after = replace(known, requests=known.requests[1:])
        yield self._batch(Decoded(), after)
        return after

    def close(self) -> None:
        """See `EventStream`."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _open(self) -> None:
        """Connects, and checks the settings of the server.

        Raises:
            ConfigError: a setting is not as the source needs it, or a column cannot be excluded or masked.
        """
        server = self._ask()
        server.check_settings()
        section = self._section
        self._captured = Captured(
            tuple(section.tables), mariadb_types(server), self._definitions.named,
            columns=section.column_patterns,
        )  # fmt: skip
        for note in check_columns(server, self._captured.selector(), section.column_patterns):
            _log.warning("%s", note)
        self._definitions.sequences |= sequences(server)
        self._definitions.lower_case = server.lower_case_table_names > 0

    def _moved(self, server: Server, known: SourceOffset) -> SourceOffset:
        if known.transaction is not None:
            raise SourceError(
                f"{self._address} is another server than before, and a transaction had been written in part: name the earlier "
                "server, or start a new pipeline"
            )
        return moved(server, known)

    def _ask(self) -> Server:
        if self._server is None or not self._server.connection.open:
            self._server = Server.open(self._address)
        return self._server

    @property
    def _tables(self) -> Captured:
        assert self._captured is not None
        return self._captured

    def _begin(self, server: Server) -> Iterator[StreamBatch]:
        """Yields a batch without changes, at the position where the log is read first."""
        if self._section.from_debezium is not None:
            yield self._batch(Decoded(), self._taken_over(server, read_offset(self._section.from_debezium)))
            return
        start = self._section.start
        at, gtids = end(server) if start is None else beginning(server, start)
        yield self._batch(Decoded(control=self._first(server, captured_tables(server, self._tables), at)), None)
        yield self._batch(Decoded(), SourceOffset(server.identity, at, gtids=gtids))

    def _taken_over(self, server: Server, offset: DebeziumOffset) -> SourceOffset:
        """Returns the source offset at which a connector ended; its events are not sent again."""
        if offset.gtids and (lacking := server.lacks(offset.gtids)):
            raise ConfigError(
                f"source.from-debezium: {server.address} does not have all transactions that the connector has read: it has not "
                f"{lacking}. The offset is of another server"
            )
        server.check_has(offset.at)
        self._definitions.charsets |= database_charsets(server)
        for table in captured_tables(server, self._tables):
            self._definitions.apply(table.create, table.name[0])
        if not offset.events and not offset.rows:
            return SourceOffset(server.identity, offset.at, gtids=server.gtids_at(offset.at))
        unsent = first_unsent(
            dump(self._address, offset.at, self._section.server_id, server.identity, statements=True), offset
        )
        start = offset.at if server.kind == "mariadb" else self._gtid_before(server, offset.at)
        return SourceOffset(server.identity, start, gtids=server.gtids_at(start), unsent=unsent)

    def _gtid_before(self, server: Server, begin: LogPosition) -> LogPosition:
        """Returns the position of the GTID before a BEGIN of MySQL, at which the connector's transaction begins."""
        gtid = begin
        for event in dump(self._address, LogPosition(begin.file, FIRST), self._section.server_id, server.identity):
            if event.placed and event.at.number >= begin.number:
                break
            if event.placed and event.code in GTIDS:
                gtid = event.at
        return gtid

    def _snapshot(self, server: Server) -> Iterator[StreamBatch]:
        view = View.open(server, self._tables, self._context)
        notifications = Notifications(self._section.notification_topic, view.tables)
        for changes in notifications.started():
            yield self._batch(changes, None)
        yield self._batch(Decoded(control=self._first(server, view.tables, view.low, view.seconds)), None)
        for changes in notifications.among(view.rows(self._definitions)):
            yield self._batch(changes, None)
        yield self._batch(Decoded(), SourceOffset(server.identity, view.low, gtids=view.gtids))

    def _first(
        self, server: Server, tables: Sequence[CopiedTable], at: LogPosition, seconds: int | None = None
    ) -> list[Control]:
        run = run_details(self._context, time.time_ns)
        now = int(time.time()) if seconds is None else seconds
        return list(first_changes(server, tables, self._definitions, at, run, seconds=now, is_all=seconds is None))

    def _log(self, server: Server, known: SourceOffset, until: LogPosition | None = None) -> _Batches:
        """Yields what the log has behind a source offset, to its end or a position between two transactions; returns where."""
        section, most = self._section, self._section.max_bytes_per_batch
        accepted = set[LogPosition]()  # ends of prepared transactions that are committed
        begun = None if known.transaction is None else OpenTransaction.restored(known.transaction)
        transactions = Transactions(self._context, begun)
        decoder = event_decoder(self._tables, known.maps, transactions, self._definitions, accepted)
        at, size, maps, executed = known, 0, known.maps, Executed(known.gtids)
        signals, taken = self._signals(server), 0

        def cut(*, inside: bool) -> StreamBatch:
            nonlocal at, known, taken
            if signals is not None and (untaken := signals.before(at.at)[taken:]):
                requests = copies_of(untaken, partial(list_tables, server, self._tables.selector()))
                at, taken = replace(at, requests=(*at.requests, *requests)), taken + len(untaken)
            transaction = None if transactions.open is None or not inside else transactions.open.plain()
            after = replace(
                at, maps=maps if inside else (), transaction=transaction, gtids=executed.text(),
                prepared=tuple(prepared.open.items()),
            )  # fmt: skip
            changes = decoder.decoded()[0]
            if at.unsent is not None:
                changes = _from(changes, *at.unsent)
                if at.at.number > at.unsent[0].number:
                    after = replace(after, unsent=None)
            known = after
            return self._batch(changes, after)

        log = dump(self._address, known.at, section.server_id, server.identity, statements=True)
        events = held_back(of_same_log(log, known, self._address), most)
        prepared = PreparedLog(dict(known.prepared), partial(self._find_prepared, server))
        log_format: LogEvent | None = None
        for event in events if signals is None else signals.watched(events, known.maps):
            if until is not None and event.placed and event.at.number >= until.number:
                break
            if size >= most and event.code in GTIDS:
                yield cut(inside=False)
                size = 0
            elif size >= 2 * most and event.code in KINDS and maps and not event.is_prepared:
                yield cut(inside=True)
                size = 0
            if event.code == codes.FORMAT_DESCRIPTION:
                log_format = event
            if not event.is_undone and not event.is_prepared:
                decoder.add(event)
            if (rows := prepared.add(event)) is not None and rows.commit is not None:
                accepted.add(rows.end)
                self._add_prepared(decoder, rows, server)
                if log_format is not None:  # that transaction may be in a file of another format
                    decoder.add(log_format)
            executed.add(event)
            maps = maps_after(event, maps)
            size += len(event.data) if event.placed else 0
            at = replace(at, at=event.end, begun=_begun(event, at))
        if at.at != known.at:
            yield cut(inside=False)
        return known

    def _add_prepared(self, decoder: LogDecoder, rows: Prepared, server: Server) -> None:
        """Reads the rows of a prepared transaction that is committed."""
        for event in dump(self._address, rows.start, self._section.server_id, server.identity, statements=True):
            if event.placed and event.at.number >= rows.end.number:
                break
            decoder.add(event)

    def _find_prepared(self, server: Server, name: str, before: LogPosition) -> Prepared | None:
        dumped = partial(dump, self._address, server_id=self._section.server_id, identity=server.identity)
        return look_for(server, name, before, dumped)

    def _signals(self, server: Server) -> SignalLog | None:
        table = self._section.signal_table
        return None if table is None else SignalLog(table, ignores_case=server.lower_case_table_names > 0)

    def _batch(self, changes: Decoded, after: SourceOffset | None) -> StreamBatch:
        tables = dict(self._definitions.tables)
        return (
            StreamBatch(changes, None, tables)
            if after is None
            else StreamBatch(changes, after.text(), tables, after.at.number)
        )


def _from(changes: Decoded, first: LogPosition, rows: int) -> Decoded:
    """Returns the changes from the row with this number on, of the event at a position."""
    tables = []
    for table in changes.tables:
        offset, index = table.rows.column("offset"), table.rows.column("index")
        is_later = pc.greater(offset, first.number)
        is_rest = pc.and_(pc.equal(offset, first.number), pc.greater_equal(index, rows))
        kept = pc.indices_nonzero(pc.or_(is_later, is_rest))
        if len(kept):
            tables.append(table.take(kept))
    return Decoded(tables, [event for event in changes.control if event.place.offset >= first.number])


def _begun(event: LogEvent, before: SourceOffset) -> int:
    """When the file of the next event was begun."""
    if event.code == codes.FORMAT_DESCRIPTION:
        return event.timestamp
    return before.begun if event.end.file == before.at.file else 0
