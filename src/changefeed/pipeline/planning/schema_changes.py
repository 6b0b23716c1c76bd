"""Planning of schema changes: what DDL does to the tables of a step.

Rule 1. A table in quarantine is skipped. Those that trade names with one wait with it, from before any of it.
Rule 2. A table that is renamed is copied to its new path; the old one stays for the cuts before. A dropped one stays too.
Rule 3. TiDB compares names of tables without regard to case, and its DDL spells them as the user did. Rows and events
spell them as they are: that counts.
Rule 4. A snapshot of Debezium drops and creates each table, and its rows follow. One that has no rows at all (modes
`no_data` and `recovery`) marks its last schema change: then tables that are there keep their rows, for no others will come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.table import TableShape
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as said
from changefeed.pipeline.planning.evolution import altered, irregular_defaults, passable, rewritten
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.schema_events import within
from changefeed.pipeline.planning.writes import Writes
from changefeed.pipeline.state import Hold
from changefeed.protocols.origin import LAST, snapshot_mark

SKIPPED = "skipped"  # begins the note of a statement that no table downstream has anything of
_Name = tuple[str, str]  # database and table


@dataclass(slots=True)
class SchemaChanges:
    """Plans schema changes, one after the other."""

    writes: Writes
    notes: list[str] = field(default_factory=list)

    @property
    def rules(self) -> Rules:
        """What the definition says about applying."""
        return self.writes.rules

    def apply(self, ts: int | None, events: Iterable[SchemaChange]) -> None:
        """Plans the DDL statements of one commit_ts as the rules say."""
        events = list(events)
        parsed = [(statement, event) for event in events for statement in self._parsed(event)]
        if ts is None:
            return
        if any(snapshot_mark(event) == LAST for event in events):
            self._without_rows(parsed, ts)
            parsed = [pair for pair in parsed if snapshot_mark(pair[1]) is None]
        self._hold_together([self._names(s, e) for s, e in parsed if isinstance(s, said.RenameTable)], ts)
        for statement, event in parsed:
            self._statement(statement, event, ts)

    def _parsed(self, event: SchemaChange) -> list[said.Statement]:
        if event.commit_ts is None:
            raise UnsupportedError(
                f"a schema change without commit_ts has no place in the order of rows: {event.ddl} at {event.place}"
            )
        try:
            return ddl.statements_of(event, restored=self.rules.restored_ddl)
        except (SchemaError, UnsupportedError) as error:
            if self._turn(".".join(_named(event)), event.commit_ts):
                self._refuse(event, str(error), error)
            return []

    def _hold_together(self, renames: list[tuple[_Name, _Name]], ts: int) -> None:
        """Holds the tables that are renamed to and fro with one in quarantine, from before any of it, see rule 1."""
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
                    self._refuse(event, f"{statement.kind} changes rows that cannot be identified", None)
            case said.Passed() if within(ts, self.writes.after, None):
                self.notes.append(f"{SKIPPED}: {event.ddl}")

    def _without_rows(self, parsed: list[tuple[said.Statement, SchemaChange]], ts: int) -> None:
        """Plans the DDL of a snapshot that has no rows: see rule 4."""
        for statement, event in parsed:
            if snapshot_mark(event) is None or not isinstance(statement, said.CreateTable):
                continue
            name = ".".join(self._spelled(statement.database, statement.table, event))
            here = self.writes.tables.get(name)
            if here is None:
                self._create(statement, event, ts)
            elif self._turn(name, ts):
                self.writes.flush(here.table.database, here.table.name, ts)
                self.notes.append(
                    f"{name} keeps its rows: the snapshot that defines it at {event.place} has none at all"
                )
                self.writes.learn(
                    name, [TableShape(here.table.database, here.table.name, statement.definition.columns)]
                )

    def _turn(self, name: str, ts: int) -> bool:
        """Whether a table's schema change is for now: not when it is held, had it before others were released, or is excluded."""
        if self.writes.is_held(name) or self.rules.excluded(name):
            return False
        return within(ts, self.writes.start(name), None)

    def _spelled(self, database: str, table: str, event: SchemaChange) -> _Name:
        """The name of a table as it is, see rule 3."""
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
            writes.create(definition, declared=declared, at=ts)
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
            self.writes.empty(name, ts)

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
        declared, types = here.declared, self.writes.sink.types
        try:
            change = altered(here.table, statement, declared=declared, lenient=lenient)
        except SchemaError as error:
            self._refuse(event, str(error), error)
            self.writes.change(name, here.table, None, declared=False)
            return
        try:
            rewrite = rewritten(here.table, change, types, irregular)
        except SchemaError as error:
            self._refuse(event, str(error), error)
            change, declared = passable(change, types), False
            try:
                rewrite = rewritten(here.table, change, types, irregular)
            except SchemaError:  # irregular, and the sink's policy is to stop
                self._stop(event, str(error), error)
        if irregular == "null":
            texts = irregular_defaults(change)
            self.notes += [f"{name}: NULL for {text!r} in the rows of the new column {c}" for c, text in texts]
        self.writes.change(name, change.table, rewrite, declared=declared)

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
