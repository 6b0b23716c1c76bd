"""Tables whose rows have no place in the order of changes, beside schema changes that have one: Debezium with `unwrap`.

Rule 1. Rows before a schema change of such a table cannot be distinguished from rows after it. It is refused, or noted and left
        out where `schema.change.behavior` goes on without it.
Rule 2. A CREATE TABLE of a table that is not there is no such change: all rows come after it. So does the DDL of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable

from changefeed.model.event import SchemaChange
from changefeed.mysql.ddl import statements as sql
from changefeed.pipeline.planning.writes import Writes
from changefeed.protocols.origin import snapshot_mark

WAY_OUT = (
    "Let the transform add source.file and source.pos (`add.fields`), leave the topic of schema changes out of the source, or "
    "set schema.change.behavior to `try_evolve` to go on without it"
)


def refusal(statement: object, names: Iterable[str], event: SchemaChange, writes: Writes) -> str | None:
    """Returns why a statement has no order relative to rows of its tables; None if it has one, or changes nothing."""
    if isinstance(statement, sql.AlterTable) and statement.is_internal:
        return None
    for name in names:
        is_there = name in writes.tables
        if not writes.is_unplaced(name):
            continue
        if isinstance(statement, sql.CreateTable) and (statement.if_not_exists or not is_there):
            continue
        if isinstance(statement, sql.DropTable) and not is_there and snapshot_mark(event) is not None:
            continue
        return (
            f"the rows of {name} have no place in the order of changes, so that rows before this schema change cannot be "
            "distinguished from rows after it"
        )
    return None
