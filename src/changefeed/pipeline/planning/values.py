"""The values of existing rows in a column that DDL changes: the facts that the conversion depends on, and what NULL becomes.

Rule 1. A column that becomes NOT NULL has no NULL any more: without strict mode, and with ALTER IGNORE, the server writes the
        implicit default of the type, or what `mysql.ddl.in_place` describes. In strict mode there is no NULL, so this is right
        in both.
Rule 2. A column that becomes AUTO_INCREMENT has numbers where it had NULL, in every mode. Where it had 0, too, unless the session
        has NO_AUTO_VALUE_ON_ZERO: no statement shows whether it has, or whether there is such a row.
Rule 3. A column that was NOT NULL before keeps its NULLs: they are values that the sink's type cannot hold.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from changefeed.frames.retype import Details, Server, texts
from changefeed.model.event import SchemaChange
from changefeed.model.table import Column
from changefeed.model.types import BINARIES
from changefeed.mysql.ddl.apply import Projection
from changefeed.mysql.ddl.defaults import NULL, Default, Execution, implicit
from changefeed.sinks.base import TypeMap

DATES = frozenset({"date", "datetime", "timestamp"})
_EMPTY = Default("")


def session_of(event: SchemaChange, execution: Execution, *, restored_ddl: bool) -> Details:
    """Returns the facts about a statement that are known: its server, the time zone of its session, and when it began."""
    began = None if execution.time is None else execution.time.us
    return Details(_server_of(event, restored_ddl=restored_ddl), zone=execution.zone, time=began)


def _server_of(event: SchemaChange, *, restored_ddl: bool) -> Server:
    if restored_ddl:
        return "tidb"
    connector = event.origin.get("connector")
    return connector if connector in ("mysql", "mariadb") else ""


def conversion(
    types: TypeMap, old: Column, new: Column, session: Details, *, widening: bool = False
) -> Literal["none", "rewrite"] | None:
    """Returns the effect of a change of a column on existing rows, as `TypeMap.conversion` does."""
    return types.conversion(old.type, new.type, widening=widening, details=details_of(old, new, session))


def details_of(old: Column, new: Column, session: Details) -> Details:
    """Returns the facts about a conversion that do not follow from the two types; `session`: see `session_of`."""
    before, after = (_charset(c, session.server) for c in (old, new))
    is_recoded = after not in ("", before) and old.type.name not in BINARIES and not texts.is_unicode(after)
    return msgspec.structs.replace(
        session, charset=after or before, width=old.zerofill, recoded=is_recoded,
        time=session.time if gets_day(old, new) else None,
    )  # fmt: skip


def gets_day(old: Column, new: Column) -> bool:
    """Whether values get the day of the statement."""
    return old.type.name == "time" and new.type.name in DATES


def _charset(column: Column, server: Server) -> str:
    """The character set of a column's text; empty if unknown, and for bytes, also those of members (ENUM, SET)."""
    if column.type.name in BINARIES or column.charset == "binary":
        return ""
    return column.charset or ("utf8mb4" if server == "tidb" else "")


def default_for_null(p: Projection, server: Server) -> Default:
    """Returns the value that NULL becomes in existing rows; NULL itself if it stays."""
    old, new = p.source, p.column
    if old is None or new.nullable is not False or old.nullable is False:
        return NULL
    if new.type.name == "timestamp":
        return Default(
            unknown=f"column {new.name}: NULL becomes the time of the statement, and no row event contains the values"
        )
    if _is_counted(new):
        return Default(
            unknown=f"column {new.name}: the upstream numbered the rows with NULL in it, and no row event contains the values"
        )
    if p.null != NULL:
        return p.null
    if new.type.name == "enum":
        return _EMPTY
    default = implicit(new.type, is_mariadb=server == "mariadb")
    return NULL if default.unknown else default


def numbered(p: Projection) -> bool:
    """Whether a column with values becomes AUTO_INCREMENT: see Rule 2."""
    return p.source is not None and _is_counted(p.column) and not _is_counted(p.source)


def _is_counted(column: Column) -> bool:
    return column.declared is not None and column.declared.counted
