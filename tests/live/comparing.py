"""Compares the tables of a pipeline with those of the server: which there are, columns, order, types, and every value."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from changefeed.model.definition import Table
from changefeed.model.types import INTEGERS, ColumnType
from tests.live.schema import Content

_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_LENGTHS = {"bit": 1, "char": 1, "binary": 1, "datetime": 0, "timestamp": 0, "time": 0, "varbinary": 1}


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a table and the server's.

    Attributes:
        what: `tables`, `columns`, `types` or `rows`.
        column: of the first value that differs; empty if there is none.
        actual, right: the two values, or sets of values.
        row: the row with the first value that differs, in a form that can be compared; empty if there is none.
    """

    table: str
    what: str
    column: str
    actual: str
    right: str
    row: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        column = f", {self.column}" if self.column else ""
        return f"{self.table}: {self.what}{column}: {self.actual} for {self.right}"


def differences(
    actual: Mapping[str, tuple[Table, list[dict[str, Any]]]], right: Mapping[str, Content], server: str
) -> list[Difference]:
    """The differences, table by table, at most a few of each table.

    Args:
        actual: `database.table` -> its definition and its rows.
        right: the server's tables.
    """
    different = []
    for name in sorted(actual.keys() | right.keys()):
        if name not in actual or name not in right:
            different.append(Difference(name, "tables", "", "there" if name in actual else "missing", "other"))
            continue
        different += _table(name, *actual[name], right[name], server)
    return different


def _table(name: str, table: Table, rows: list[dict[str, Any]], right: Content, server: str) -> list[Difference]:
    columns = [column.name for column in table.columns]
    right = without_virtual(right) if len(columns) < len(right.columns) else right
    names = [column for column, _, _ in right.columns]
    if columns != names:
        return [Difference(name, "columns", "", str(columns), str(names))]
    types = [
        Difference(name, "types", column.name, str(column.type), kind)
        for column, (_, kind, _) in zip(table.columns, right.columns, strict=True)
        if not is_same_type(column.type, kind)
    ]
    kinds = [_kind(kind) for _, kind, _ in right.columns]
    is_text = server == "mariadb"  # its JSON is the text
    actual_rows = Counter(
        tuple(_plain(row[c], k, is_text) for c, k in zip(columns, kinds, strict=True)) for row in rows
    )
    right_rows = Counter(
        tuple(_server(value, k, is_text) for value, k in zip(row, kinds, strict=True)) for row in right.rows
    )
    extra, missing = list((actual_rows - right_rows).elements()), list((right_rows - actual_rows).elements())
    if not extra and not missing:
        return types
    return [*types, *_rows(name, names, extra, missing, len(rows), len(right.rows))]


def _kind(server: str) -> str:
    """The name of a type; a FLOAT(m,d) or DOUBLE(m,d) is a decimal as the server prints it, with `d` digits."""
    kind = ColumnType.parse(server)
    return f"{kind.name}({kind.scale})" if kind.name in ("float", "double") and kind.scale is not None else kind.name


def without_virtual(content: Content) -> Content:
    """A table without its virtual columns, which a pipeline may leave out."""
    chosen = [i for i, (_, _, generated) in enumerate(content.columns) if generated != "virtual"]
    return Content(
        tuple(content.columns[i] for i in chosen), tuple(tuple(row[i] for i in chosen) for row in content.rows)
    )


def without_zero_dates(content: Content) -> Content:
    """A table with NULL for dates that no column can hold, as the sink has it with `irregular: null`."""
    dates = [kind.startswith(("date", "timestamp")) for _, kind, _ in content.columns]
    rows = tuple(
        tuple(
            None if is_date and value and _is_zero(value) else value for value, is_date in zip(row, dates, strict=True)
        )
        for row in content.rows
    )
    return Content(content.columns, rows)


def _is_zero(value: str) -> bool:
    """Whether the hex digits of a date's text have no year, month or day."""
    text = bytes.fromhex(value).decode()
    return text.startswith("0000") or "-00" in text[:10]


def _rows(
    name: str, names: list[str], extra: list[Any], missing: list[Any], actual_count: int, right_count: int
) -> Iterable[Difference]:
    """The columns in which the rows that differ most likely differ; else the rows."""
    columns, is_one_row = set(), len(extra) == len(missing) == 1
    most = len(names) - 1 if is_one_row else max(1, len(names) // 2)
    for row in missing[:20]:
        near = min(extra, key=lambda other: sum(a != b for a, b in zip(row, other, strict=True)), default=None)
        differing = [] if near is None else [i for i, (a, b) in enumerate(zip(near, row, strict=True)) if a != b]
        if near is None or len(differing) > most:
            continue
        for i in differing:
            if i not in columns:
                columns.add(i)
                its_row = dict(zip(names, near, strict=True))
                yield Difference(name, "rows", names[i], repr(near[i]), repr(row[i]), its_row)
    if not columns or len(extra) != len(missing):
        what = f"{actual_count} rows: {extra[:2]}"
        yield Difference(name, "rows", "", what[:600], f"{right_count} rows: {missing[:2]}"[:600])


def is_same_type(actual: ColumnType, server: str) -> bool:
    """Whether a type is the server's, apart from display widths; MariaDB's JSON is also LONGTEXT."""
    right = ColumnType.parse(server)
    if {actual.name, right.name} == {"json", "longtext"}:
        return True
    return _details(actual) == _details(right)


def _details(t: ColumnType) -> tuple[Any, ...]:
    if t.name in INTEGERS or t.name == "year":
        return t.name, t.unsigned
    if t.name == "decimal":
        return t.name, t.unsigned, 10 if t.length is None else t.length, t.scale or 0
    if t.name in ("float", "double"):
        return t.name, t.unsigned, t.scale and t.length, t.scale
    if t.name.endswith(("text", "blob")):
        return (t.name,)
    return t.name, _LENGTHS.get(t.name) if t.length is None else t.length, t.members


def _server(value: str | None, kind: str, json_is_text: bool) -> Any:
    """A value of the server in a form that can be compared."""
    if value is None:
        return None
    data = bytes.fromhex(value)
    if kind in _BINARIES or kind in ("point", "geometry"):
        return data
    return _plain(data.decode(), kind, json_is_text)


def _plain(value: Any, kind: str, json_is_text: bool) -> Any:
    """A value, or its text, in a form that can be compared."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return value["wkb"]
    if isinstance(value, bool):
        value = int(value)
    try:
        if kind.endswith(")"):
            return round(float(value), int(kind.partition("(")[2][:-1]))
        match kind:
            case "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" | "bit" | "decimal":
                return Decimal(str(value)).normalize() + 0
            case "float":
                return struct.pack("f", float(value)).hex()
            case "double":
                return float(value) + 0
            case "date" | "datetime" | "timestamp":
                return _moment(value)
            case "json" if not json_is_text:
                return repr(_sorted(json.loads(value, parse_float=float, parse_int=int)))
    except (ValueError, InvalidOperation, OverflowError):
        return f"{value!r} of {kind}"
    return value


def _moment(value: Any) -> str:
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None).isoformat(" ")
    elif isinstance(value, date):
        value = value.isoformat()
    text = str(value)
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return whole + ("." + fraction if fraction else "")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(part) for part in value]
    return float(value) if type(value) in (int, float) else value
