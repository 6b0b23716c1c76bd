"""The value that existing rows get when a column is added.

DEFAULT 3, 'a', x'41', TRUE, (1 + 2), DATE'…'       that value, as the column's type stores it: `constants.py`, `stored.py`
no default, NULL allowed                            NULL
no default, NOT NULL                                MySQL's implicit default of the type: 0, '', the first member, …
no default, date or datetime NOT NULL               the zero date: irregular, because it is not a calendar date
CURRENT_TIMESTAMP for a timestamp                   the statement's own time, if the producer sends it with enough digits
TIMESTAMP without NULL, NOT NULL and DEFAULT        NULL or NOT NULL, as the server's settings are; see `Execution`
'2026-01-01 …' for a timestamp,
CURRENT_TIMESTAMP for a datetime                    that time by the session's time zone, if the definition names it
(uuid()), generated columns, AUTO_INCREMENT         known only upstream
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.model.event import Instant
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import IrregularError, read_datetime, reader, write_datetime, write_instant, writer
from changefeed.mysql.ddl.constants import UNKNOWN, constant
from changefeed.mysql.ddl.stored import stored
from changefeed.mysql.zone import is_repeated, to_local, to_utc, zone

# The way out where local times are instants by the session's time zone, which no producer sends.
ZONE_NEEDED = "set pipeline.session-time-zone to the time zone of the session"
_ZERO_DATE, _ZERO_TIME = "0000-00-00", "00:00:00"
_NOW = re.compile(
    r"""\(? \s* (?: (?:CURRENT_TIMESTAMP|LOCALTIME|LOCALTIMESTAMP) (?:\s*\(\s*\d?\s*\))? | NOW\s*\(\s*\d?\s*\) ) \s* \)?""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Default:
    """The value of existing rows in a new column.

    Attributes:
        value: in canonical form; None for NULL, and if one of the next two is set.
        irregular: text that the type cannot represent, such as a zero date.
        unknown: a sentence: why the value does not follow from the statement; None if it does.
    """

    value: Any = None
    irregular: str | None = None
    unknown: str | None = None


NULL = Default()


@dataclass(frozen=True, slots=True)
class Execution:
    """Facts about the execution of a statement that decide values and are not in its text.

    Attributes:
        time: when the server began the statement; None if unknown. A time of its commit is later than that.
        null_timestamps: whether a TIMESTAMP column allows NULL if its definition does not declare it
            (`explicit_defaults_for_timestamp`): True for TiDB; None if unknown.
        is_mariadb: whether the server is MariaDB; None if unknown.
        zone: the time zone of its session; empty if unknown.
        nullable: lower-case name of a column -> whether it allows NULL in the producer's own definition of the table.
    """

    time: Instant | None = None
    null_timestamps: bool | None = None
    is_mariadb: bool | None = None
    nullable: Mapping[str, bool | None] = field(default_factory=dict)
    zone: str = ""


UNKNOWN_EXECUTION = Execution()


def is_now(sql: str) -> bool:
    """Whether a default is the time of the statement."""
    return _NOW.fullmatch(sql) is not None


def existing_rows(column: Column, execution: Execution = UNKNOWN_EXECUTION, *, undeclared: bool = False) -> Default:
    """Returns the value of existing rows when `column` is added.

    Args:
        column: its definition.
        execution: of the statement that adds it.
        undeclared: it is a TIMESTAMP that declares neither NULL, NOT NULL nor a default.
    """
    if undeclared and execution.null_timestamps is not True:
        nullable = execution.nullable.get(column.name.lower())
        if nullable is not True:
            return Default(
                unknown=_UNDECLARED.format(column.name, "is NOT NULL" if nullable is False else "may be NOT NULL")
            )
    if column.default is None:
        if column.nullable is not False:
            return NULL
        return implicit(column.type, is_mariadb=execution.is_mariadb is True)
    if is_now(column.default):
        default = _now(column, execution)
    else:
        default = _constant(column.default, column.type, execution)
        if default is not None and _is_ignored(column) and not execution.is_mariadb:
            default = None
    if default is not None:
        return default
    why = f"column {column.name}: only the upstream has the values that DEFAULT {column.default} gave to existing rows"
    if not execution.zone and existing_rows(column, replace(execution, zone="UTC")).unknown is None:
        why += f": {ZONE_NEEDED}"
    return Default(unknown=why)


_UNDECLARED = (
    "column {0}: a TIMESTAMP without NULL, NOT NULL or DEFAULT {1} with a default of its own, by the server's "
    "explicit_defaults_for_timestamp, so only the upstream has the values of existing rows"
)


def _now(column: Column, execution: Execution) -> Default | None:
    """The statement's own time; None if it is not known."""
    if column.type.name not in ("timestamp", "datetime") or column.type.length or execution.time is None:
        return None
    us = execution.time.us // 1_000_000 * 1_000_000
    if column.type.name == "timestamp":
        return Default(write_instant(us, 0))
    return Default(write_datetime(to_local(us, zone(execution.zone)), 0)) if execution.zone else None


def _is_ignored(column: Column) -> bool:
    """Whether MySQL, without strict mode, ignores the default: a TEXT or BLOB has none. In MariaDB it has."""
    literal = column.default is not None and not column.default.startswith("(")
    return (
        literal and column.nullable is not False and column.type.length is None and column.type.name in TEXTS | BINARIES
    )


def _constant(sql: str, t: ColumnType, execution: Execution) -> Default | None:
    """Returns the value of an expression of constants; None if it is not one, or the type stores it in an unknown form."""
    value = constant(sql)
    if value is UNKNOWN:
        return None
    if value is None:
        return NULL
    keeps_text = t.name == "json" and execution.is_mariadb and isinstance(value, str)
    canonical = value if keeps_text else stored(value, t)
    if canonical is None and t.name == "timestamp" and execution.zone:
        canonical = _instant(stored(value, replace(t, name="datetime")), t, execution.zone)
    if canonical is None:
        return None
    try:
        return Default(writer(t)(reader(t)(canonical)))
    except IrregularError:
        return Default(irregular=str(canonical))
    except ProtocolError:
        return None


def _instant(text: str | None, t: ColumnType, session_zone: str) -> str | None:
    """The instant that a local time is in a zone; None if the zone has it twice or not at all, or TIMESTAMP cannot hold it."""
    if text is None:
        return None
    where, (local, _) = zone(session_zone), read_datetime(text)
    us = to_utc(local, where)
    if us is None or not 0 < us < 2**31 * 1_000_000 or is_repeated(local, where):
        return None
    return write_instant(us, t.length or 0)


def implicit(t: ColumnType, *, is_mariadb: bool = False) -> Default:
    """The server's implicit default of a NOT NULL column without DEFAULT."""
    fraction = "." + "0" * t.length if t.name in ("datetime", "timestamp", "time") and t.length else ""
    if t.name in INTEGERS or t.name in ("bit", "year"):
        return Default(0)
    if t.name == "decimal":
        return Default("0." + "0" * t.scale if t.scale else "0")
    if t.name in ("float", "double"):
        return Default(0.0)
    if t.name == "date":
        return Default(irregular=_ZERO_DATE)
    if t.name in ("datetime", "timestamp"):
        return Default(irregular=f"{_ZERO_DATE} {_ZERO_TIME}{fraction}")
    if t.name == "time":
        return Default(_ZERO_TIME + fraction)
    if t.name in TEXTS or t.name == "set":
        return Default("")
    if t.name in BINARIES:
        return Default(writer(t)(bytes(t.length or 0) if t.name == "binary" else b""))
    if t.name == "enum":
        return Default((t.members or ("",))[0])
    if t.name == "json":
        return Default("" if is_mariadb else "null")
    return Default(unknown=f"MySQL has no implicit default for a NOT NULL column of type {t}")
