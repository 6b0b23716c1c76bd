"""DDL: the text of a statement -> what it does to tables and their rows.

Read by a lexer and a parser of its own, not by a general SQL parser: the table statements of MySQL, MariaDB and TiDB
are a small language in which every word may decide whether rows are lost, and whatever is not in it is refused.
"""

from __future__ import annotations

from changefeed.model.event import SchemaChange
from changefeed.mysql.ddl.parser import parse as parse
from changefeed.mysql.ddl.statements import Statement, TruncateTable


def statements_of(event: SchemaChange, *, restored: bool) -> list[Statement]:
    """The statements of a schema change; a TRUNCATE may be told without its text, as an op.

    Raises:
        SchemaError, UnsupportedError: as `parse`.
    """
    if event.type == "truncate_table" and not event.ddl:
        return [TruncateTable(event.database or "", event.table or "")]
    return parse(event.ddl or "", event.database, restored=restored)
