"""Names of tables in statements: the table that a statement means, and the name that a new table gets.

Rule 1. The server's `lower_case_table_names` decides whether `Slots` and `slots` are two tables (0), one that is stored in lower
case (1), or one in the spelling of its CREATE (2, and TiDB). The source mysql asks for it. No producer sends it: `server_rule`
derives it from names that a record spells in two ways.
Rule 2. A statement means the known table of exactly this name. Without one, it means the table that its event names in another
spelling. Otherwise it means the only known table whose name differs by case alone, unless the server distinguishes them.
Rule 3. Rows have the stored name. So a new table gets the spelling that its event has, or lower case.
Rule 4. The event of `USE a; RENAME TABLE t TO b.u` names the new database. So a table that is named without a database may be in
any: it is the only known one of its name, or the only one with the columns that the event has. Behind LIKE, tables with equal
columns are as good as one. Not so where events have the session's database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name, in_topic
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as sql
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.schema_events import within
from changefeed.pipeline.planning.writes import Writes
from changefeed.protocols.origin import names_rule

if TYPE_CHECKING:
    from changefeed.pipeline.planning.shadows import Shadows

Name = tuple[str, str]  # database and table
EXACT, LOWER, IGNORED = 0, 1, 2  # values of lower_case_table_names
_SESSION = "\0"  # in place of the session's database, which is unknown


@dataclass(slots=True)
class Names:
    """Finds the tables that statements mean.

    Attributes:
        shadows: tables outside the sink whose DDL is followed.
        rule: the server's `lower_case_table_names`; None if nothing shows it yet.
        notes: notes of the step.
    """

    writes: Writes
    shadows: Shadows
    rule: int | None
    notes: list[str] = field(default_factory=list)

    def known_names(self) -> set[Name]:
        """The names of tables in the sink, with rows in the step, and of shadows."""
        return self.writes.names() | self.shadows.names()

    def existing(self, database: str, table: str, event: SchemaChange, *, as_model: bool = False) -> Name:
        """The table that a statement means: see Rules 2 and 4.

        Args:
            database, table: the name in the statement.
            event: the statement's event.
            as_model: only its columns and keys matter: it is the table behind LIKE.

        Raises:
            SchemaError: the statement does not show which of several tables it means.
        """
        rules = self.writes.rules
        may_be_other = database == event.database and not rules.session_database
        if may_be_other and table in unqualified(event, restored=rules.restored_ddl):
            return self._in_any_database(table, event, as_model=as_model)
        stated, known_names = (database, table), self.known_names()
        if self.rule == LOWER:  # a held table keeps its spelling until it is released
            return stated if full_name(*stated) in self.writes.tables else lowered(stated)
        if self.rule == IGNORED and full_name(*stated) not in self.writes.tables:
            in_sink = [name for name in known_names if same(name, stated) and full_name(*name) in self.writes.tables]
            if len(in_sink) == 1:  # what else has the stated name, had it before
                return in_sink[0]
        if self.rule == EXACT or (stated in known_names and not self.comes_later(stated, event)):
            return stated
        event_names = [] if rules.session_database else own_names(event)  # which are the statement's
        event_name = next((name for name in event_names if same(name, stated)), None)
        if event_name == stated and self.rule is None and not _is_split(event):
            return self._of_topic(event, known_names) or stated
        alike = [name for name in known_names if same(name, stated)]
        # a name that only rows have may be that of a later table; a name of the event, that of another part of the statement
        in_sink = [name for name in alike if full_name(*name) in self.writes.tables]
        if event_name is not None and event_name != stated and (event_name in in_sink or not in_sink):
            return event_name
        alike = in_sink or alike
        if len(alike) != 1:
            return stated
        if self.rule is None and alike[0] != stated:
            self._note(
                f"{full_name(*stated)} is taken for {full_name(*alike[0])}, the only table whose name differs by case alone, at "
                f"{event.place}: {event.ddl}"
            )
        return alike[0]

    def _of_topic(self, event: SchemaChange, known_names: set[Name]) -> Name | None:
        """The table of an event without a statement, which is in the topic of its rows; None if that does not show it."""
        if event.ddl:
            return None
        alike = [name for event_name in own_names(event) for name in known_names if same(name, event_name)]
        return next((name for name in alike if _is_in_topic(name, [event.place.topic])), None)

    def new(self, database: str, table: str, event: SchemaChange, old: Name | None = None) -> Name:
        """The name that a new or renamed table gets: see Rule 3; `old` is its name before."""
        stated = database, table
        if self.rule == LOWER:
            return lowered(stated)
        event_names = [name for name in own_names(event) if same(name, stated)]
        if self.rule == EXACT or stated in event_names:
            return stated
        if event_names:
            return event_names[0]
        alike = [name for name in self.writes.names() if same(name, stated) and name != old]
        return alike[0] if self.rule == IGNORED and len(alike) == 1 and stated not in alike else stated

    def inside(self, database: str) -> list[Name]:
        """The known tables of a database."""
        names = sorted(self.writes.names())
        exact = [name for name in names if name[0] == database]
        if self.rule == EXACT or (self.rule is None and exact):
            return exact
        return [name for name in names if name[0].lower() == database.lower()]

    def fold(self) -> None:
        """Gives tables that were created before the server's rule was known the names that their rows have.

        Only lower case is known beforehand: an empty table beside one in lower case is dropped, because it is the same table.
        """
        tables = self.writes.tables
        for name, current in list(tables.items()) if self.rule == LOWER else ():
            stored = lowered((current.table.database, current.table.name))
            if name == full_name(*stored) or self.writes.is_held(name):
                continue
            if full_name(*stored) not in tables:
                self.writes.move(name, *stored)
            elif current.empty:
                del tables[name]
        for names in sorted(self.shadows.names()) if self.rule == LOWER else ():
            if names != lowered(names) and lowered(names) not in self.shadows.names():
                self.shadows.rename(names, lowered(names))

    def comes_later(self, name: Name, event: SchemaChange) -> bool:
        """Whether a name is known by rows alone that come after the event: they may be those of a later table."""
        if full_name(*name) in self.writes.tables or name in self.shadows.names():
            return False
        return self.writes.has_rows_only_after(full_name(*name), event.commit_ts)

    def _in_any_database(self, table: str, event: SchemaChange, *, as_model: bool) -> Name:
        tables = self.writes.tables
        candidates = sorted(n for n in self.writes.names() if not self.comes_later(n, event))
        fitting = [n for n in candidates if n[1] == table or (self.rule != EXACT and same(("", n[1]), ("", table)))]
        named = {n: tables[full_name(*n)].table for n in fitting if full_name(*n) in tables}
        if len(fitting) > 1 and event.columns is not None:
            columns = [c.name for c in event.columns]
            fitting = [n for n, own in named.items() if [c.name for c in own.columns] == columns] or fitting
        if as_model and set(fitting) <= set(named) and len({(named[n].columns, named[n].keys) for n in fitting}) == 1:
            fitting = fitting[:1]
        if len(fitting) > 1:
            listed = ", ".join(full_name(*n) for n in fitting)
            raise SchemaError(f"table {table} is named without its database, and may be any of {listed}")
        return fitting[0] if fitting else (event.database or "", table)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def same(name: Name, other: Name) -> bool:
    """Whether two names differ by case at most."""
    return lowered(name) == lowered(other)


def lowered(name: Name) -> Name:
    """The name in lower case."""
    return name[0].lower(), name[1].lower()


def own_names(event: SchemaChange) -> list[Name]:
    """The names of tables in the event's own members; Debezium writes several with commas between them."""
    table = event.table or ""
    return [(event.database or "", name) for name in dict.fromkeys((table, *table.split(",")))]


def _is_split(event: SchemaChange) -> bool:
    """Whether the event is one part of a RENAME that Debezium has split: its own names are the new names of all parts."""
    is_part = "," in (event.table or "")
    return is_part and any(isinstance(s, sql.RenameTable) for s in _statements(event, restored=False))


def unqualified(event: SchemaChange, *, restored: bool) -> frozenset[str]:
    """The tables that are named without a database where the event's database is that of a new name: see Rule 4."""
    text = event.ddl or ""
    if not event.database or ("TO" not in text.upper() and "LIKE" not in text.upper()):
        return frozenset()
    tables = set()
    for statement in _statements(replace(event, database=_SESSION), restored):
        match statement:
            case sql.RenameTable(database=database, table=table, to_database=new):
                tables |= {table} if (database, new) == (_SESSION, event.database) else set()
            case sql.CreateTable(database=new, like=(database, table)):
                tables |= {table} if (database, new) == (_SESSION, event.database) else set()
    return frozenset(tables)


def _statements(event: SchemaChange, restored: bool) -> list[sql.Statement]:
    try:
        return ddl.statements_of(event, restored=restored)
    except (SchemaError, UnsupportedError):
        return []


# The server's rule.


def server_rule(
    rule: int | None,
    chunks: Collection[ChunkInfo],
    events: Iterable[SchemaChange],
    tables: Collection[Name],
    *,
    restored: bool,
) -> int | None:
    """The server's `lower_case_table_names`, as far as names show it: see Rule 1.

    Args:
        rule: what was known before.
        chunks: all pending chunks.
        events: the schema changes of the step.
        tables: the tables that the pipeline has.
        restored: TiDB wrote the DDL.
    """
    if restored:
        return IGNORED
    events = list(events)
    if events and (stated := names_rule(events[-1])) is not None:
        return stated
    if rule == LOWER:
        return rule
    rows: defaultdict[Name, list[ChunkInfo]] = defaultdict(list)
    for chunk in chunks:
        if chunk.kind == "rows":
            rows[str(chunk.database), str(chunk.table)].append(chunk)
    topics = {name: {chunk.topic for chunk in of_name} for name, of_name in rows.items()}
    if any(lowered(row) == row and _is_spelled_otherwise(row, topics[row]) for row in topics):
        return LOWER
    shown = [shows for event in events if (shows := _shown_by(event)) is not None]
    if shown:  # this proves it
        return min(shown)
    pending = [chunk.event for chunk in chunks if chunk.event is not None]
    if rule is None and (_has_two_spellings(tables) or _has_two_at_once(rows, [*events, *pending])):
        return EXACT
    declared = {*tables, *(name for event in events for name in _new_names(event))}
    if rule is None and all(lowered(row) == row for row in topics):
        others = {lowered(name) for name in declared if name != lowered(name) and name not in topics}
        if any(row in others and row not in declared and not _is_in_topic(row, topics[row]) for row in topics):
            return LOWER
    return rule


def _is_spelled_otherwise(row: Name, topics: Iterable[str]) -> bool:
    """Whether a topic is named after the table, in another spelling: Debezium takes it from DDL, rows from the server."""
    tail = _tail(row)
    return any(topic.lower().endswith(tail) and not topic.endswith(tail) for topic in topics)


def _is_in_topic(row: Name, topics: Iterable[str]) -> bool:
    return any(topic.endswith(_tail(row)) for topic in topics)


def _tail(row: Name) -> str:
    """The end of the name that Debezium gives to a table's topic."""
    return "".join(f".{in_topic(part)}" for part in row)


def _has_two_spellings(names: Collection[Name]) -> bool:
    return len({lowered(name) for name in names}) < len(set(names))


def _has_two_at_once(rows: Mapping[Name, list[ChunkInfo]], events: Iterable[SchemaChange]) -> bool:
    """Whether there are rows of two spellings, and none is of a table that was made between them, perhaps again."""
    spellings: defaultdict[Name, list[Name]] = defaultdict(list)
    for name in rows:
        spellings[lowered(name)].append(name)
    spans = {}
    for folded, names in spellings.items():
        if len(names) > 1:
            chunks = [chunk for name in names for chunk in rows[name]]
            spans[folded] = min(c.min_ts or 0 for c in chunks), max(c.max_ts or 0 for c in chunks)
    if not spans:
        return False
    made_between = {
        lowered(name)
        for event in events
        for name in _new_names(event)
        if lowered(name) in spans and within(event.commit_ts or 0, *spans[lowered(name)])
    }
    return bool(spans.keys() - made_between)


def _new_names(event: SchemaChange) -> list[Name]:
    names = []
    for statement in _statements(event, restored=False):
        match statement:
            case sql.CreateTable(database=database, table=table):
                names.append((database, table))
            case sql.RenameTable(to_database=database, to_table=table):
                names.append((database, table))
    return names


def _shown_by(event: SchemaChange) -> int | None:
    """The rule that an event shows by its own names, if their spelling differs from that of its statement."""
    new = _new_names(event)
    stated = new or [
        (s.database, s.table)
        for s in _statements(event, restored=False)
        if isinstance(s, sql.AlterTable | sql.TruncateTable)
    ]
    own_spellings = own_names(event)
    pairs = [
        (name, own) for name in stated if name not in own_spellings for own in own_spellings
        if own not in stated and same(name, own)
    ]  # fmt: skip
    if not pairs:
        return None
    return LOWER if any(name in new and own == lowered(own) for name, own in pairs) else IGNORED
