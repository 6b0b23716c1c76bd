"""Plans schema changes: the effect of DDL on the tables of a step, and on the definitions of tables that are left out.

Rule 1. Quarantined tables are skipped. Tables that swap names with one are held with it, from before the first rename.
Rule 2. A renamed table is copied to its new path; the old one stays for earlier cuts. So does the path of a dropped table.
Rule 3. A statement about a table that is not known has no effect, and is noted. `names.py` finds the table that it means,
`renames.py` plans renames and the swaps of online schema changes.
Rule 4. A snapshot of Debezium drops and creates each table, and its rows follow. A snapshot without rows (modes `no_data` and
`recovery`) marks its last schema change: then existing tables keep their rows, because no others will come. So they do if the
connector was killed before that one, and took the snapshot again. A table that a snapshot lacks stays as it is, with a note: it
was dropped while the connector did not follow, or is another connector's.
Rule 5. A table whose log has other rows than the table (`mysql.ddl.unlogged`) stops the run, whatever the behavior, or is noted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NoReturn

from changefeed.errors import SchemaError, UnknownRowsError, UnsupportedError
from changefeed.model.definition import Table
from changefeed.model.escaped_names import escaped
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name, names_of
from changefeed.model.types import ColumnType
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.apply import alter
from changefeed.mysql.ddl.mentions import mentioned
from changefeed.mysql.ddl.unlogged import VERSIONED, actions_of, versioned_by
from changefeed.pipeline.planning import column_rules, unplaced
from changefeed.pipeline.planning.captured import RefusedBeforeError, concerned
from changefeed.pipeline.planning.definitions import Unread, changed, created, extended, following, unread_kind
from changefeed.pipeline.planning.merging import Columns, lost_in_snapshots, misread
from changefeed.pipeline.planning.names import Name, Names, own_names, same
from changefeed.pipeline.planning.renames import Answers, Renames
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.schema_events import within
from changefeed.pipeline.planning.shadows import Shadows
from changefeed.pipeline.planning.values import session_of
from changefeed.pipeline.planning.writes import NEW_SNAPSHOT, Writes
from changefeed.pipeline.state import Hold
from changefeed.protocols.origin import LAST, copied_again, is_of_copy, snapshot_mark

SKIPPED = "skipped"  # first word of the note on a statement without effect in the sink
_TRY_EVOLVE = "schema.change.behavior to `try_evolve` to go on without it"


@dataclass(slots=True)
class SchemaChanges:
    """Plans schema changes, one after another."""

    writes: Writes
    names: Names
    shadows: Shadows
    notes: list[str] = field(default_factory=list)
    interrupted: Container[int] = ()  # the commit_ts of `interrupted_snapshots`
    copies: Mapping[Name, int | None] = field(default_factory=dict)  # table -> commit_ts of the copy that begins last
    renames: Renames = field(init=False)
    _late: bool = False
    _rowless: bool = False  # the schema changes are those of a snapshot without rows

    def __post_init__(self) -> None:
        self.names.notes = self.notes
        answers = Answers(self._turn, self._comes, self._forbidden, self._refuse, self._alter, self._is_copied_again)
        self.renames = Renames(self.writes, self.names, self.shadows, self.notes, answers)

    @property
    def rules(self) -> Rules:
        """The rules of the definition."""
        return self.writes.rules

    def apply(self, ts: int | None, events: Iterable[SchemaChange], *, late: bool = False) -> None:
        """Plans the DDL statements of one commit_ts according to the rules; `late`: it is that of the barrier."""
        events, self._late = [self._escaped(event) for event in events], late
        parsed = [(statement, event) for event in events for statement in self._parsed(event)]
        if ts is None:
            return
        self._rowless = ts in self.interrupted or any(snapshot_mark(event) == LAST for event in events)
        if self._rowless:
            self._without_rows(parsed, ts)
            parsed = [pair for pair in parsed if snapshot_mark(pair[1]) is None]
        try:
            parsed = self.renames.ordered(parsed)
            renames = [self.renames.names_of(s, e) for s, e in parsed if isinstance(s, sql.RenameTable)]
        except SchemaError:  # refused below
            renames = []
        self._hold_together(renames, ts)
        for statement, event in parsed:
            try:
                self._follow_shadows(statement, event, ts)
                if self._left_out(statement, event, ts):
                    self._follow(statement, event, ts)
                elif self._has_order(statement, event, ts):
                    self._statement(statement, event, ts)
            except SchemaError as error:
                self._refuse(event, str(error), error)
        self._note_absent(parsed, ts)

    def _parsed(self, event: SchemaChange) -> list[sql.Statement | Unread]:
        if event.commit_ts is None:
            self._without_place(event)
            return []
        try:
            return self._with_versioned(self._statements(event), event)
        except (SchemaError, UnsupportedError) as error:
            if event.columns is not None and event.table and (kind := unread_kind(event.ddl or "")):
                return [Unread(*own_names(event)[0], str(error), kind)]
            database, table = own_names(event)[0]
            if self._turn(full_name(database, table), event.commit_ts):
                is_left_out = self.writes.left_out.leaves_out_all(database, table)
                with self._without_stop([(database, table)] if table else []) if is_left_out else nullcontext():
                    self._refuse(event, str(error), error)
                self.writes.follow_rows(full_name(database, table))
            return []

    def _statements(self, event: SchemaChange) -> list[sql.Statement]:
        return ddl.statements_of(event, restored=self.rules.restored_ddl, escapes=self.rules.escapes)

    def _with_versioned(self, statements: list[sql.Statement], event: SchemaChange) -> list[sql.Statement | Unread]:
        """The statements; ADD SYSTEM VERSIONING alone, which changes no column, as one about its table."""
        table = None if self.rules.restored_ddl else versioned_by(event.ddl or "", event.database)
        if table is not None and all(isinstance(statement, sql.Passed) for statement in statements):
            return [sql.AlterTable(*table, ())]
        return list(statements)

    def _escaped(self, event: SchemaChange) -> SchemaChange:
        """The event with the names of columns that the sink has."""
        if event.columns is None or not self.rules.escapes:
            return event
        return replace(event, columns=tuple(replace(c, name=escaped(c.name)) for c in event.columns))

    def _left_out(self, statement: sql.Statement | Unread, event: SchemaChange, ts: int) -> bool:
        """Whether a statement concerns only tables that are left out (`captured.py`); a DROP DATABASE takes these out first."""
        left_out = self.writes.left_out
        if isinstance(statement, sql.DropDatabase):
            for name in (full_name(*names) for names in self.names.inside(statement.database)):
                if name in left_out and self._turn(name, ts):
                    self.writes.tables.pop(name, None)
                    left_out.dropped(name)
            return False
        names = [full_name(*self._spelled(*names, event)) for names in concerned(statement)]
        in_sink = {n.lower() for n in self.writes.tables if n not in left_out and n not in names}
        if any(name.lower() in in_sink and name not in self.writes.tables for name in names):
            return False  # its name differs by case alone from that of a table in the sink
        return bool(names) and all(left_out.leaves_out(name) for name in names)

    def _has_order(self, statement: sql.Statement | Unread, event: SchemaChange, ts: int) -> bool:
        """Whether a statement has an order relative to its tables' rows (`unplaced.py`); if not, it stops, or is left out."""
        inside = self.names.inside(statement.database) if isinstance(statement, sql.DropDatabase) else []
        names = [full_name(*names) for names in inside or [self._spelled(*n, event) for n in concerned(statement)]]
        why = unplaced.refusal(statement, [name for name in names if self._turn(name, ts)], event, self.writes)
        if why is None:
            return True
        if self.rules.behavior in ("try_evolve", "lenient", "ignore"):
            self.notes.append(f"not applied ({why}): {event.ddl}")
            return False
        self._stop(event, f"{why}. {unplaced.WAY_OUT}", None)

    def _follow(self, statement: sql.Statement | Unread, event: SchemaChange, ts: int) -> None:
        """Applies a statement to the definitions of tables that are left out."""
        names = [self._spelled(*names, event) for names in concerned(statement)]
        if not isinstance(statement, sql.Unapplied):  # that would change rows
            with self._without_stop(names):
                self._statement(statement, event, ts)
        if isinstance(statement, sql.DropTable) and self._turn(full_name(*names[0]), ts):
            self.writes.left_out.dropped(full_name(*names[0]))

    @contextmanager
    def _without_stop(self, tables: list[Name]) -> Iterator[None]:
        """Keeps what would stop the run, for tables that are left out: whatever the behavior, their definitions follow DDL."""
        rules, notes = self.rules, len(self.notes)
        self.writes.rules = replace(rules, behavior="evolve")
        try:
            yield
        except RefusedBeforeError:  # of a table that is captured: its rows come before the statement
            raise
        except (SchemaError, UnsupportedError) as error:
            for names in tables:
                self.writes.left_out.refuse(full_name(*names), str(error))
        finally:
            self.writes.rules = rules
            del self.notes[notes:]

    def _without_place(self, event: SchemaChange) -> None:
        """Leaves out a schema change without commit_ts, or stops: rows before it cannot be distinguished from rows after it."""
        why = "a schema change without commit_ts has no place in the order of rows"
        if self.rules.behavior in ("try_evolve", "lenient", "ignore"):
            self.notes.append(f"not applied ({why}): {event.ddl}")
        elif not self.rules.excluded(full_name(*own_names(event)[0])):
            fix = "Let the producer send commit_ts, or set schema.change.behavior to `try_evolve` to go on without it"
            self._stop(event, f"{why}. {fix}", None)

    def _hold_together(self, renames: list[tuple[Name, Name]], ts: int) -> None:
        """Holds tables that swap names with a quarantined one, from before the first rename: see Rule 1."""
        writes = self.writes
        groups: list[set[Name]] = []
        for pair in renames:
            joined = [g for g in groups if g & {*pair}]
            groups = [g for g in groups if g not in joined] + [set(pair).union(*joined)]
        for group in groups:
            waits = [
                n for n in group if writes.is_held(full_name(*n)) and within(ts, writes.start(full_name(*n)), None)
            ]
            for names in sorted(group) if waits else ():
                if self._turn(full_name(*names), ts):
                    writes.flush(*names, ts)
                    writes.held[full_name(*names)] = Hold(ts - 1)

    def _statement(self, statement: sql.Statement | Unread, event: SchemaChange, ts: int) -> None:
        if isinstance(statement, sql.CreateTable | sql.AlterTable):
            self._check_log(self._spelled(statement.database, statement.table, event), event, ts)
        match statement:
            case sql.CreateTable():
                self._create(statement, event, ts)
            case sql.DropTable(database=database, table=table):
                self._drop([self._spelled(database, table, event)], event, ts, if_exists=statement.if_exists)
            case sql.DropDatabase(database=database):
                self.shadows.drop_database(database, lambda name: self._comes(name, ts))
                self._drop(self.names.inside(database), event, ts)
            case sql.TruncateTable(database=database, table=table):
                self._truncate(*self._spelled(database, table, event), event, ts)
            case sql.RenameTable():
                self.renames.apply(statement, event, ts)
            case sql.AlterTable(database=database, table=table):
                self._alter(statement, *self._spelled(database, table, event), event, ts)
            case Unread(database=database, table=table, kind="create_table"):
                self._create(sql.CreateTable(database, table), event, ts)
            case Unread(database=database, table=table):
                self._alter(statement, database, table, event, ts)
            case sql.Unapplied():
                concerned = statement.tables or (own_names(event)[0],)
                if any(self._turn(full_name(*self._spelled(*names, event)), ts) for names in concerned):
                    self._refuse(event, f"{statement.kind} changes rows that cannot be identified", None)
            case sql.Passed() if within(ts, self.writes.after, None):
                self._pass(statement, event)

    def _check_log(self, names: Name, event: SchemaChange, ts: int) -> None:
        """Stops, or notes it, if the statement makes a table of which the log has other rows: see Rule 5."""
        name, text = full_name(*names), event.ddl or ""
        if self.rules.restored_ddl or not self.rules.from_records or not self._turn(name, ts):
            return
        if versioned_by(text, event.database) is not None:
            self._stop(event, f"{name}: {VERSIONED}. Leave it out: name it in pipeline.exclude", None)
        if actions := actions_of(text):
            self.notes.append(
                f"{name}: rows that its foreign key changes ({', '.join(actions)}) will be wrong, unless the server is MySQL 9.6 "
                f"or later: others log only the change of the parent's row. At {event.place}: {text}"
            )

    def _without_rows(self, parsed: list[tuple[sql.Statement | Unread, SchemaChange]], ts: int) -> None:
        """Plans the DDL of a snapshot without rows: see Rule 4."""
        for statement, event in parsed:
            if snapshot_mark(event) is None or not isinstance(statement, sql.CreateTable):
                continue
            name = full_name(*self._spelled(statement.database, statement.table, event))
            if self._turn(name, ts):
                self.writes.flush(*names_of(name), ts)  # a table that has rows before it is not left out
            if self._left_out(statement, event, ts):
                self._follow(statement, event, ts)
            elif name not in self.writes.tables:
                self._create(statement, event, ts)
                if self.writes.after is not None and self._turn(name, ts):
                    self.notes.append(
                        f"{name} begins without rows: the snapshot that defines it at {event.place} has none at all"
                    )
            elif self._turn(name, ts):
                self.notes.append(
                    f"{name} keeps its rows: the snapshot that defines it at {event.place} has none at all"
                )
                self._extend(name, self._stated(event, names_of(name)) or statement.definition.columns)

    def _note_absent(self, parsed: list[tuple[sql.Statement | Unread, SchemaChange]], ts: int) -> None:
        """Notes the tables that a snapshot does not have: see Rule 4. By key, only a part of it may have been read."""
        created = [
            (self._spelled(statement.database, statement.table, event), event)
            for statement, event in parsed
            if isinstance(statement, sql.CreateTable) and snapshot_mark(event) is not None
        ]
        if not created or self.writes.table_frontier is not None:
            return
        names = {full_name(*name) for name, _ in created}
        for name in sorted(self.writes.tables.keys() - names):
            if name not in self.writes.left_out and self._turn(name, ts):
                self.notes.append(
                    f"{name} keeps its rows: the snapshot at {created[-1][1].place} does not have it. If the server does not "
                    "have it either, name it in pipeline.exclude, and remove it from the lake"
                )

    def _turn(self, name: str, ts: int) -> bool:
        """Whether a schema change of a table is applied now: not if the table is held, excluded, or had it before."""
        return not self.rules.excluded(name) and self._comes(name, ts)

    def _comes(self, name: str, ts: int) -> bool:
        """Whether a schema change of a name, which may be excluded, is planned now: not if it is held, or had it before."""
        if self.writes.is_held(name):
            return False
        return within(ts, self.writes.start(name), None) or (self._late and ts == self.writes.after)

    def _spelled(self, database: str, table: str, event: SchemaChange) -> Name:
        return self.names.existing(database, table, event)

    def _follow_shadows(self, statement: sql.Statement | Unread, event: SchemaChange, ts: int) -> None:
        """Follows the DDL of shadows."""
        if not isinstance(statement, sql.CreateTable | sql.AlterTable | sql.DropTable):
            return
        model = None
        if isinstance(statement, sql.CreateTable):
            name = self._created_name(statement, event)
            if statement.like is not None:
                like = full_name(*self.names.existing(*statement.like, event, as_model=True))
                model_state = self.writes.tables.get(like) or self.shadows.shadows.get(like)
                model = None if model_state is None else model_state.table
        else:
            name = self._spelled(statement.database, statement.table, event)
        if not self._comes(full_name(*name), ts):
            return
        self.shadows.follow(statement, name, model, excluded=self.rules.excluded(full_name(*name)))

    def _created_name(self, statement: sql.CreateTable, event: SchemaChange) -> Name:
        """The name of the table that a CREATE TABLE makes or, with IF NOT EXISTS, finds."""
        if statement.if_not_exists:
            existing = self._spelled(statement.database, statement.table, event)
            if full_name(*existing) in self.writes.tables:
                return existing
        return self.names.new(statement.database, statement.table, event)

    def _create(self, statement: sql.CreateTable, event: SchemaChange, ts: int) -> None:
        writes, behavior = self.writes, self.rules.behavior
        database, table = self._created_name(statement, event)
        name = full_name(database, table)
        exists = name in writes.tables
        if not self._turn(name, ts) or (exists and (statement.if_not_exists or self._forbidden(event))):
            return
        definition, stated = statement.definition, self._stated(event, (database, table))
        declared, sent = True, dict[str, ColumnType | None]()
        if statement.like is not None:
            model = self.names.existing(*statement.like, event, as_model=True)
            like = None
            if self._turn(full_name(*model), ts):  # otherwise its columns may differ from those at this point
                writes.flush(*model, ts)
                like = writes.tables.get(full_name(*model))
            if like is not None:
                definition, declared, sent = like.table, like.declared, like.sent
        definition = replace(definition, database=database, name=table)
        if exists and behavior == "lenient" and not is_of_copy(event):
            writes.flush(database, table, ts)
            self.notes.append(f"not applied, `lenient` keeps the rows that are there: {event.ddl}")
            self._extend(name, stated or definition.columns)
            return
        if not writes.is_unplaced(name):
            writes.flushed[name] = ts  # earlier rows belong to a dropped table of this name
        self.shadows.take(name)
        if stated is not None or (definition.columns and not sent):
            self._define(definition, stated, event, ts)
        elif definition.columns:
            writes.create(definition, declared=declared, sent=sent, commit_ts=ts)
        else:  # as for an unknown table, its columns are inferred from its rows
            writes.tables.pop(name, None)
            self.shadows.create(database, table)

    def _drop(self, tables: list[Name], event: SchemaChange, ts: int, *, if_exists: bool = True) -> None:
        now = [names for names in tables if self._turn(full_name(*names), ts)]
        if now and not if_exists and not set(now) & self.writes.names():
            self._without_effect(now[0], event)
            return
        if not now or self._forbidden(event):
            return
        keeps_rows = self._keeps(event)
        for names in now:
            if keeps_rows:
                self.writes.flush(*names, ts)
            else:
                self.writes.pass_over(full_name(*names), ts)  # its rows need not be merged any more
                self.writes.tables.pop(full_name(*names), None)

    def _truncate(self, database: str, table: str, event: SchemaChange, ts: int) -> None:
        name = full_name(database, table)
        if not self._turn(name, ts) or self._forbidden(event):
            return
        if (database, table) not in self.writes.names():
            self._without_effect((database, table), event)
            return
        if self._keeps(event):
            self.writes.flush(database, table, ts)
            return
        if name not in self.writes.tables:  # its rows define it
            self.writes.flush(database, table, ts)
        self.writes.flushed[name] = ts
        if name in self.writes.tables:
            self.writes.empty(name, ts)

    def _pass(self, statement: sql.Passed, event: SchemaChange) -> None:
        """Notes a statement that is skipped: with a warning, if it mentions tables and only its first words were read."""
        names = {(t.table.database, t.table.name) for t in self.writes.tables.values()}
        tables = [] if statement.understood else mentioned(event.ddl or "", names, event.database)
        if tables:
            listed = ", ".join(full_name(*name) for name in tables)
            self.notes.append(f"not applied, although it mentions {listed}: {event.ddl} at {event.place}")
        else:
            self.notes.append(f"{SKIPPED}: {event.ddl}")

    def _without_effect(self, name: Name, event: SchemaChange) -> None:
        """Notes a statement about a table that is not known: it has nothing to change."""
        alike = sorted(full_name(*n) for n in self.writes.names() if n != name and same(n, name))
        but = f", but {', '.join(alike)} differs by case alone" if alike else ""
        self.notes.append(f"no effect, {full_name(*name)} is not known{but}: {event.ddl} at {event.place}")

    def _alter(
        self, statement: sql.AlterTable | Unread, database: str, table: str, event: SchemaChange, ts: int
    ) -> None:
        name = full_name(database, table)
        if not self._turn(name, ts):
            return
        current, stated = self.writes.tables.get(name), self._stated(event, (database, table))
        defines = stated is not None and (current is None or not current.declared)
        if isinstance(statement, sql.AlterTable) and statement.is_internal and not defines:
            self._note_internal(statement, name, event)
            return
        if self._forbidden(event):
            self.writes.flush(database, table, ts)
            if name in self.writes.tables:  # from here on, what is modified follows its rows
                self.writes.tables[name] = following(self.writes.tables[name], statement)
            return
        self.writes.flush(database, table, ts)
        current = self.writes.tables.get(name)
        if current is None:
            if stated is not None:
                self._define(Table(database, table, ()), stated, event, ts)
            else:  # its columns will be inferred from its rows
                self._without_effect((database, table), event)
            return
        restored = self.rules.restored_ddl
        execution = ddl.execution_of(event, restored=restored, zone=self.rules.session_time_zone)
        try:
            outcome = changed(
                current, statement, stated, self.writes.sink.types,
                lenient=self.rules.behavior == "lenient", irregular=self.rules.irregular, carries_virtual=not restored,
                execution=execution, session=session_of(event, execution, restored_ddl=restored),
                columns=self.rules.columns,
            )  # fmt: skip
        except SchemaError as error:  # an irregular default, and the policy is to stop
            self._stop(event, str(error), error)
        if outcome.lost_key is not None:
            why = f"column {outcome.lost_key} is in the row key, and the rows that are there have no value in it"
            self._stop_at_rows(event, f"{why}, so that they cannot be found again", NEW_SNAPSHOT)
        for refusal in outcome.refusals:
            self._refuse(event, refusal, None)
        self.notes += [f"{name}: {note}" for note in outcome.notes]
        self.writes.change(name, outcome.state, outcome.rewriting)
        if outcome.partial:
            self.writes.follow_rows(name)

    def _define(self, definition: Table, stated: Columns | None, event: SchemaChange, ts: int) -> None:
        """Plans a new table, by its statement and by the producer's definition."""
        for refusal in misread(definition.columns, stated or ()):
            self._refuse(event, refusal, None)
        if snapshot_mark(event) is not None and not self._rowless:
            for refusal in lost_in_snapshots(stated or definition.columns):
                self._refuse(event, f"{refusal}. {NEW_SNAPSHOT}", None)
        table, notes = created(definition, stated, carries_virtual=not self.rules.restored_ddl)
        self.notes += [f"{table.full_name}: {note} ({event.place})" for note in notes]
        self.writes.create(table, declared=True, commit_ts=ts)

    def _extend(self, name: str, columns: Columns) -> None:
        """Plans what a table needs to have these columns and all of its own."""
        outcome = extended(
            self.writes.tables[name], columns, self.writes.sink.types, carries_virtual=not self.rules.restored_ddl
        )
        self.notes += [f"{name}: {note}" for note in outcome.notes]
        self.writes.change(name, outcome.state, outcome.rewriting)

    def _stated(self, event: SchemaChange, names: Name) -> Columns | None:
        """The columns by the producer after a schema change, if they are those of this table and of no later statement."""
        if event.columns is None:
            return None
        try:
            statements = self._statements(event)
        except (SchemaError, UnsupportedError):
            statements = []
        renames = [s for s in statements if isinstance(s, sql.RenameTable) and same((s.database, s.table), names)]
        now = [names, *((s.to_database, s.to_table) for s in renames)]
        if not any(same(own, name) for own in own_names(event) for name in now):
            return None
        defining = [s for s in statements if isinstance(s, (sql.AlterTable, sql.CreateTable))]
        return event.columns if len(defining) <= 1 else None

    def _note_internal(self, statement: sql.AlterTable, name: str, event: SchemaChange) -> None:
        """Keeps what later statements name or inherit; the table in the sink and its rows stay."""
        self.notes.append(f"{SKIPPED}: {event.ddl}")
        current = self.writes.tables.get(name)
        if current is None:
            return
        try:
            change = alter(column_rules.shown(current.table), statement)
            change = column_rules.altered(current.table, change, self.rules.columns)
            self.writes.tables[name] = replace(current, table=change.table)
        except SchemaError as error:
            self._refuse(event, str(error), error)

    def _forbidden(self, event: SchemaChange) -> bool:
        """Whether the rules forbid a change of existing tables; the changes of a copy are always allowed."""
        if is_of_copy(event):
            return False
        if self.rules.behavior == "exception":
            raise UnsupportedError(
                f"schema.change.behavior is `exception`, and there is a schema change at {event.place}: {event.ddl}"
            )
        if self.rules.behavior == "ignore":
            self.notes.append(f"ignored: {event.ddl}")
        return self.rules.behavior == "ignore"

    def _keeps(self, event: SchemaChange) -> bool:
        if is_of_copy(event):
            return False
        if self.rules.behavior == "lenient":
            self.notes.append(f"not applied, `lenient` keeps what is there: {event.ddl}")
        return self.rules.behavior == "lenient"

    def _refuse(self, event: SchemaChange, why: str, error: Exception | None) -> None:
        if self._unknown(event) != () and self.rules.behavior in ("try_evolve", "lenient"):
            self.notes.append(f"not applied ({why}): {event.ddl}")
        elif not self._forbidden(event):
            self._stop_at_rows(event, why, f"Set {_TRY_EVOLVE}", error)

    def _stop_at_rows(self, event: SchemaChange, why: str, fix: str, error: Exception | None = None) -> None:
        """Stops, unless a copy of the tables shows their rows."""
        unknown = self._unknown(event)
        if unknown == ():
            self.notes.append(f"{event.ddl}: {why}; the table is copied again")
        elif unknown is None:
            self._stop(event, f"{why}. {fix}", error)
        else:
            snapshot = f"`changefeed snapshot … {' '.join(full_name(*names) for names in unknown)}`"
            fix = f"Copy the table again ({snapshot}), or {fix[0].lower()}{fix[1:]}"
            raise UnknownRowsError(f"{event.ddl!r} at {event.place}: {why}", fix, unknown) from error

    def _unknown(self, event: SchemaChange) -> tuple[Name, ...] | None:
        """The tables of a schema change whose rows a copy would show, and none does yet; None if they cannot be copied again."""
        if not self.rules.copies_again:
            return None
        names = {names_of(name) for name in self.writes.tables} | self._new_names(event)
        tables = mentioned(event.ddl or "", names, event.database)
        return tuple(names for names in tables if not self._is_copied_again(names, event)) if tables else None

    def _new_names(self, event: SchemaChange) -> set[Name]:
        """The new names of tables that a schema change renames into the sink."""
        try:
            renames = [s for s in self._statements(event) if isinstance(s, sql.RenameTable)]
        except (SchemaError, UnsupportedError):
            return set()
        new = {(s.to_database, s.to_table) for s in renames}
        return {names for names in new if not self.rules.excluded(full_name(*names))}

    def _is_copied_again(self, names: Name, event: SchemaChange) -> bool:
        """Whether a copy behind a schema change replaces a table, whatever the change does to it."""
        copy = self.copies.get(names)
        return names in copied_again(event) or (
            copy is not None and event.commit_ts is not None and event.commit_ts < copy
        )

    def _stop(self, event: SchemaChange, why: str, error: Exception | None) -> NoReturn:
        raise UnsupportedError(f"{event.ddl!r} at {event.place}: {why}") from error
