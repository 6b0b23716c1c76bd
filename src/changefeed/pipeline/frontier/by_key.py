"""The schema barrier: which changes may be applied with `consistency: key`, where each batch is applied at once.

A schema change waits for the rows before it, and later rows of its tables wait for the schema change:

    partition 0   row 3   row 5   TRUNCATE 6   row 8     8 waits: partition 1 may still bring rows up to 6
    partition 1   row 4   row 5   TRUNCATE 6             now it will not: TRUNCATE, then row 8

Rule 1. A schema change takes effect when every partition has passed it: has sent it, or a resolved event at or above it. The
remaining changes of a partition without resolved events are known when the source has nothing more to read (*idle*).
Rule 2. Schema changes take effect in order, those of one commit_ts together: they are the parts of one statement, which may be in
several topics or partitions. Rows of a table up to its first pending schema change are applied, the rest wait;
other tables do not wait.
Rule 3. Where tables have separate topics, a table may get its name by a schema change in another topic. Rows of an unknown table
wait until every partition has passed them. Rows without commit_ts have no order to wait in, but they wait while a schema change
of their table does: when it takes effect, `planning/unplaced.py` decides what becomes of them.
Rule 4. Where a schema change is not sent to every partition, each partition is in order: it has passed everything at or below
the last change that it has sent, and more if it was read to its end, see `ends.py`. Rows wait until every partition
has passed them, because any partition may still send a schema change before them. When the source is idle, all have passed.
Rule 5. Where a schema change is sent to every partition, rows at or below the last schema change of their table were applied
before it: they were sent again, and are skipped. Otherwise they are applied like everything that is sent again: another binlog
may have begun.
Rule 6. While a partition sends rows from before a schema change again, the schema change does not take effect: Rule 5 would skip
the rest of them. It takes effect when the partition has sent it again too, or a resolved event at or above it. A folder with such
rows stays pending until then. Rows without commit_ts show no such order.
Rule 7. The schema changes of a snapshot wait until it is known whether rows follow: until a row of it or of a later snapshot has
been read, or its last schema change, which is marked if no rows follow, or one after it that is not in the middle of another
snapshot. Any later row is enough if nothing more comes; otherwise it is not: a snapshot that recovers the schema may lie before
rows that were read long ago.
Rule 8. Where all pending rows wait as in Rule 4, schema changes wait with them: a new table is created and filled in one commit.
Rule 9. A statement may spell a table in another case than its rows, or leave out its database (`planning/names.py`). Rows wait
for it if it may mean their table. It counts as sent again only under its own names.
Rule 10. Where schema changes are in partition 0 alone, rows wait as in Rule 4, but only for the partitions 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.adjusted_names import tables_sent_as
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name, names_of
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as sql
from changefeed.pipeline.frontier.base import Partition, Reading, Until
from changefeed.pipeline.frontier.ends import END, passed_by, passed_by_all
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.names import own_names, unqualified
from changefeed.pipeline.planning.schema_events import distinct_changes
from changefeed.pipeline.state import NOTHING, Hold, LastSchemaChange, State
from changefeed.protocols.base import Capabilities
from changefeed.protocols.origin import LAST, snapshot_mark
from changefeed.stages.changes import Window

_Identity = tuple[int | None, str | None, str | None, str | None]
# Rows of a table that a step applies: those in (after, upto] from these folders.
Part = tuple[int | None, int | None, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ByKey:
    """See `FrontierStrategy`."""

    capabilities: Capabilities

    drops_resent = False

    @property
    def needs_ends(self) -> bool:
        """Whether the ends of partitions count as progress (Rules 4 and 10)."""
        return not self.capabilities.broadcast or self.capabilities.ddl_in_first

    def arrived(self, state: State, fresh: list[ChunkInfo]) -> State:
        """Returns the state unchanged: arrived chunks do not move a barrier."""
        return state

    def check(self, state: State, fresh: list[ChunkInfo], count: Callable[[ChunkInfo, Window], int]) -> None:
        """Checks nothing: rows are applied when they come."""

    def repeated(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """Returns the windows of rows that are skipped as sent again (Rule 5)."""
        bound = floor(state, chunk.name, self.capabilities)
        return [] if bound is None else [Window(None, bound)]

    def advance(self, reading: Reading) -> Tables:
        """See `FrontierStrategy`; there is no point at which all tables could stop."""
        frontier = table_frontier(
            reading.state, reading.chunks, reading.partitions, self.capabilities,
            idle=reading.caught_up or reading.idle, quiet=reading.idle, ended=reading.ended,
        )  # fmt: skip
        return Tables(reading.state, frontier, moves=not frontier.holds_all_rows(reading.chunks))

    def is_reached(self, state: State, until: Until) -> bool:
        """Returns False: without a barrier no run stops at a commit_ts."""
        return False

    def waits(self, state: State) -> bool:
        """Whether rows or schema changes are pending."""
        return bool(state.pending)


@dataclass(frozen=True, slots=True)
class Tables:
    """A frontier for each table; see `Frontier`."""

    state: State
    table_frontier: TableFrontier
    moves: bool = True
    _parts: dict[str, list[Part]] = field(default_factory=dict)

    after = None
    through = None
    includes_after = False
    late_changes = ()

    def retain(self, chunks: list[ChunkInfo], unknown: Container[str], held: Mapping[str, Hold]) -> State:
        """See `Frontier`."""
        return self.table_frontier.retain(chunks, unknown)

    def applied(self, chunk: ChunkInfo, unknown: Container[str], held: Mapping[str, Hold]) -> Iterable[Window]:
        """See `Frontier`."""
        if chunk.name not in self._parts:
            is_known = chunk.name not in unknown
            self._parts[chunk.name] = self.table_frontier.parts(chunk.name, None, None, is_known=is_known)
        return [Window(low, high) for low, high, folders in self._parts[chunk.name] if chunk.folder in folders]

    def pending(self, chunk: ChunkInfo, held: Mapping[str, Hold], retained: State) -> Iterable[Window]:
        """See `Frontier`."""
        done = retained.partly.get(chunk.folder, {chunk.name: None})
        if chunk.name not in done:
            return []
        bounds = [
            b
            for b in (done[chunk.name], floor(self.state, chunk.name, self.table_frontier.capabilities))
            if b is not None
        ]
        after = max(bounds, default=NOTHING)
        return [Window(None if after == NOTHING else after)]


@dataclass(frozen=True, slots=True)
class TableFrontier:
    """The frontier of each table in one step.

    Attributes:
        state: before the step.
        changes: schema changes that take effect, in order.
        waiting: schema changes that do not take effect yet.
        bounds: name as in `_waiting_names` -> commit_ts of the first waiting schema change that may concern it, see Rule 9.
        schema_frontier: commit_ts up to which no schema change is missing, see Rules 4 and 10; None for no bound.
        covered: commit_ts that every partition has passed, see Rule 3; None for no bound.
        without_ts: tables with rows that have no commit_ts.
        resent: folder and table of the rows that a partition has sent again after a waiting schema change, see Rule 6.
    """

    state: State
    changes: list[SchemaChange]
    waiting: list[SchemaChange]
    bounds: dict[str, int]
    schema_frontier: int | None
    covered: int | None
    without_ts: frozenset[str]
    resent: frozenset[tuple[str, str]]
    capabilities: Capabilities

    def upto(self, name: str, *, is_known: bool) -> int | None:
        """The commit_ts above which rows of the table wait; None if none wait."""
        bounds = [self.bounds.get(key) for key in _waiting_names(name)]
        if name in self.without_ts:
            return None if all(bound is None for bound in bounds) else NOTHING
        bounds += [self.schema_frontier, None if is_known else self.covered]
        return min((bound for bound in bounds if bound is not None), default=None)

    def holds_all_rows(self, chunks: Iterable[ChunkInfo]) -> bool:
        """Whether rows are pending, and all of them wait until every partition has passed them; see Rule 8."""
        if self.schema_frontier is None:
            return False
        bounds = [(chunk.min_ts, self.upto(chunk.name, is_known=True)) for chunk in chunks if chunk.kind == "rows"]
        return bool(bounds) and all(low is not None and bound is not None and low > bound for low, bound in bounds)

    def parts(self, name: str, after: int | None, upto: int | None, *, is_known: bool) -> list[Part]:
        """The rows of a table in (after, upto] that have not been applied yet, in the order in which to apply them.

        From folders that were read before, rows up to the commit_ts where they waited are in the tables already.
        """
        done_before = floor(self.state, name, self.capabilities)
        low, bound = max(_below(after), _below(done_before)), self.upto(name, is_known=is_known)
        high = upto if bound is None else bound if upto is None else min(upto, bound)
        if high is not None and high <= low:
            return []
        done = {folder: self._done(folder, name) for folder in self.state.pending}
        cuts = sorted({ts for ts in done.values() if ts is not None and ts > low and (high is None or ts < high)})
        parts: list[Part] = []
        for start, end in pairwise([low, *cuts, high]):
            folders = tuple(f for f, ts in done.items() if ts is not None and ts <= _below(start))
            if folders:
                parts.append((None if start == NOTHING else start, end, folders))
        return parts

    def creation_ts(self, name: str) -> int | None:
        """The commit_ts of the DDL that created a table in an earlier step, if it was the table's last DDL."""
        changed, key = self.state.changed, _keys(name, self.capabilities)[0]
        last = changed.get(key) or next((c for n, c in changed.items() if n.lower() == key.lower()), None)
        return (
            last.commit_ts if last is not None and any("CREATE" in text[:20].upper() for text in last.texts) else None
        )

    def _done(self, folder: str, name: str) -> int | None:
        """The commit_ts up to which rows of a table in a folder are applied; None if all are."""
        return self.state.partly.get(folder, {name: NOTHING}).get(name)

    def retain(self, chunks: Iterable[ChunkInfo], unknown: Container[str]) -> State:
        """The state after the step: pending folders, and the schema changes that took effect; see `Planned.unknown`."""
        partly: dict[str, dict[str, int]] = {}
        kept_folders = {self.state.waiting}
        applied = set(self.state.partly)
        unsettled = {_identity(event) for event in self.waiting}
        for chunk in chunks:
            if chunk.event is not None and _identity(chunk.event) in unsettled:
                kept_folders.add(chunk.folder)
            elif chunk.kind == "rows":
                done = self._done(chunk.folder, chunk.name)
                bound = self.upto(chunk.name, is_known=chunk.name not in unknown)
                if bound is None or done is None or (chunk.max_ts is not None and chunk.max_ts <= max(done, bound)):
                    applied.add(chunk.folder)
                    if (chunk.folder, chunk.name) in self.resent:
                        of_folder = partly.setdefault(chunk.folder, {})
                        of_folder[chunk.name] = max(
                            _below(c) for c in (done, bound, chunk.max_ts, of_folder.get(chunk.name))
                        )
                    continue
                partly.setdefault(chunk.folder, {})[chunk.name] = max(done, bound)
                if chunk.min_ts is not None and chunk.min_ts <= max(done, bound):
                    applied.add(chunk.folder)
        pending = tuple(f for f in self.state.pending if f in kept_folders or f in partly)
        changed = {**self.state.changed, **_changed(self.state, self.changes, self.capabilities)}
        return replace(
            self.state, pending=pending, changed=changed,
            partly={folder: partly.get(folder, {}) for folder in pending if folder in applied},
        )  # fmt: skip


def table_frontier(
    state: State,
    chunks: list[ChunkInfo],
    partitions: Iterable[Partition],
    capabilities: Capabilities,
    *,
    idle: bool,
    quiet: bool = False,
    ended: Mapping[Partition, int] = MappingProxyType({}),
) -> TableFrontier:
    """The frontier of each table, given everything that is pending.

    Args:
        state: before the step; `pending` names the folders of `chunks`.
        partitions: the partitions of the source.
        capabilities: where the source sends schema changes.
        idle: the source had nothing more to read when the last batch began.
        quiet: nothing has been read since.
        ended: see `Reading`.
    """
    all_partitions = state.partitions().union(partitions)
    shown: dict[_Identity, dict[Partition, int]] = {}
    for chunk in chunks:
        if chunk.event is not None:
            places, partition = shown.setdefault(_identity(chunk.event), {}), (chunk.topic, chunk.partition)
            places[partition] = max(chunk.last, places.get(partition, -1))
    new = [e for e in distinct_changes(chunks, None, None) if not _is_repeated(e, state, capabilities)]
    resent = [_resent(e, shown[_identity(e)], chunks, capabilities) if capabilities.broadcast else [] for e in new]
    slowest_first = sorted((_passed(p, state, capabilities, ended, idle=idle), p) for p in all_partitions)
    passed = [
        _is_decided(e, shown, chunks, state, quiet=quiet)
        and (idle or not back)
        and _is_passed(e, slowest_first, shown[_identity(e)].keys() - back, capabilities)
        for e, back in zip(new, ({(c.topic, c.partition) for c in rows} for rows in resent), strict=True)
    ]
    ready = _whole(new, passed.index(False) if False in passed else len(new))
    bounds = {name: e.commit_ts or 0 for e in reversed(new[ready:]) for name in _perhaps_concerned(e, capabilities)}
    schema_frontier = covered = None
    if not idle and not capabilities.broadcast:
        schema_frontier = passed_by_all(state, all_partitions, ended)
    elif not idle and capabilities.ddl_in_first:
        schema_frontier = passed_by_all(state, (at for at in all_partitions if at[1] == 0), ended)
    elif (
        not idle
        and len({topic for topic, _ in all_partitions}) > 1
        and not _has_no_schema_changes(state, shown, capabilities)
    ):
        covered = _covered(state, all_partitions, new[:ready])
    without_ts = frozenset(c.name for c in chunks if c.kind == "rows" and c.min_ts is None)
    resent_rows = frozenset((c.folder, c.name) for rows in resent[ready:] for c in rows)
    return TableFrontier(
        state, new[:ready], new[ready:], bounds, schema_frontier, covered, without_ts, resent_rows, capabilities
    )


def _whole(events: list[SchemaChange], count: int) -> int:
    """The number of events at the beginning that take effect: so many, without those whose commit_ts a later one has, too."""
    waiting = events[count].commit_ts if count < len(events) else None
    while waiting is not None and count and events[count - 1].commit_ts == waiting:
        count -= 1
    return count


def floor(state: State, name: str, capabilities: Capabilities) -> int | None:
    """The commit_ts up to which a table's rows were certainly applied before its last schema change: Rule 5."""
    last_changes = [state.changed.get(key) for key in _keys(name, capabilities)] if capabilities.broadcast else []
    return max((one.commit_ts for one in last_changes if one is not None), default=None)


def concerned(event: SchemaChange, capabilities: Capabilities) -> set[str]:
    """The names whose meaning a schema change alters: `database.table`, or `database.` for all tables in it."""
    event_name = full_name(event.database or "", event.table or "")
    try:
        statements = ddl.statements_of(event, restored=capabilities.restored_ddl)
    except (SchemaError, UnsupportedError):
        statements = []
    names = {name for statement in statements for name in _names(statement)} or {event_name}
    names |= {other for name in names for other in tables_sent_as(name)}
    return {name.lower() for name in names} if capabilities.restored_ddl else names


def _perhaps_concerned(event: SchemaChange, capabilities: Capabilities) -> set[str]:
    """The names, as in `_waiting_names`, whose meaning a schema change may alter: see Rule 9."""
    names = concerned(event, capabilities) | {full_name(*name) for name in own_names(event)}
    if not capabilities.session_database:
        names |= {full_name("", table) for table in unqualified(event, restored=capabilities.restored_ddl)}
    return {name.lower() for name in names}


def _waiting_names(name: str) -> tuple[str, str, str]:
    """The names of the table, of its database, and of a table that is named without a database."""
    database, table = names_of(name.lower())
    return full_name(database, table), full_name(database, ""), full_name("", table)


def _names(statement: sql.Statement) -> list[str]:
    match statement:
        case sql.CreateDatabase(database=database) | sql.DropDatabase(database=database):
            return [full_name(database, "")]
        case sql.CreateTable(database=database, table=table, like=like):
            return [full_name(database, table), *([full_name(*like)] if like else [])]
        case sql.RenameTable():
            return [
                full_name(statement.database, statement.table),
                full_name(statement.to_database, statement.to_table),
            ]
        case sql.Unapplied(tables=tables):
            return [full_name(*names) for names in tables]
        case sql.Passed():
            return []
    return [full_name(statement.database, statement.table)]


def _keys(name: str, capabilities: Capabilities) -> tuple[str, str]:
    """The names of the table and of its database, in the form of `concerned`."""
    name = name.lower() if capabilities.restored_ddl else name
    return name, full_name(names_of(name)[0], "")


def _identity(event: SchemaChange) -> _Identity:
    return event.commit_ts, event.database, event.table, event.ddl


def _is_repeated(event: SchemaChange, state: State, capabilities: Capabilities) -> bool:
    """Whether it took effect before: each of its names has had it, or a later one."""
    before = [state.changed.get(name) for name in concerned(event, capabilities)]
    ts, text = event.commit_ts, event.ddl or ""
    return ts is not None and all(
        c is not None and (c.commit_ts > ts or (c.commit_ts == ts and text in c.texts)) for c in before
    )


def _changed(
    state: State, events: Iterable[SchemaChange], capabilities: Capabilities
) -> Mapping[str, LastSchemaChange]:
    changed: dict[str, LastSchemaChange] = {}
    for event in events:
        ts = event.commit_ts
        if ts is None:  # it is left out, or every row would count as one before it
            continue
        for name in concerned(event, capabilities):
            last = changed.get(name, state.changed.get(name))
            if last is None or last.commit_ts < ts:
                changed[name] = LastSchemaChange(ts, (event.ddl or "",))
            elif last.commit_ts == ts:
                changed[name] = LastSchemaChange(ts, (*last.texts, event.ddl or ""))
    return changed


def _resent(
    event: SchemaChange, shown: Mapping[Partition, int], chunks: Iterable[ChunkInfo], capabilities: Capabilities
) -> list[ChunkInfo]:
    """The rows from before the event that a partition has sent after it: the producer is sending again, see Rule 6."""
    names, ts = concerned(event, capabilities), event.commit_ts or 0
    passed = dict(shown)
    for chunk in chunks:
        partition = (chunk.topic, chunk.partition)
        if chunk.kind == "resolved" and partition in passed and (chunk.max_ts or 0) >= ts:
            passed[partition] = max(passed[partition], chunk.last)
    resent_chunks = []
    for chunk in chunks:
        offset = passed.get((chunk.topic, chunk.partition))
        if chunk.kind != "rows" or offset is None or chunk.last <= offset:
            continue
        # a chunk may begin before the event: then its lowest commit_ts is that of a row before the event
        lowest = chunk.min_ts if chunk.first > offset else chunk.max_ts
        if lowest is not None and lowest <= ts and not names.isdisjoint(_keys(chunk.name, capabilities)):
            resent_chunks.append(chunk)
    return resent_chunks


def _is_decided(
    event: SchemaChange,
    shown: Mapping[_Identity, Mapping[Partition, int]],
    chunks: Iterable[ChunkInfo],
    state: State,
    *,
    quiet: bool,
) -> bool:
    """Whether it is known if rows follow a snapshot's schema change: see Rule 7."""
    if snapshot_mark(event) is None:
        return True
    ts, offsets = event.commit_ts or 0, shown[_identity(event)]
    if quiet and any(last > ts for of in state.latest.values() for last in of.values()):
        return True
    for chunk in chunks:
        partition, other = (chunk.topic, chunk.partition), chunk.event
        if other is not None and other.commit_ts == ts and snapshot_mark(other) == LAST:
            return True
        is_later = other is not None and other.commit_ts != ts and chunk.last > offsets.get(partition, chunk.last)
        if other is not None and is_later and snapshot_mark(other) in (None, LAST):
            return True  # the topic of schema changes is in order: the snapshot's are all there, or it was interrupted
        if chunk.transactions is not None and _has_row_after(ts, chunk.transactions):
            return True
    return False


def _has_row_after(ts: int, lines: pa.RecordBatch) -> bool:
    """Whether a row of a snapshot behind this position is among the lines of a `transactions` chunk."""
    of_row = pc.and_(pc.is_null(lines.column("events")), pc.is_valid(lines.column("snapshot")))
    return bool(pc.any(pc.and_(of_row, pc.greater(lines.column("commit_ts"), ts))).as_py())


def _passed(
    partition: Partition, state: State, capabilities: Capabilities, ended: Mapping[Partition, int], *, idle: bool
) -> int:
    """The commit_ts at or below which nothing can follow in a partition, judging by other events than schema changes."""
    if not capabilities.broadcast:
        return END if idle else passed_by(partition, state, ended)
    return state.resolved.get(partition[0], {}).get(partition[1], END if idle else NOTHING)


def _is_passed(
    event: SchemaChange,
    slowest_first: Sequence[tuple[int, Partition]],
    senders: Collection[Partition],
    capabilities: Capabilities,
) -> bool:
    """Whether nothing below a schema change can follow, nor another part of its statement: see Rules 1, 2 and 4.

    Args:
        event: the schema change.
        slowest_first: what each partition has passed, and the partition, sorted.
        senders: the partitions that have sent it, and none of the rows before it again.
        capabilities: where the source sends schema changes.
    """
    ts = event.commit_ts or 0
    if not capabilities.broadcast:  # a partition that has passed it by sending it may send another part
        return not slowest_first or slowest_first[0][0] > ts
    return all(partition in senders for _, partition in takewhile(lambda one: one[0] < ts, slowest_first))


def _has_no_schema_changes(state: State, shown: Mapping[_Identity, object], capabilities: Capabilities) -> bool:
    """Whether none will come: TiCDC's Avro has deletes without commit_ts, and schema changes only with resolved events."""
    return capabilities.missing_commit_ts and not (state.resolved or state.changed or shown)


def _covered(state: State, partitions: Iterable[Partition], changes: list[SchemaChange]) -> int:
    marked = min(state.resolved.get(topic, {}).get(p, NOTHING) for topic, p in partitions)
    return max([marked, *(event.commit_ts or 0 for event in changes[-1:])])


def _below(ts: int | None) -> int:
    return NOTHING if ts is None else ts
