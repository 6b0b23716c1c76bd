"""Plans the writes that bring all tables from one barrier to the next. No Spark and no clock: values in, values out.

Theory of operation:

Rule 1. Schema changes and rows are ordered by commit_ts. A table's rows up to a schema change are merged before it, the rest
after it; rows of other tables do not wait for it. Where commit_ts is a binlog position, schema changes have the position right
before theirs (`stages.decode.ordered`): the rows of a snapshot come after its CREATE TABLE.
Rule 2. A schema change is sent to every partition and counts once, by commit_ts, names and text. With `consistency: key`,
`by_key.py` decides which take effect.
Rule 3. A column that DDL or the producer's definition declares has that type. The other ones are inferred from rows, and widen
when later rows need it.
Rule 4. A quarantined table is skipped, with its DDL. When it is released, it starts where it was held, not at the barrier.
Tables that swap names with it are held with it.

Rule 5. A table that is known by DDL alone is left out, see `captured.py`.

Schema changes are planned in `schema_changes.py` and `renames.py`, rows in `writes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from changefeed.model.event import SchemaChange
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.actions import Action, fused
from changefeed.pipeline.planning.captured import LeftOut
from changefeed.pipeline.planning.names import Names, server_rule
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.schema_changes import SchemaChanges
from changefeed.pipeline.planning.schema_events import distinct_changes, interrupted_snapshots, within
from changefeed.pipeline.planning.shadows import Shadows
from changefeed.pipeline.planning.writes import ShapesInside, Writes, by_table
from changefeed.pipeline.state import Hold, Shadow, State, TableState, Uncaptured
from changefeed.protocols.origin import is_of_copy
from changefeed.sinks.base import TableSink

if TYPE_CHECKING:
    from changefeed.pipeline.frontier.base import Frontier


@dataclass(frozen=True, slots=True)
class Planned:
    """The writes of a step, the tables and the quarantine after them, and notes for people.

    Attributes:
        schema_changes: number of schema changes in the step, each counted once.
        unknown: tables that were not known before their last rows were read.
        uncaptured: tables that are left out, see `captured.py`.
        shadows, lower_case_table_names: as in `State`.
    """

    actions: list[Action]
    tables: dict[str, TableState]
    held: dict[str, Hold]
    notes: list[str]
    schema_changes: list[SchemaChange]
    unknown: set[str]
    uncaptured: dict[str, Uncaptured] = field(default_factory=dict)
    shadows: dict[str, Shadow] = field(default_factory=dict)
    lower_case_table_names: int | None = None

    def state_after(self, state: State) -> State:
        """`state` after the step: its tables, quarantine and schema changes."""
        counts = replace(state.counts, schema_changes=state.counts.schema_changes + len(self.schema_changes))
        return replace(
            state, tables=self.tables, uncaptured=self.uncaptured, held=self.held, counts=counts, shadows=self.shadows,
            lower_case_table_names=self.lower_case_table_names,
        )  # fmt: skip


def make(
    frontier: Frontier,
    chunks: list[ChunkInfo],
    rules: Rules,
    sink: TableSink,
    shapes_inside: ShapesInside,
    topics: Iterable[str] = (),
) -> Planned:
    """The writes that bring every table to the frontier.

    Args:
        frontier: how far each table advances.
        chunks: all pending chunks.
        rules: of the definition.
        sink: the tables' types, and the columns that it refuses.
        shapes_inside: see `pending.counting`.
        topics: the topics of the source, also those from which nothing was read.

    Raises:
        UnsupportedError: a schema change or a table cannot be applied; the message names it and the way out.
    """
    state, after, upto, table_frontier = frontier.state, frontier.after, frontier.through, frontier.table_frontier
    tables = {name: table for name, table in state.tables.items() if not rules.excluded(name)}
    held = {name: hold for name, hold in state.held.items() if not rules.excluded(name)}
    left_out = LeftOut.of(state, chunks, topics, rules)
    tables |= {name: one.table for name, one in state.uncaptured.items() if name in left_out and one.table is not None}
    writes = Writes(
        tables,
        held,
        after,
        upto,
        by_table(chunks),
        rules,
        sink,
        shapes_inside,
        table_frontier,
        frontier.includes_after,
        left_out,
    )
    late = list(frontier.late_changes)
    starts = [hold.after for hold in state.held.values() if hold.released] + [after]
    first = None if None in starts else min(start for start in starts if start is not None)
    events = distinct_changes(chunks, first, upto) if table_frontier is None else table_frontier.changes
    events = [event for event in events if event not in late]
    names = {(t.table.database, t.table.name) for t in tables.values()}
    rule = server_rule(state.lower_case_table_names, chunks, [*late, *events], names, restored=rules.restored_ddl)
    shadows = Shadows(dict(state.shadows))
    interrupted = interrupted_snapshots(chunks)
    copies = {
        (e.database or "", e.table or ""): e.commit_ts for e in events if e.type == "drop_table" and is_of_copy(e)
    }
    schema_changes = SchemaChanges(
        writes, Names(writes, shadows, rule), shadows, interrupted=interrupted, copies=copies
    )
    schema_changes.names.fold()
    if late:
        schema_changes.apply(after, late, late=True)
    for ts, together in groupby(events, key=lambda event: event.commit_ts):
        schema_changes.apply(ts, together)
    writes.flush_all()
    for name in [name for name in writes.tables if name in left_out and left_out.topics.has(name)]:
        writes.admit(name)
    return Planned(
        fused(writes.actions),
        {name: table for name, table in writes.tables.items() if name not in left_out},
        {name: hold for name, hold in writes.held.items() if not hold.released},
        [*schema_changes.notes, *left_out.notes],
        [*late, *(e for e in events if within(e.commit_ts, after, None))],
        writes.unknown,
        left_out.state_of(writes.tables),
        schema_changes.shadows.shadows,
        None if rules.restored_ddl else rule,
    )
