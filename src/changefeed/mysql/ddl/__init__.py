"""DDL: the text of a statement -> its effect on tables and their rows.

This package has its own lexer and parser instead of a general SQL parser: the table statements of MySQL, MariaDB and TiDB
are a small language in which every word may decide whether rows are lost. Anything that is not supported is refused.
"""

from __future__ import annotations

from functools import lru_cache

from changefeed.model.event import SchemaChange
from changefeed.mysql.ddl.defaults import Execution
from changefeed.mysql.ddl.mentions import mentioned as mentioned
from changefeed.mysql.ddl.parser import parse as parse
from changefeed.mysql.ddl.statements import Statement, TruncateTable

TIME_ZONE = "time_zone"
"""The member of a schema change's origin with the time zone of the session, where the source has it."""
_MOST_KEPT = 1 << 14  # characters of a text whose statements are kept


def statements_of(event: SchemaChange, *, restored: bool, escapes: bool = False) -> list[Statement]:
    """Parses the statements of a schema change; a truncate event may have no text. Other arguments: see `parse`.

    Raises:
        SchemaError, UnsupportedError: as `parse`.
    """
    if event.type == "truncate_table" and not event.ddl:
        return [TruncateTable(event.database or "", event.table or "")]
    text = event.ddl or ""
    if len(text) > _MOST_KEPT:
        return parse(text, event.database, restored=restored, escapes=escapes)
    return list(_kept(text, event.database, restored, escapes))


@lru_cache(maxsize=2048)
def _kept(text: str, database: str | None, restored: bool, escapes: bool) -> tuple[Statement, ...]:
    """`parse`, whose result is kept: each step asks several times for the statements of every pending schema change."""
    return tuple(parse(text, database, restored=restored, escapes=escapes))


def execution_of(event: SchemaChange, *, restored: bool, zone: str = "") -> Execution:
    """Returns what a schema change shows about the execution of its statement.

    A binlog's own time is when the statement began, in whole seconds; a time with a fraction is that of the commit.

    Args:
        event: the schema change.
        restored: TiDB wrote the statement.
        zone: the time zone of the session, if the event does not have it; empty if unknown.
    """
    if restored:
        return Execution(null_timestamps=True, is_mariadb=False, zone=zone)
    time = event.instant if event.instant is not None and event.instant.us % 1_000_000 == 0 else None
    is_mariadb = True if event.origin.get("connector") == "mariadb" else None
    zone = event.origin.get(TIME_ZONE, zone)
    return Execution(time, None, is_mariadb, {c.name.lower(): c.nullable for c in event.columns or ()}, zone)
