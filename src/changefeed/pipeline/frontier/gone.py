"""Topics whose tables are gone: TiCDC sends no more resolved events there, so their partitions hold the barrier for ever.

With a topic for each table, TiCDC sends resolved events to the topics of the tables that it has, and to its default topic. When a
table is dropped or renamed, its topic gets the statement as its last record:

    d_a   row 10   resolved 11   DROP 12
    d_b   row 10   resolved 11             row 13   resolved 14     the barrier stays at 11

Rule 1. For each topic, the state has the last statement of each table whose DDL came there, and whether the table is gone by it.
A DROP DATABASE counts in every topic.
Rule 2. A topic is without tables if all are gone of which it has had rows (`heads.py`) or statements.
Rule 3. It is named only if the marks show it: no partition of it has one above the last of these statements, but another topic
has. So neither a default topic nor one that is shared with tables whose names have not been read is named.
Rule 4. A statement that cannot be read is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name, names_of
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as sql
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import NOTHING, LastStatement, State

_Name = tuple[str, str]  # database and table


def with_statements(state: State, fresh: Iterable[ChunkInfo], *, restored: bool) -> State:
    """The state with the last statement of each table whose DDL is in a batch.

    Args:
        state: before the batch.
        fresh: the batch's chunks.
        restored: whether TiDB wrote the DDL, see `mysql.ddl.parse`.
    """
    fresh = list(fresh)
    events = [chunk.event for chunk in fresh if chunk.event is not None and chunk.event.commit_ts is not None]
    if not events:
        return state
    last = {topic: dict(tables) for topic, tables in state.statements.items()}
    with_rows = {topic: set(_heads(state, topic)) for topic in state.heads}
    for chunk in fresh:
        if chunk.kind == "rows":
            with_rows.setdefault(chunk.topic, set()).add(chunk.name)
    for event in events:
        for statement in _parsed(event, restored=restored):
            if isinstance(statement, sql.DropDatabase):
                for topic in last.keys() | with_rows.keys():
                    for name in with_rows.get(topic, set()) | last.get(topic, {}).keys():
                        if names_of(name)[0].lower() == statement.database.lower():
                            _note(last, topic, name, event, f"dropped with database {statement.database}")
            else:
                for names, end in _ends(statement):
                    _note(last, event.place.topic, _spelled(names, event), event, end)
    return replace(state, statements=last)


def gone_from(state: State, topic: str) -> dict[str, LastStatement]:
    """Table -> the statement by which it is gone, of a topic that holds the barrier because it is without tables.

    Returns:
        sorted by commit_ts; empty if the topic has tables, or if the resolved events do not show that it has none.
    """
    statements, rows = state.statements.get(topic, {}), _heads(state, topic)
    if not statements or rows.keys() - statements.keys():
        return {}
    if any(not one.end or rows.get(name, NOTHING) > one.commit_ts for name, one in statements.items()):
        return {}
    last = max(one.commit_ts for one in statements.values())
    passed_by = {name for name, marks in state.resolved.items() if any(mark > last for mark in marks.values())}
    if not passed_by or topic in passed_by:
        return {}
    return dict(sorted(statements.items(), key=lambda one: (one[1].commit_ts, one[0])))


def _parsed(event: SchemaChange, *, restored: bool) -> list[sql.Statement]:
    try:
        return ddl.statements_of(event, restored=restored)
    except (SchemaError, UnsupportedError):
        return []


def _ends(statement: sql.Statement) -> Iterator[tuple[_Name, str]]:
    """Yields each table of a statement about tables, and how it ends by it; empty if it goes on."""
    match statement:
        case sql.DropTable():
            yield (statement.database, statement.table), "dropped"
        case sql.RenameTable():
            to = full_name(statement.to_database, statement.to_table)
            yield (statement.database, statement.table), f"renamed to {to}"
        case sql.CreateTable() | sql.AlterTable() | sql.TruncateTable():
            yield (statement.database, statement.table), ""


def _spelled(names: _Name, event: SchemaChange) -> str:
    """The name of a table; in the case that the event has it in, which is that of its rows, not of the statement."""
    own = event.database or "", event.table or ""
    return full_name(*(own if own[0].lower() == names[0].lower() and own[1].lower() == names[1].lower() else names))


def _note(last: dict[str, dict[str, LastStatement]], topic: str, name: str, event: SchemaChange, end: str) -> None:
    """Notes a statement, unless a later one is known."""
    assert event.commit_ts is not None
    of_topic = last.setdefault(topic, {})
    if name not in of_topic or of_topic[name].commit_ts <= event.commit_ts:
        of_topic[name] = LastStatement(event.commit_ts, end)


def _heads(state: State, topic: str) -> dict[str, int]:
    """Table -> highest commit_ts of its rows in a topic."""
    highest: dict[str, int] = {}
    for tables in state.heads.get(topic, {}).values():
        for name, ts in tables.items():
            if name:
                highest[name] = max(ts, highest.get(name, NOTHING))
    return highest
