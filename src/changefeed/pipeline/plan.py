"""Planning: which writes bring all tables from one barrier to the next. No Spark, no clock: values in, values out.

Theory of operation:

Rule 1. Schema changes and rows are ordered by commit_ts. A table's rows up to a schema change are merged before it, the
rest after it. Rows of other tables do not wait for it.
Rule 2. A schema change is sent to every partition: it counts once, by commit_ts, names and text. Where there is no
barrier, `by_key.py` tells which take effect.
Rule 3. A table whose DDL was seen has the columns that the DDL says. A table that was not, or whose DDL was passed over,
is learned from its rows, and widens when later rows need it.
Rule 4. A table in quarantine is passed over, its DDL too. Released, it starts where it was held, not at the barrier. Those
that trade names with one in quarantine wait with it.
Rule 5. A table that is renamed is copied to its new path; the old one stays for the cuts before. A dropped one stays too.
Rule 6. TiDB compares names of tables without regard to case, and its DDL spells them as the user did. Rows and events
spell them as they are: that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, NoReturn

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.table import TableShape
from changefeed.pipeline.actions import AnyAction, fused
from changefeed.pipeline.evolution import altered, irregular_defaults, passable, rewritten
from changefeed.pipeline.pending import ChunkInfo
from changefeed.pipeline.state import Hold, State, TableState
from changefeed.pipeline.writes import Writes, by_table, within
from changefeed.wire import ddl
from changefeed.wire.ddl import statements as said

if TYPE_CHECKING:
    from changefeed.pipeline.by_key import Reach

PASSED = "passed over"  # begins the note of a statement that no table downstream has anything of
_Name = tuple[str, str]  # database and table


@dataclass(frozen=True, slots=True)
class Rules:
    """What the definition says about applying.

    Attributes:
        keyless: tables without a handle key: `append`, `inserts` or `refuse`.
        excluded: whether a table, by `database.table`, is passed over with its schema changes.
        behavior: what a schema change does, as in Flink CDC; new tables are created whatever it says:
            `evolve`      it is applied; one that cannot be stops the pipeline
            `try_evolve`  it is applied; one that cannot be is noted, and the table follows its rows from there
            `lenient`     as `try_evolve`, and nothing is lost: drops and truncations are noted, columns dropped stay
            `ignore`      it is noted, and tables follow their rows
            `exception`   it stops the pipeline
        irregular: the sink's policy for values that a column cannot hold: `null`, `fail` or `keep`.
        ours: names of the columns that the definition adds to every table.
        restored_ddl: TiDB wrote the DDL, see `wire.ddl.parse`.
    """

    keyless: str = "append"
    behavior: str = "evolve"
    irregular: str = "null"
    restored_ddl: bool = False
    ours: frozenset[str] = frozenset()
    excluded: Callable[[str], bool] = lambda name: False


@dataclass(frozen=True, slots=True)
class Planned:
    """The writes of a step, the tables and the quarantine after them, and notes for people.

    Attributes:
        schema_changes: those of the step, each once.
        unknown: tables that were not known before their last rows came.
    """

    actions: list[AnyAction]
    tables: dict[str, TableState]
    held: dict[str, Hold]
    notes: list[str]
    schema_changes: list[SchemaChange]
    unknown: set[str]

    def reached(self, state: State) -> State:
        """`state` with what the step makes of tables, quarantine and schema changes."""
        counts = replace(state.counts, schema_changes=state.counts.schema_changes + len(self.schema_changes))
        return replace(state, tables=self.tables, held=self.held, counts=counts)


def make(
    state: State,
    chunks: list[ChunkInfo],
    after: int | None,
    upto: int | None,
    rules: Rules,
    reach: Reach | None = None,
) -> Planned:
    """The writes for everything in (after, upto]; without a barrier, for what is in `reach`.

    Raises:
        UnsupportedError: a schema change or a table cannot be applied; the message names it and the way out.
    """
    tables = {name: table for name, table in state.tables.items() if not rules.excluded(name)}
    held = {name: hold for name, hold in state.held.items() if not rules.excluded(name)}
    writes = Writes(tables, held, after, upto, rules.keyless, by_table(chunks), rules.ours, rules.excluded, reach)
    planner = _Planner(writes, rules, after)
    starts = [hold.after for hold in state.held.values() if hold.released] + [after]
    first = None if None in starts else min(start for start in starts if start is not None)
    events = distinct_changes(chunks, first, upto) if reach is None else reach.changes
    for ts, together in groupby(events, key=lambda event: event.commit_ts):
        planner.schema_changes(ts, together)
    writes.flush_all()
    return Planned(
        fused(writes.actions),
        writes.tables,
        {name: hold for name, hold in writes.held.items() if not hold.released},
        planner.notes,
        [e for e in events if within(e.commit_ts, after, None)],
        writes.unknown,
    )


def distinct_changes(chunks: Iterable[ChunkInfo], after: int | None, upto: int | None) -> list[SchemaChange]:
    """The schema changes in (after, upto], each once, in their order."""
    found: dict[tuple[int | None, str | None, str | None, str | None], SchemaChange] = {}
    events = [c.event for c in chunks if c.event is not None and within(c.event.commit_ts, after, upto)]
    for event in sorted(events, key=lambda e: (e.commit_ts or 0, e.place.topic, e.place.partition, e.place.offset)):
        found.setdefault((event.commit_ts, event.database, event.table, event.ddl), event)
    return list(found.values())


@dataclass(slots=True)
class _Planner:
    """Plans schema changes, one after the other. `since` is where they begin for tables that were not held."""

    writes: Writes
    rules: Rules
    since: int | None
    notes: list[str] = field(default_factory=list)

    def schema_changes(self, ts: int | None, events: Iterable[SchemaChange]) -> None:
        """Plans the DDL statements of one commit_ts as the rules say."""
        parsed = [(statement, event) for event in events for statement in self._parsed(event)]
        if ts is None:
            return
        self._hold_together([self._names(s, e) for s, e in parsed if isinstance(s, said.RenameTable)], ts)
        for statement, event in parsed:
            self._statement(statement, event, ts)

    def _parsed(self, event: SchemaChange) -> list[said.Statement]:
        if event.commit_ts is None:
            raise UnsupportedError(
                f"a schema change without commit_ts has no place among rows: {event.ddl} at {event.place}"
            )
        if event.type == "truncate_table" and not event.ddl:
            return [said.TruncateTable(*_named(event))]
        try:
            return ddl.parse(event.ddl or "", event.database, restored=self.rules.restored_ddl)
        except (SchemaError, UnsupportedError) as error:
            if self._turn(".".join(_named(event)), event.commit_ts):
                self._refuse(event, str(error), error)
            return []

    def _hold_together(self, renames: list[tuple[_Name, _Name]], ts: int) -> None:
        """Holds the tables that are renamed to and fro with one in quarantine, from before any of it, see rule 4."""
        writes = self.writes
        groups: list[set[_Name]] = []
        for pair in renames:
            joined = [g for g in groups if g & {*pair}]
            groups = [g for g in groups if g not in joined] + [set(pair).union(*joined)]
        for group in groups:
            waits = [n for n in group if writes.is_held(".".join(n)) and within(ts, writes.start(".".join(n)), None)]
            for names in sorted(group) if waits else ():
                if self._turn(".".join(names), ts):
                    writes.flush(*names, ts)
                    writes.held[".".join(names)] = Hold(ts - 1)

    def _statement(self, statement: said.Statement, event: SchemaChange, ts: int) -> None:
        match statement:
            case said.CreateTable():
                self._create(statement, event, ts)
            case said.DropTable(database=database, table=table):
                self._drop([self._spelled(database, table, event)], event, ts)
            case said.DropDatabase(database=database):
                self._drop(self._inside(database), event, ts)
            case said.TruncateTable(database=database, table=table):
                self._truncate(*self._spelled(database, table, event), event, ts)
            case said.RenameTable():
                self._rename(statement, event, ts)
            case said.AlterTable(database=database, table=table):
                self._alter(statement, *self._spelled(database, table, event), event, ts)
            case said.Unapplied():
                concerned = statement.tables or ((event.database or "", event.table or ""),)
                if any(self._turn(".".join(self._spelled(*names, event)), ts) for names in concerned):
                    self._refuse(event, f"{statement.kind} changes rows that nothing names", None)
            case said.Passed() if within(ts, self.since, None):
                self.notes.append(f"{PASSED}: {event.ddl}")

    def _turn(self, name: str, ts: int) -> bool:
        """Whether a table's schema change is for now: not when it is held, had it before others were released, or is excluded."""
        if self.writes.is_held(name) or self.rules.excluded(name):
            return False
        return within(ts, self.writes.held[name].after if name in self.writes.held else self.since, None)

    def _spelled(self, database: str, table: str, event: SchemaChange) -> _Name:
        """The name of a table as it is, see rule 6."""
        known = self.writes.names()
        if not self.rules.restored_ddl or (database, table) in known:
            return database, table
        return next((n for n in [_named(event), *sorted(known)] if _same(n, (database, table))), (database, table))

    def _inside(self, database: str) -> list[_Name]:
        known = sorted(self.writes.names())
        return [n for n in known if n[0] == database or (self.rules.restored_ddl and n[0].lower() == database.lower())]

    def _create(self, statement: said.CreateTable, event: SchemaChange, ts: int) -> None:
        writes, behavior = self.writes, self.rules.behavior
        database, table = self._spelled(statement.database, statement.table, event)
        name = f"{database}.{table}"
        there = name in writes.tables
        if not self._turn(name, ts) or (there and (statement.if_not_exists or self._forbidden(event))):
            return
        definition, declared = statement.definition, behavior != "ignore"
        if statement.like is not None:
            model = self._spelled(*statement.like, event)
            like = None
            if self._turn(".".join(model), ts):  # else it may have other columns by now, or none of them yet
                writes.flush(*model, ts)
                like = writes.tables.get(".".join(model))
            if like is not None:
                definition, declared = like.table, like.declared
        definition = replace(definition, database=database, name=table)
        if there and behavior == "lenient":
            writes.flush(database, table, ts)
            self.notes.append(f"not applied, `lenient` keeps the rows that are there: {event.ddl}")
            writes.learn(name, [TableShape(database, table, definition.columns)])
            return
        writes.flushed[name] = ts  # rows before belong to a table of this name that is gone
        if definition.columns:
            writes.create(definition, declared=declared)
        else:  # like a table of which nothing is known: it is learned from its rows
            writes.tables.pop(name, None)

    def _drop(self, tables: list[_Name], event: SchemaChange, ts: int) -> None:
        now = [names for names in tables if self._turn(".".join(names), ts)]
        if not now or self._forbidden(event):
            return
        kept = self._keeps(event)
        for names in now:
            if kept:
                self.writes.flush(*names, ts)
            else:
                self.writes.flushed[".".join(names)] = ts  # its rows need no merging any more
                self.writes.tables.pop(".".join(names), None)

    def _truncate(self, database: str, table: str, event: SchemaChange, ts: int) -> None:
        name = f"{database}.{table}"
        if not self._turn(name, ts) or self._forbidden(event):
            return
        if self._keeps(event):
            self.writes.flush(database, table, ts)
            return
        self.writes.flushed[name] = ts
        if name in self.writes.tables:
            self.writes.empty(name)

    def _names(self, statement: said.RenameTable, event: SchemaChange) -> tuple[_Name, _Name]:
        """The old name and the new one."""
        new = (statement.to_database, statement.to_table)
        said_so = self.rules.restored_ddl and _same(_named(event), new)
        return self._spelled(statement.database, statement.table, event), _named(event) if said_so else new

    def _rename(self, statement: said.RenameTable, event: SchemaChange, ts: int) -> None:
        old, new = self._names(statement, event)
        if old == new or not self._turn(".".join(old), ts) or self._forbidden(event):
            return
        self.writes.flush(*old, ts)
        if self.rules.behavior == "lenient" and ".".join(new) in self.writes.tables:
            self.notes.append(f"not applied, `lenient` keeps the table that has this name: {event.ddl}")
            return
        self.writes.flushed[".".join(new)] = ts
        if self.rules.excluded(".".join(new)):
            self.writes.tables.pop(".".join(old), None)
            return
        self.writes.move(".".join(old), *new)

    def _alter(self, statement: said.AlterTable, database: str, table: str, event: SchemaChange, ts: int) -> None:
        name = f"{database}.{table}"
        if not self._turn(name, ts) or self._forbidden(event):
            return
        self.writes.flush(database, table, ts)
        here = self.writes.tables.get(name)
        if here is None:
            return  # never seen: its rows will tell what it has now
        lenient, irregular = self.rules.behavior == "lenient", self.rules.irregular
        declared = here.declared
        try:
            change = altered(here.table, statement, declared=declared, lenient=lenient)
        except SchemaError as error:
            self._refuse(event, str(error), error)
            self.writes.change(name, here.table, None, declared=False)
            return
        try:
            expressions = rewritten(here.table, change, irregular)
        except SchemaError as error:
            self._refuse(event, str(error), error)
            change, declared = passable(change), False
            try:
                expressions = rewritten(here.table, change, irregular)
            except SchemaError:  # irregular, and the sink's policy is to stop
                self._stop(event, str(error), error)
        if irregular == "null":
            texts = irregular_defaults(change)
            self.notes += [f"{name}: NULL for {text!r} in the rows of the new column {c}" for c, text in texts]
        self.writes.change(name, change.table, expressions, declared=declared)

    def _forbidden(self, event: SchemaChange) -> bool:
        """Whether the rules keep tables that are there from changing."""
        if self.rules.behavior == "exception":
            raise UnsupportedError(f"schema.change.behavior is `exception`, and at {event.place} came: {event.ddl}")
        if self.rules.behavior == "ignore":
            self.notes.append(f"ignored: {event.ddl}")
        return self.rules.behavior == "ignore"

    def _keeps(self, event: SchemaChange) -> bool:
        if self.rules.behavior == "lenient":
            self.notes.append(f"not applied, `lenient` keeps what is there: {event.ddl}")
        return self.rules.behavior == "lenient"

    def _refuse(self, event: SchemaChange, why: str, error: Exception | None) -> None:
        if self.rules.behavior in ("try_evolve", "lenient"):
            self.notes.append(f"not applied ({why}): {event.ddl}")
        elif not self._forbidden(event):
            self._stop(event, f"{why}. Set schema.change.behavior to `try_evolve` to go on without it", error)

    def _stop(self, event: SchemaChange, why: str, error: Exception | None) -> NoReturn:
        raise UnsupportedError(f"{event.ddl!r} at {event.place}: {why}") from error


def _named(event: SchemaChange) -> _Name:
    return event.database or "", event.table or ""


def _same(left: _Name, right: _Name) -> bool:
    return left[0].lower() == right[0].lower() and left[1].lower() == right[1].lower()
