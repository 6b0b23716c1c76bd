"""Planning: which writes bring all tables from one barrier to the next. No Spark, no clock: values in, values out.

Theory of operation:

Rule 1. Schema changes and rows are ordered by commit_ts. A table's rows up to a schema change are merged before it, the
rest after it. Rows of other tables do not wait for it.
Rule 2. A schema change is sent to every partition: it counts once, by commit_ts, names and text.
Rule 3. A table whose DDL was seen has the columns that the DDL says. A table that was not is learned from its rows, and
widens when later rows need it.
Rule 4. A table in quarantine is passed over, its DDL too. Released, it starts where it was held, not at the barrier.
Rule 5. A table that is renamed is copied to its new path; the old one stays for the cuts before. A dropped one stays too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.frames.chunks import read_shape
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.table import Column
from changefeed.pipeline.actions import AddColumns, AnyAction, Copy, Create, Merge, Rewrite, fused
from changefeed.pipeline.evolution import columns_added, learn, rewritten, without_unknown
from changefeed.pipeline.pending import ChunkInfo
from changefeed.pipeline.state import Hold, State, TableState
from changefeed.wire import ddl
from changefeed.wire.ddl import statements as said
from changefeed.wire.ddl.apply import alter


@dataclass(frozen=True, slots=True)
class Rules:
    """What the definition says about applying."""

    keyless: str = "append"
    behavior: str = "evolve"


@dataclass(frozen=True, slots=True)
class Planned:
    """The writes of a step, the tables and the quarantine after them, and notes for people."""

    actions: list[AnyAction]
    tables: dict[str, TableState]
    held: dict[str, Hold]
    notes: list[str]


def make(state: State, chunks: list[ChunkInfo], after: int | None, upto: int | None, rules: Rules) -> Planned:
    """The writes for everything in (after, upto].

    Raises:
        UnsupportedError: a schema change or a table cannot be applied; the message names it and the way out.
    """
    planner = _Planner(dict(state.tables), chunks, after, upto, rules, dict(state.held))
    starts = [hold.after for hold in state.held.values() if hold.released] + [after]
    first = None if None in starts else min(start for start in starts if start is not None)
    for event in distinct_changes(chunks, first, upto):
        planner.schema_change(event)
    planner.flush_all()
    held = {name: hold for name, hold in planner.held.items() if not hold.released}
    return Planned(fused(planner.actions), planner.tables, held, planner.notes)


def distinct_changes(chunks: Iterable[ChunkInfo], after: int | None, upto: int | None) -> list[SchemaChange]:
    """The schema changes in (after, upto], each once, in their order."""
    found: dict[tuple[int | None, str | None, str | None, str | None], SchemaChange] = {}
    events = [c.event for c in chunks if c.event is not None and _within(c.event.commit_ts, after, upto)]
    for event in sorted(events, key=lambda e: (e.commit_ts or 0, e.place.topic, e.place.partition, e.place.offset)):
        found.setdefault((event.commit_ts, event.database, event.table, event.ddl), event)
    return list(found.values())


@dataclass(slots=True)
class _Planner:
    tables: dict[str, TableState]
    chunks: list[ChunkInfo]
    after: int | None
    upto: int | None
    rules: Rules
    held: dict[str, Hold]
    actions: list[AnyAction] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flushed: dict[str, int | None] = field(default_factory=dict)

    def flush_all(self) -> None:
        names = dict.fromkeys((c.database, c.table) for c in self.chunks if c.kind == "rows")
        for database, table in names:
            self.flush(str(database), str(table), self.upto)

    def flush(self, database: str, table: str, upto: int | None) -> None:
        """Plans the rows of a table up to here, with the columns that it has here."""
        name = f"{database}.{table}"
        if self._is_held(name):
            return
        after = self.flushed.get(name, self._start(name))
        rows = [c for c in self.chunks if c.kind == "rows" and c.name == name and _overlaps(c, after, upto)]
        self.flushed[name] = upto
        if not rows:
            return
        shapes = [read_shape(text) for text in dict.fromkeys(c.shape for c in rows if c.shape)]
        here = self.tables.get(name)
        learned = learn(here.table if here else None, shapes, declared=bool(here and here.declared))
        if here is None:
            self._create(learned, declared=False)
        elif learned != here.table:
            self._become(name, learned)
        here = self.tables[name]
        if not here.table.keys and self.rules.keyless == "refuse":
            raise UnsupportedError(
                f"{name} has no handle key and `keyless: refuse` is set: give it a primary key upstream, leave it out, or "
                "set `keyless: append`"
            )
        columns = {c.name for c in here.table.columns}
        partial = any(columns - {c.name for c in s.after_columns} for s in shapes)
        self._add(Merge(
            path=here.path, number=0, table=here.table, source=(database, table), after=after, upto=upto,
            partial=partial and bool(here.table.keys),
        ))  # fmt: skip

    def schema_change(self, event: SchemaChange) -> None:
        """Plans one DDL statement as the rules say."""
        if self.rules.behavior == "ignore":
            self.notes.append(f"ignored: {event.ddl}")
            return
        if self.rules.behavior == "exception":
            raise UnsupportedError(f"schema.change.behavior is `exception`, and at {event.place} came: {event.ddl}")
        try:
            statements = ddl.parse(event.ddl or "", event.database)
        except (SchemaError, UnsupportedError) as error:
            self._refuse(event, str(error), error)
            return
        for statement in statements:
            self._statement(statement, event)

    def _is_held(self, name: str) -> bool:
        return name in self.held and not self.held[name].released

    def _start(self, name: str) -> int | None:
        return self.held[name].after if name in self.held else self.after

    def _waits(self, statement: said.Statement, event: SchemaChange) -> bool:
        """Whether a statement is not for now: its table is held, or was past it before others were released."""
        database, table = getattr(statement, "database", None), getattr(statement, "table", None)
        name = f"{database}.{table}"
        if self._is_held(name):
            if isinstance(statement, said.RenameTable):
                self.held[f"{statement.to_database}.{statement.to_table}"] = self.held[name]
            return True
        return not _within(event.commit_ts, self._start(name), None)

    def _statement(self, statement: said.Statement, event: SchemaChange) -> None:
        if self._waits(statement, event):
            return
        match statement:
            case said.CreateTable():
                self._create_table(statement)
            case said.DropTable(database=database, table=table):
                self.flush(database, table, event.commit_ts)
                if self._destroys(event):
                    self.tables.pop(f"{database}.{table}", None)
            case said.DropDatabase(database=database):
                if self._destroys(event):
                    for name in [n for n, t in self.tables.items() if t.table.database == database]:
                        del self.tables[name]
            case said.TruncateTable(database=database, table=table):
                self.flush(database, table, event.commit_ts)
                here = self.tables.get(f"{database}.{table}")
                if here is not None and self._destroys(event):
                    self._add(Create(path=here.path, number=0, table=here.table))
            case said.RenameTable():
                self._rename(statement, event)
            case said.AlterTable(database=database, table=table):
                self.flush(database, table, event.commit_ts)
                self._alter(statement, event)
            case said.Unapplied():
                self._refuse(event, f"{statement.kind} removes rows that nothing names", None)
            case _:
                self.notes.append(f"passed over: {event.ddl}")

    def _create_table(self, statement: said.CreateTable) -> None:
        name = f"{statement.database}.{statement.table}"
        if statement.if_not_exists and name in self.tables:
            return
        table = statement.definition
        if statement.like is not None:
            like = self.tables.get(".".join(statement.like))
            if like is None:
                return  # nothing is known of the other table: this one is learned from its rows
            table = replace(like.table, database=statement.database, name=statement.table)
        self._create(table, declared=True)

    def _create(self, table: Table, *, declared: bool) -> None:
        path = table_path(table.database, table.name)
        self.tables[f"{table.database}.{table.name}"] = TableState(table, path, declared)
        self._add(Create(path=path, number=0, table=table))

    def _rename(self, statement: said.RenameTable, event: SchemaChange) -> None:
        self.flush(statement.database, statement.table, event.commit_ts)
        old = self.tables.pop(f"{statement.database}.{statement.table}", None)
        name = f"{statement.to_database}.{statement.to_table}"
        self.flushed[name] = event.commit_ts
        if old is None:
            return
        table = replace(old.table, database=statement.to_database, name=statement.to_table)
        path = table_path(table.database, table.name)
        self.tables[name] = TableState(table, path, old.declared)
        self._add(Copy(path=path, number=0, table=table, source=old.path))

    def _alter(self, statement: said.AlterTable, event: SchemaChange) -> None:
        name = f"{statement.database}.{statement.table}"
        here = self.tables.get(name)
        if here is None:
            return  # never seen: its rows will tell what it has now
        try:
            altered = alter(here.table, statement)
        except SchemaError as error:
            self._refuse(event, str(error), error)
            return
        try:
            expressions = rewritten(here.table, altered)
        except SchemaError as error:
            self._refuse(event, str(error), error)
            altered = without_unknown(altered)
            expressions = rewritten(here.table, altered)
        self.tables[name] = replace(here, table=altered.table)
        if expressions is not None:
            self._add(Rewrite(path=here.path, number=0, table=altered.table, expressions=expressions))
        elif columns_added(here.table, altered.table):
            self._add(AddColumns(path=here.path, number=0, table=altered.table))

    def _become(self, name: str, learned: Table) -> None:
        """The rows need more than the table has: new columns, or wider ones."""
        here = self.tables[name]
        have = {c.name: c for c in here.table.columns}
        wider = {c.name: c for c in learned.columns if c.name in have and _sink(c) != _sink(have[c.name])}
        self.tables[name] = replace(here, table=learned)
        if wider:
            casts = {c.name: _cast(c, have) for c in learned.columns}
            self._add(Rewrite(path=here.path, number=0, table=learned, expressions=casts))
        elif columns_added(here.table, learned):
            self._add(AddColumns(path=here.path, number=0, table=learned))

    def _destroys(self, event: SchemaChange) -> bool:
        if self.rules.behavior == "lenient":
            self.notes.append(f"not applied, `lenient` keeps what is there: {event.ddl}")
            return False
        return True

    def _refuse(self, event: SchemaChange, why: str, error: Exception | None) -> None:
        if self.rules.behavior in ("try_evolve", "lenient"):
            self.notes.append(f"not applied ({why}): {event.ddl}")
            return
        raise UnsupportedError(
            f"{why}: {event.ddl!r} at {event.place}. Set schema.change.behavior to `try_evolve` to go on without it"
        ) from error

    def _add(self, action: AnyAction) -> None:
        number = 1 + sum(a.path == action.path for a in self.actions)
        self.actions.append(msgspec.structs.replace(action, number=number))


def table_path(database: str, table: str) -> str:
    """Where a table lies below the sink's path; characters that paths cannot hold are percent-encoded."""
    return "/".join(
        "".join(c if c not in '/\\%:*?"<>|' and c >= " " else f"%{ord(c):02X}" for c in n) for n in (database, table)
    )


def _sink(column: Column) -> str:
    return sink_type(column.type).sql


def _cast(column: Column, have: dict[str, Column]) -> str:
    quoted = "`" + column.name.replace("`", "``") + "`"
    return f"CAST({quoted if column.name in have else 'NULL'} AS {_sink(column)})"


def _within(ts: int | None, after: int | None, upto: int | None) -> bool:
    if ts is None:
        return after is None and upto is None
    return (after is None or ts > after) and (upto is None or ts <= upto)


def _overlaps(chunk: ChunkInfo, after: int | None, upto: int | None) -> bool:
    low, high = chunk.min_ts, chunk.max_ts
    if low is None or high is None:
        return after is None and upto is None
    return (after is None or high > after) and (upto is None or low <= upto)
