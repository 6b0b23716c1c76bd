"""Plans renames, and the swaps of online schema changes.

    old    new    rows of `new` after RENAME TABLE old TO new
    sink   sink   those of `old`
    sink   –      none: the table leaves the sink, and a shadow remembers it
    –      –      none
    –      sink   a swap, if `old` is a copy of the table that had the name `new`: the rows of that table, with the definition of
                  `old`; otherwise unknown

`sink` is a table that the pipeline applies; `–` one that is excluded, or of which the producer sends nothing, or its DDL alone.

Rule 1. The parts of a swap may come in one statement or in two, in one event or in two, or the second part alone.
Rule 2. A table is a copy if a tool for online schema changes names it so (`shadows.py`), or if the definition excludes both it
and the new name of the table whose place it takes. A table that such a tool has replaced is not a copy: it lacks what came after.
Rule 3. A table with a copy's name whose rows are read is an ordinary table: its own rows are the right ones. So is one without
rows, if the source has all rows of its tables.
Rule 4. Debezium sends the parts of one statement as events with one position, with their databases as keys. If the topic of
schema changes has several partitions, only the parts in one partition are in order. TiCDC sends each part to the topic of the
old name. Among those in different places, a part comes first whose old name is known and whose new name is free, as the server
requires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from changefeed.errors import UnknownRowsError
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name
from changefeed.mysql.ddl import statements as sql
from changefeed.pipeline.planning.column_rules import shown, unmasked
from changefeed.pipeline.planning.definitions import Unread, renamed
from changefeed.pipeline.planning.names import Name, Names
from changefeed.pipeline.planning.shadows import (
    Shadows,
    difference,
    is_copy,
    is_replaced,
    redefined,
    unknown_values,
    with_nulls,
)
from changefeed.pipeline.planning.writes import Writes
from changefeed.pipeline.state import TableState

Part: TypeAlias = tuple[sql.Statement | Unread, SchemaChange]  # a statement, and the event that has it


@dataclass(frozen=True, slots=True)
class Answers:
    """The rules' answers about a schema change.

    Attributes:
        turn: whether one of a table is applied at a commit_ts.
        comes: the same, whether the table is excluded or not.
        forbidden: whether the rules forbid changes of existing tables; notes or raises it.
        refuse: stops or notes, for a reason.
        alter: plans an ALTER TABLE of a table of the sink.
        is_copied_again: whether a copy behind the schema change replaces a table.
    """

    turn: Callable[[str, int], bool]
    comes: Callable[[str, int], bool]
    forbidden: Callable[[SchemaChange], bool]
    refuse: Callable[[SchemaChange, str, Exception | None], None]
    alter: Callable[[sql.AlterTable, str, str, SchemaChange, int], None]
    is_copied_again: Callable[[Name, SchemaChange], bool]


@dataclass(slots=True)
class Renames:
    """Plans renames, one after another."""

    writes: Writes
    names: Names
    shadows: Shadows
    notes: list[str]
    answers: Answers
    departures: dict[str, str] = field(default_factory=dict)  # table -> the note that it has left the sink in this step

    def names_of(self, statement: sql.RenameTable, event: SchemaChange) -> tuple[Name, Name]:
        """The old and the new name."""
        old = self.names.existing(statement.database, statement.table, event)
        return old, self.names.new(statement.to_database, statement.to_table, event, old)

    def ordered(self, parts: list[Part]) -> list[Part]:
        """The statements of one position in the order in which the server executes them: see Rule 4."""
        logs: dict[tuple[str, int], list[Part]] = {}
        for part in parts:
            logs.setdefault((part[1].place.topic, part[1].place.partition), []).append(part)
        if len(logs) < 2:
            return parts
        first, order = parts[0][1], list[Part]()
        known_names = {name for name in self._current_names() if not self.names.comes_later(name, first)}
        while waiting := [log for log in logs.values() if log]:
            log = min(waiting, key=lambda log: self._is_impossible(log[0], known_names))
            order.append(part := log.pop(0))
            if isinstance(part[0], sql.RenameTable):
                old, new = self.names_of(part[0], part[1])
                known_names = known_names - {old} | {new}
        return order

    def _current_names(self) -> set[Name]:
        """The names that tables have now; a renamed table that stays in the sink also has a shadow under each earlier name."""
        excluded = self.writes.rules.excluded
        outside = [
            s.table for s in self.shadows.shadows.values() if self.shadows.is_outside(s) or excluded(s.table.full_name)
        ]
        return self.writes.names() | {(table.database, table.name) for table in outside}

    def _is_impossible(self, part: Part, known_names: set[Name]) -> tuple[bool, bool]:
        """Whether the new name of a rename is taken, and whether its old one is not known."""
        if not isinstance(part[0], sql.RenameTable):
            return False, False
        old, new = self.names_of(part[0], part[1])
        return new in known_names, old not in known_names

    def apply(self, statement: sql.RenameTable, event: SchemaChange, ts: int) -> None:
        """Plans a rename."""
        old, new = self.names_of(statement, event)
        if old == new:
            return
        excluded = self.writes.rules.excluded
        if excluded(full_name(*old)):
            if excluded(full_name(*new)):
                if self.answers.comes(full_name(*old), ts):
                    self.shadows.rename(old, new)
            elif self.answers.turn(full_name(*new), ts) and not self.answers.forbidden(event):
                self._unread(old, new, event, ts)
        elif self.answers.turn(full_name(*old), ts) and not self.answers.forbidden(event):
            self._of_sink(old, new, event, ts)

    def _of_sink(self, old: Name, new: Name, event: SchemaChange, ts: int) -> None:
        writes, name, target = self.writes, full_name(*old), full_name(*new)
        is_copied_again = self.answers.is_copied_again
        if is_copied_again(old, event) and not is_copied_again(new, event) and not writes.rules.excluded(target):
            reason = f"{event.ddl!r} at {event.place}: the rows of {target} are those of {name}, which is copied again"
            raise UnknownRowsError(reason, f"Copy this table, too: `changefeed snapshot … {target}`", (new,))
        writes.flush(*old, ts)
        current, excluded = writes.tables.get(name), writes.rules.excluded(target)
        if current is None and self.shadows.is_new(name):
            self.shadows.rename(old, new)
            writes.flushed[target] = ts
            writes.tables.pop(target, None)
            return
        if current is None:
            if excluded:
                self.notes.append(
                    f"{name} is not known, and becomes {target}, which is excluded, at {event.place}: {event.ddl}"
                )
            else:
                self._unread(old, new, event, ts)
            return
        unread = (current.empty and not writes.rules.has_all_rows) or name in writes.left_out
        if unread and not excluded and self._replaces_rows(old, new, event, ts):
            return
        if writes.rules.behavior == "lenient" and target in writes.tables:
            self.notes.append(f"not applied, `lenient` keeps the table that has this name: {event.ddl}")
            return
        if target in writes.tables and target not in writes.left_out and not excluded:
            self.notes.append(
                f"{target} is {name} from here on, at {event.place}: {event.ddl}. What became of the table that had this name "
                "was not read: earlier versions have its rows"
            )
        writes.flushed[target] = ts
        self.shadows.take(target)
        self.shadows.leave(current, new)
        if excluded:
            del writes.tables[name]
            note = f"{name} is left out from here on: it becomes {target}, which is excluded, at {event.place}: {event.ddl}"
            self.departures[name] = note
            self.notes.append(note)
        else:
            writes.move(name, *new)
            self._rule(current.table, target, event)

    def _rule(self, before: Table, name: str, event: SchemaChange) -> None:
        """Plans that columns are excluded or masked under a table's new name."""
        writes = self.writes
        if (current := writes.tables.get(name)) is None:
            return
        if names := unmasked(before, current.table, writes.rules.columns):
            self.notes.append(
                f"{name}: rows that are there keep their masks in {', '.join(names)}, and new ones have none"
            )
        outcome = renamed(before, current, writes.sink.types, writes.rules.irregular, writes.rules.columns)
        if outcome is not None:
            for refusal in outcome.refusals:
                self.answers.refuse(event, refusal, None)
            writes.change(name, outcome.state, outcome.rewriting)

    def _replaces_rows(self, old: Name, new: Name, event: SchemaChange, ts: int) -> bool:
        """Whether a table of which no row was read takes the place of a table with rows, as its copy: then that is planned."""
        self.writes.flush(*new, ts)
        former = self._former(new)
        if former is None or former[1].empty:
            return False
        if self._is_copy(old, new, former[0]):
            self._unread(old, new, event, ts)
            self.writes.tables.pop(full_name(*old), None)
            self.writes.left_out.dropped(full_name(*old))
            return True
        if full_name(*old) in self.writes.left_out:
            self.writes.admit(full_name(*old))
        self.notes.append(
            f"{full_name(*new)} has no rows from here on: it was {full_name(*old)}, of which no row was read, at {event.place}: "
            f"{event.ddl}. If the producer does not send the rows of {full_name(*old)}, start from a new snapshot"
        )
        return False

    def _unread(self, old: Name, new: Name, event: SchemaChange, ts: int) -> None:
        """Plans the name `new` for a table whose rows were not read."""
        writes, name, target = self.writes, full_name(*old), full_name(*new)
        writes.flush(*new, ts)
        former = self._former(new)
        if former is None or not self._is_copy(old, new, former[0]):
            self.answers.refuse(event, f"{name} becomes {target}, and its rows were not read", None)
            if former is None:
                return
        self.shadows.take(target)
        writes.tables[target] = former[1]
        departure = self.departures.pop(target, None)
        if departure in self.notes:
            self.notes.remove(departure)
        self.notes.append(
            f"{target} keeps its rows: {name}, of which no row was read, takes its place as its copy at {event.place}"
        )
        self._redefine(name, new, event, ts)
        self.shadows.shadows.pop(name, None)

    def _former(self, new: Name) -> tuple[str, TableState] | None:
        """The table that has the name, or had it before: its name now, and its rows; None if there is none."""
        current = self.writes.tables.get(full_name(*new))
        return self.shadows.former(full_name(*new)) if current is None else (full_name(*new), current)

    def _is_copy(self, old: Name, new: Name, name_now: str) -> bool:
        """Whether `old` is a copy of the table that had the name `new` and is `name_now` now: see Rule 2."""
        if is_replaced(old[1], new[1]):
            return False
        excluded = self.writes.rules.excluded
        return is_copy(old[1], new[1]) or (
            name_now not in (full_name(*new), full_name(*old)) and excluded(name_now) and excluded(full_name(*old))
        )

    def _redefine(self, name: str, new: Name, event: SchemaChange, ts: int) -> None:
        """Plans the definition that the copy has, for the rows of the original."""
        current, shadow = shown(self.writes.tables[full_name(*new)].table), self.shadows.shadows.get(name)
        if shadow is not None:
            table, sources = replace(shadow.table, database=new[0], name=new[1]), shadow.sources
        elif event.columns is not None:
            table, sources = redefined(current, event.columns), None
        else:
            self.notes.append(f"{full_name(*new)} keeps its columns: the definition of {name} was not read")
            return
        why = unknown_values(current, table) if sources is None else None
        if why is not None:
            self.answers.refuse(event, why, None)
            table = with_nulls(current, table)
        self.answers.alter(
            difference(current, table, sources or {c.name: c.name for c in table.columns}), *new, event, ts
        )
