"""Tables that are known by their DDL alone: a connector sends the DDL of a whole server, and rows of what it captures.

Rule 1. Only where the source may send such DDL (`Capabilities.uncaptured_ddl`). Everywhere else DDL is proof enough.
Rule 2. A table is captured if it has rows, has or had a place in the sink, or if a topic has its name:
`<prefix>.<database>.<table>` with any delimiter, or without the prefix. The prefix is the topic of the DDL. Where a router sends
the rows of many tables to one topic, only rows show it.
Rule 3. Any other table is left out: the state has its definition, which follows its DDL, but it has no place in the sink and is
in no cut. It is made, with the definition that it has by then, when its first row is read, or when a topic has its name.
Rule 4. Nothing about a table that is left out stops a run. A statement that cannot be applied to it is kept instead; if rows of
the table come, it is treated as at any other table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from changefeed.errors import UnsupportedError
from changefeed.model.names import full_name, in_topic, names_of
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.unlogged import VERSIONED
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.definitions import Unread
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.table_path import table_path
from changefeed.pipeline.state import State, TableState, Uncaptured

_DELIMITER = re.compile(r"[^a-zA-Z0-9]+")
_SHOWN = 20  # tables named in one note
_Name = tuple[str, str]  # database and table


class RefusedBeforeError(UnsupportedError):
    """A statement could not be applied to a table that was left out, and rows of the table have come."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of a source's topics, looked up by table.

    Attributes:
        after_prefix: delimiter -> what follows prefix and delimiter in the name of a topic; the prefix is the topic of the DDL.
        endings: the names, and what follows each dot in them.
    """

    after_prefix: dict[str, set[str]]
    endings: frozenset[str]

    @classmethod
    def of(cls, topics: Iterable[str], prefixes: Iterable[str]) -> TopicNames:
        """Splits the names of the topics."""
        distinct_prefixes, after, endings = set(prefixes), dict[str, set[str]](), set[str]()
        for topic in set(topics):
            parts = topic.split(".")
            endings.update(".".join(parts[i:]) for i in range(len(parts)))
            for prefix in distinct_prefixes:
                rest = topic.removeprefix(prefix)
                if rest != topic and (delimiter := _DELIMITER.match(rest)):
                    after.setdefault(delimiter[0], set()).add(rest[delimiter.end() :])
        return cls(after, frozenset(endings))

    def has(self, name: str) -> bool:
        """Whether a topic is named like a table, by `database.table`; Debezium writes `_` for characters that no topic has."""
        database, table = map(in_topic, names_of(name))
        return f"{database}.{table}" in self.endings or any(
            f"{database}{delimiter}{table}" in bodies for delimiter, bodies in self.after_prefix.items()
        )


@dataclass(slots=True)
class LeftOut:
    """The tables that are left out, while a step is planned.

    Attributes:
        may_come: whether the source sends DDL of tables that are not captured.
        rows: tables with pending rows or dead letters, and those that are held.
        paths: paths that the pipeline has written.
        topics: the topics of the source.
        refused: table that is left out -> the error of a statement about it that could not be applied; empty if there was none.
        notes: sentences about statements that could not be applied to tables that are captured now.
        renamed: the names that captured tables have got in the step, before any row has them.
    """

    may_come: bool
    rows: Collection[str] = ()
    paths: Collection[str] = ()
    topics: TopicNames = field(default_factory=lambda: TopicNames({}, frozenset()))
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    renamed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, state: State, chunks: Iterable[ChunkInfo], topics: Iterable[str], rules: Rules) -> LeftOut:
        """The tables that were left out before a step, and what shows which tables are captured by now."""
        if not rules.uncaptured_ddl:
            return cls(may_come=False)
        chunks = list(chunks)
        names = TopicNames.of(
            {*topics, *state.positions, *(chunk.topic for chunk in chunks)},
            (chunk.event.place.topic for chunk in chunks if chunk.event is not None),
        )
        refused = {name: one.refused for name, one in state.uncaptured.items() if not rules.excluded(name)}
        rows = {chunk.name for chunk in chunks if chunk.kind in ("rows", "dead")}
        return cls(True, rows | state.held.keys(), state.last_writes(), names, refused)

    def __contains__(self, name: str) -> bool:
        return name in self.refused

    def is_captured(self, name: str) -> bool:
        """Whether something shows that the connector captures a table: see Rule 2."""
        return (
            not self.may_come
            or name in self.rows
            or name in self.renamed
            or table_path(*names_of(name)) in self.paths
            or self.topics.has(name)
        )

    def leaves_out(self, name: str) -> bool:
        """Whether a table is left out, or would be if it were created now."""
        return name in self.refused or not self.is_captured(name)

    def leaves_out_all(self, database: str, tables: str) -> bool:
        """Whether the tables that a statement's event names are left out: several have commas between them.

        An event without a table concerns a whole database, which is left out if it is known by tables that are, and no others.
        """
        if tables:
            return all(self.leaves_out(full_name(database, table)) for table in {tables, *tables.split(",")})
        databases = {names_of(name)[0] for name in self.refused}
        return self.may_come and database in databases and all(names_of(name)[0] != database for name in self.rows)

    def refuse(self, name: str, why: str) -> None:
        """Keeps the error of a statement that could not be applied to a table that is left out."""
        self.refused[name] = self.refused.get(name) or why

    def created(self, name: str, *, by_ddl: bool) -> bool:
        """Whether a new table is left out; by its rows, none is."""
        is_left_out = by_ddl and not self.is_captured(name)
        self.refused.pop(name, None)
        if is_left_out:
            self.refused[name] = ""
        return is_left_out

    def moved(self, old: str, new: str, *, exists: bool) -> None:
        """Takes over what is known of a table under its new name; `exists`: whether the planner has the table."""
        why = self.refused.pop(old, None)
        self.refused.pop(new, None)
        self.renamed.discard(new)
        if why is not None:
            self.refused[new] = why
        elif exists:
            self.renamed.add(new)

    def dropped(self, name: str) -> None:
        """Forgets a table."""
        self.renamed.discard(name)
        self.refused.pop(name, None)

    def admit(self, name: str, behavior: str) -> bool:
        """Ends that a table is left out, because it is captured after all; returns whether its definition is that of its DDL.

        Raises:
            RefusedBeforeError: a statement about it could not be applied, and schema changes that cannot be stop the run; or its
                log has other rows than the table, which stops whatever the behavior is.
        """
        why = self.refused.pop(name)
        if why and (behavior in ("evolve", "exception") or VERSIONED in why):
            raise RefusedBeforeError(why)
        if why:
            self.notes.append(f"not applied, when {name} had no rows yet: {why}")
        return not why

    def state_of(self, tables: dict[str, TableState]) -> dict[str, Uncaptured]:
        """The tables that are left out after the step; `tables` are all tables of the planner."""
        return {n: Uncaptured(tables.get(n), why) for n, why in self.refused.items() if n in tables or why}


def left_out(names: Collection[str], chunks: Iterable[ChunkInfo]) -> list[str]:
    """A sentence about tables that are left out, with the topics that they would have by default; none if there are none."""
    if not names:
        return []
    prefixes = Counter(chunk.topic for chunk in chunks if chunk.event is not None)
    prefix = [topic for topic, _ in prefixes.most_common(1)]
    shown = ", ".join(".".join((*prefix, *names_of(name))) for name in sorted(names)[:_SHOWN])
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return [f"no topic {shown}{more}: left out, because no row and no topic shows that the connector captures them"]


def concerned(statement: sql.Statement | Unread) -> list[_Name]:
    """The tables that a statement changes, as it names them; none if it changes no table, or all of a database."""
    match statement:
        case sql.CreateTable() | sql.DropTable() | sql.TruncateTable() | sql.AlterTable() | Unread():
            return [(statement.database, statement.table)]
        case sql.RenameTable():
            return [(statement.database, statement.table), (statement.to_database, statement.to_table)]
        case sql.Unapplied(tables=tables):
            return list(tables)
    return []
