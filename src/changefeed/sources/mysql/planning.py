"""Plans batches: the first copy, the log, tables that join.

    a new pipeline      definitions, chunks, …, then the log up to where the copy is complete          `begin`, `_copy`, `_log`
    a running one       slices of the log                                                              `_log`
    tables that join    slices of the log up to L, without them; definitions and chunks at L;          `_join`, `_copy`, `_log`
                        then the log with them, up to where they are complete
    tables copied again the same; the slices up to L have them, too                                    `_join`, `_copy`, `_log`
    other columns       the same, of tables of which other columns are excluded or masked              `_with_other_columns`
    signals             requests to copy tables again, which the log itself has: `signals.py`          `_divided`

Rule 1. The source offset has the patterns whose tables are complete. If the definition has others, the tables that they select in
        addition join: they are copied as in a first copy (`first_copy.py`), and meanwhile there is no cut.
Rule 2. A schema change during a copy, other patterns, or another server: the copy begins again. Its rows are dropped with their
        tables. So does a copy of all tables when the log is lost, if `snapshot.mode` allows it.
Rule 3. There may be a cut at the end of a transaction already, or rows of an earlier try. So the rows of a copy that is not the
        first thing that a pipeline reads have a position behind it, and their definitions the two before that. The next event
        there is a GTID, which is not a change: each copy takes three of its bytes. When they are used up, a copy waits until
        the server writes its next transaction (`_NoRoomError`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypedDict

from changefeed.errors import ConfigError
from changefeed.model.names import full_name
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql import first_copy
from changefeed.sources.mysql.batches import LogBatch, LogSlice, divide, queries
from changefeed.sources.mysql.column_rules import check_columns, tables_between
from changefeed.sources.mysql.connection import Address, LostLogError
from changefeed.sources.mysql.copying_again import select
from changefeed.sources.mysql.dump import LogEvent, dump, of_same_log
from changefeed.sources.mysql.earlier import earlier_history, has_same_columns
from changefeed.sources.mysql.failover import beginning, moved, shifted
from changefeed.sources.mysql.first_copy import SchemaChangedError
from changefeed.sources.mysql.reader import Part, Reading
from changefeed.sources.mysql.rights import check_readable
from changefeed.sources.mysql.schema_history import SchemaHistory, begin_history, read_history, with_copied
from changefeed.sources.mysql.section import MySqlSource
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.signals import SignalLog, copies_of
from changefeed.sources.mysql.source_offset import (
    NO_COLUMNS,
    CopyProgress,
    LogPosition,
    Prepared,
    RuledColumns,
    SourceOffset,
    read,
)
from changefeed.sources.mysql.statements import meaning
from changefeed.sources.mysql.tables import Captured, Name, is_captured, list_tables, listed, mariadb_types
from changefeed.sources.mysql.unlogged import check_tables
from changefeed.sources.mysql.xa import PreparedLog, look_for

_log = logging.getLogger(__name__)
_COPY_BYTES = 3
_GTID_BYTES = 38  # of the shortest GTID event, which is MariaDB's


class _NoRoomError(Exception):
    """No bytes are left for a copy: Rule 3. It stays inside of this file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch: what its tasks read, and where the next one begins.

    Attributes:
        parts: each is read by one task.
        after: the source offset after them.
        caught_up: see `NextBatch`.
    """

    reading: Reading
    parts: tuple[Part, ...]
    after: SourceOffset
    caught_up: bool = False


class _Complete(TypedDict):
    patterns: tuple[str, ...]
    columns: RuledColumns


@dataclass
class Planner:
    """Plans the next batch of a section, on a connection to its server; see the head of this file."""

    section: MySqlSource
    address: Address
    server: Server

    def plan(self, before: str | None, end: str | None) -> Plan | None:
        """Returns the next batch; None if there is nothing to read, or no copy can begin before the server writes.

        Args:
            before: the source offset; None before the first batch.
            end: a source offset, where reading ends; None: at the end of the log.

        Raises:
            ConfigError: a setting of the server is not as the source needs it, or a table cannot be copied.
            SchemaChangedError: the schema changes at this moment.
            AccessError, SourceError: the server refuses the user, does not answer, or cannot continue.
        """
        try:
            return self._next(before, end)
        except _NoRoomError as error:
            _log.warning("%s before the server writes its next transaction", error)
            return None

    def _next(self, before: str | None, end: str | None) -> Plan | None:
        limit = None if end is None else read(end)
        last = limit.at if limit is not None and limit.server == self.server.identity else None
        if before is None:
            check_begins(self.section)
            start = self._start()
            return self.begin() if start is None else self._log(start, last)
        known = read(before)
        try:
            if self.section.copies_lost_log and known.server == self.server.identity:
                self.server.check_has(known.at)  # a log that was reset may end before it, as if nothing was written
            return self._following(known, last)
        except LostLogError as error:
            if not self.section.copies_lost_log:
                raise
            _log.warning(
                "%s. All tables are copied again, because of `snapshot.mode: %s`", error, self.section.snapshot_mode
            )
            return self.begin(known, log_is_lost=True)

    def _following(self, known: SourceOffset, last: LogPosition | None) -> Plan | None:
        wanted, is_first = self._patterns, known.is_first_copy
        moves = known.server != self.server.identity
        if moves:
            self.server.check_settings()
        if is_first and (moves or not known.selects(*wanted)):
            return self.begin(known)
        if moves:
            known = moved(self.server, known)
        if not is_first and ((moves and known.is_copying) or not known.selects(*wanted)):
            return self._join(self._with_other_columns(known), last)
        try:
            if known.copy is not None and known.copy.table < len(known.copy.tables):
                return self._copy(known, known.copy)
            if known.requests and not known.is_copying:
                return self._join(known, last)
            if known.copy is not None and known.complete is None:
                known = replace(known, complete=replace(self.server.end(), shift=known.at.shift))
            return self._log(known, last)
        except SchemaChangedError:
            return self.begin(known) if is_first else self._join(known, last)

    def _start(self) -> SourceOffset | None:
        """The position in the log that the definition names; None if it names none.

        Raises:
            SourceError: the log does not have it.
        """
        start, server = self.section.start, self.server
        if start is None:
            return None
        self._check()
        at, gtids = beginning(server, start)
        return SourceOffset(
            server.identity, at, gtids=gtids, history=None if server.names_columns else self._earlier(at).text(),
            **self._complete,
        )  # fmt: skip

    def _check(self) -> None:
        """Checks the settings of the server and the tables that are captured, before the first of them is read.

        Raises:
            ConfigError: a setting is not as the source needs it, or a column cannot be excluded or masked.
            AccessError: the user may not read all captured tables.
            UnsupportedError: the log does not tell the rows of a table.
        """
        self.server.check_settings()
        selector, section = self._captured.selector(), self.section
        check_readable(self.server, selector)
        for note in (
            *check_tables(self.server, selector, section.signal_table),
            *check_columns(self.server, selector, section.column_patterns),
        ):
            _log.warning("%s", note)

    def begin(self, earlier: SourceOffset | None = None, *, exact: bool = True, log_is_lost: bool = False) -> Plan:
        """Returns the first batch of a copy of all tables: definitions, and the first chunks.

        Args:
            earlier: the source offset of a copy that began before, or behind which the log is lost; None without one.
            exact: see `first_copy.begin`.
            log_is_lost: whether positions of the log may have begun again.

        Raises:
            ConfigError, SchemaChangedError: see `plan`.
        """
        self._check()
        server, copy_bytes = self.server, 0
        names = partial(list_tables, server, self._captured.selector())
        dropped = set[Name]()
        if earlier is not None:
            dropped = {*names(), *(() if earlier.copy is None else earlier.copy.tables)}
        low, gtids, defined = first_copy.begin(server, names, copies=self._copies, dropped=dropped, exact=exact)
        if earlier is not None:
            same = earlier.server == server.identity and not log_is_lost
            low = replace(low, shift=earlier.at.shift) if same else shifted(low, earlier)
            before = earlier.copy_bytes if low == earlier.at else 0
            copy_bytes = _next_copy_bytes(before, "the copy of all tables does not begin again")
        chunks, progress = self._chunks(first_copy.begun(defined, copies=self._copies))
        history = None if server.names_columns else begin_history(server, defined.tables).text()
        after = SourceOffset(
            server.identity, low, copy=progress, gtids=gtids, history=history, copy_bytes=copy_bytes,
            signals=None if earlier is None else earlier.signals, **self._complete,
        )  # fmt: skip
        return Plan(self._reading(_beside(after)), (defined, *chunks), after)

    def _join(self, known: SourceOffset, last: LogPosition | None) -> Plan | None:
        """A batch of the log up to L without the tables that join, their definitions, and the first chunks of them: Rule 1.

        Tables that are copied again are read in the same way.

        Raises:
            ConfigError, SchemaChangedError: see `plan`.
        """
        server, captured = self.server, self._captured
        complete = self._before(known)
        begins_again = known.copy is not None  # rows of an earlier try may be newer than the log up to L
        earlier = set() if known.copy is None or known.copy.where is not None else {*known.copy.tables}
        joining = partial(_further, server, captured, complete)
        selection = select(server, captured, known.requests, joining, copies=self._copies)
        names, copies = selection.names(), self._copies or selection.requests > 0
        if known.joining is None and (left_out := _further(server, complete, captured)):
            _log.warning(
                "source.tables no longer selects %s: what the sink has of them stays as it is", listed(left_out)
            )
        if not names and not begins_again and not selection.gone:
            known = replace(known, requests=known.requests[selection.requests :], **self._complete)
            return self._log(known, last) or (self._without_changes(known) if selection.requests else None)
        self._check()
        dropped = {*earlier, *names, *selection.gone} if copies and selection.where is None else earlier
        low, _, defined = first_copy.begin(server, selection.names, copies=copies, dropped=dropped)
        defined = replace(defined, replaces=selection.where is None)
        low, before = replace(low, shift=known.at.shift), replace(known, copy=None, complete=None)
        batch = self._divided(before, end=low)
        slices, after = batch.slices, _after(before, batch)
        is_replaced = selection.requests > 0 and selection.where is None
        is_masked_anew = known.columns.masked != self._patterns[1].masked
        # No cut has rows of an earlier try or with earlier masks, or lacks those that are passed over.
        if begins_again or is_replaced or is_masked_anew:
            slices = tuple(replace(one, is_complete=False) for one in slices)
        replaced = selection.gone.union(names) if is_replaced else frozenset[Name]()
        reading = replace(self._reading(batch.end), captured=replace(complete, replaced=replaced))
        if batch.end.number < low.number:
            return Plan(reading, slices, replace(after, copy=known.copy, joining=() if begins_again else None))
        if selection.gone:
            _log.warning("not copied again, because the server has them no longer: %s", listed(sorted(selection.gone)))
        after = replace(after, copy_bytes=_next_copy_bytes(after.copy_bytes, "no further tables are copied"))
        slices = tuple(replace(one, is_complete=one.is_complete and one.end != batch.end) for one in slices)
        progress = first_copy.begun(defined, copies=copies)
        chunks, progress = self._chunks(replace(progress, requests=selection.requests, where=selection.where))
        history = None if after.history is None else with_copied(read_history(after.history), defined.tables).text()
        tables, columns = self._patterns
        after = replace(after, copy=progress, joining=tables, joining_columns=columns, history=history)
        return Plan(replace(reading, low=_beside(after)), (*slices, defined, *chunks), after)

    def _without_changes(self, known: SourceOffset) -> Plan:
        """A batch that only moves to another source offset, at the same place of the log."""
        mark = LogSlice(known.at, known.at, events=(), mark=_beside(known))
        return Plan(self._reading(known.at), (mark,), known)

    def _copy(self, known: SourceOffset, progress: CopyProgress) -> Plan:
        """A batch of chunks."""
        chunks, progress = self._chunks(progress)
        return Plan(self._reading(_beside(known)), tuple(chunks), replace(known, copy=progress))

    def _chunks(self, progress: CopyProgress) -> tuple[list[first_copy.CopyChunk], CopyProgress]:
        section = self.section
        return first_copy.next_chunks(self.server, progress, section.chunk_rows, section.max_records_per_batch)

    def _log(self, known: SourceOffset, end: LogPosition | None) -> Plan | None:
        """A batch of the log.

        Raises:
            SchemaChangedError: a captured table changes before a copy is complete.
        """
        complete = known.complete
        carried_out = 0 if known.copy is None else known.copy.requests
        waits = complete is not None and len(known.requests) > carried_out  # another copy follows, without a cut before
        if complete is not None and (waits or (end is not None and end.number < complete.number)):
            end = complete
        if not self.section.follows_log:
            if complete is None:
                return None
            end = complete
        log_end = end or replace(self.server.end(), shift=known.at.shift)
        if log_end.number <= known.at.number and complete is None:
            return None
        batch = self._divided(known, end=end)
        parts = list[Part](batch.slices)
        is_complete = complete is None or batch.end.number >= complete.number
        if not parts and complete is not None and is_complete:
            mark = _beside(known)  # nothing was written during the copy
            parts = [LogSlice(known.at, batch.end, events=(), mark=mark)]
        if not parts:
            return None
        after = _after(known, batch)
        if is_complete:
            after = replace(
                after, copy=None, complete=None, joining=None, joining_columns=NO_COLUMNS,
                requests=after.requests[carried_out:], **self._complete,
            )  # fmt: skip
        if waits:
            parts = [replace(part, is_complete=False) for part in parts if isinstance(part, LogSlice)]
        copies_next = is_complete and bool(after.requests)  # a run to the end of the log carries them out, too
        return Plan(self._reading(known.at), tuple(parts), after, batch.caught_up and not copies_next)

    def _divided(self, known: SourceOffset, *, end: LogPosition | None) -> LogBatch:
        section, complete = self.section, known.complete
        sent = self._dumped(known.at)
        events, signals = of_same_log(sent, known, self.address), self._signals()
        batch = divide(
            events if signals is None else signals.watched(events, known.maps), known.at, known.maps,
            section.max_bytes_per_batch, end=end, complete=complete, look=_Look(self._captured, complete), gtids=known.gtids,
            history=None if known.history is None else read_history(known.history),
            prepared=PreparedLog(dict(known.prepared), self._find_prepared),
        )  # fmt: skip
        if signals is None:
            return batch
        tables = partial(list_tables, self.server, self._captured.selector())
        return replace(batch, requests=copies_of(signals.before(batch.end), tables))

    def _find_prepared(self, name: str, before: LogPosition) -> Prepared | None:
        """Returns an XA transaction that was prepared before this pipeline began, or on another server."""
        return look_for(self.server, name, before, self._dumped)

    def _dumped(self, start: LogPosition) -> Iterator[LogEvent]:
        return dump(self.address, start, self.section.server_id, self.server.identity)

    def _signals(self) -> SignalLog | None:
        table = self.section.signal_table
        return None if table is None else SignalLog(table, ignores_case=self._captured.names_rule != 0)

    def changed_outside(self, known: SourceOffset) -> list[Name]:
        """Returns the tables whose definitions the log does not have as the server does, so that their rows cannot be read.

        Their changes were kept from the log, or stand there in a form that cannot be read. Of a table that a statement behind
        the source offset mentions, the server's definition is of a later time: it is not among them.
        """
        if known.history is None:
            return []
        at = known.at if known.server == self.server.identity else moved(self.server, known).at
        history, earlier = read_history(known.history), self._earlier(at)
        return [
            name
            for name in list_tables(self.server, self._captured.selector())
            if (table := earlier.tables.get(full_name(*name))) is not None
            and not has_same_columns(table, history.tables.get(full_name(*name)))
        ]

    def _earlier(self, start: LogPosition) -> SchemaHistory:
        """The definitions at an earlier position: those of now, without tables that statements behind it mention."""
        return earlier_history(self.server, self._captured, start, self._dumped(start))

    def _with_other_columns(self, known: SourceOffset) -> SourceOffset:
        """A source offset with the request to copy the tables of which the section excludes other columns than before."""
        section, selector = self.section, self._captured.selector()
        others = tuple(tables_between(self.server, selector, section.column_patterns, known.columns))
        request = CopyRequest(others)
        if not others or request in known.requests:
            return known
        if not section.copies_first and _further(self.server, self._captured, self._before(known)):
            raise ConfigError(
                "source.tables selects further tables, and other columns are excluded or masked: with `snapshot.mode: "
                f"{section.snapshot_mode}`, change one of them for one run, and then the other"
            )
        _log.warning("copied again, because other columns are excluded or masked: %s", listed(others))
        return replace(known, requests=(request, *known.requests))

    def _before(self, known: SourceOffset) -> Captured:
        """The tables and columns that were captured up to a source offset."""
        captured = self._captured
        patterns = captured.patterns if known.patterns is None else known.patterns
        columns = replace(captured.columns, excluded=known.columns.excluded)
        return replace(captured, patterns=patterns, columns=columns)

    @property
    def _copies(self) -> bool:
        return self.section.copies_first

    @property
    def _patterns(self) -> tuple[tuple[str, ...], RuledColumns]:
        columns = self._captured.columns
        return self._captured.patterns, RuledColumns(columns.excluded, columns.masked)

    @property
    def _complete(self) -> _Complete:
        """The members of a source offset when all that the section selects is complete."""
        tables, columns = self._patterns
        return {"patterns": tables, "columns": columns}

    @cached_property
    def _captured(self) -> Captured:
        rule = self.server.lower_case_table_names
        tables, columns = tuple(self.section.tables), self.section.column_patterns
        return Captured(tables, mariadb_types(self.server), names_rule=rule, columns=columns)

    def _reading(self, low: LogPosition) -> Reading:
        server = self.server
        captured = self._captured
        return Reading(
            self.address, server.identity, captured, server.kind, low, self.section.server_id, captured.columns
        )  # fmt: skip


def check_begins(section: MySqlSource) -> None:
    """Checks that a new pipeline can begin.

    Raises:
        ConfigError: it has nothing to recover.
    """
    if section.recovers:
        raise ConfigError(
            "source.snapshot.mode: `recovery` is for a pipeline that has run, and this one has not: set it to `initial`"
        )


def _further(server: Server, captured: Captured, others: Captured) -> list[Name]:
    """The tables that some patterns select, and others do not."""
    selector = others.selector()
    return [name for name in list_tables(server, captured.selector()) if not is_captured(selector, *name)]


def _after(known: SourceOffset, batch: LogBatch) -> SourceOffset:
    copy_bytes = known.copy_bytes if batch.end == known.at else 0
    return replace(
        known, at=batch.end, begun=batch.begun, maps=batch.maps, gtids=batch.gtids, copy_bytes=copy_bytes,
        requests=(*known.requests, *batch.requests), prepared=batch.prepared,
        history=None if batch.history is None else batch.history.text(),
    )  # fmt: skip


def _next_copy_bytes(copy_bytes: int, consequence: str) -> int:
    """The bytes behind `at` of a further copy.

    Raises:
        _NoRoomError: all are used, with this consequence.
    """
    if copy_bytes + _COPY_BYTES > _GTID_BYTES:
        raise _NoRoomError(consequence)
    return copy_bytes + _COPY_BYTES


def _beside(known: SourceOffset) -> LogPosition:
    """The position of the rows of a copy, which may be behind the end of a transaction: see Rule 3."""
    return replace(known.at, position=known.at.position + known.copy_bytes)


class _Look:
    """Looks at the statements of the log while a copy is not complete."""

    def __init__(self, captured: Captured, complete: LogPosition | None) -> None:
        self._selector, self._complete = captured.selector(), complete

    def __call__(self, event: LogEvent) -> None:
        """Raises SchemaChangedError for a schema change of a captured table."""
        if self._complete is None or event.at.number >= self._complete.number:
            return
        for query in queries(event):
            if meaning(query.text, query.database or None, self._selector) == "change":
                raise SchemaChangedError(query.text)
