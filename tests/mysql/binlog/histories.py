"""Random tables and changes for a server, and the comparison of parsed rows with the server's own SELECT.

Each kind of column has random SQL literals, the SQL expression that shows a value as text, and the same text of a parsed value.
"""

from __future__ import annotations

import dataclasses
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from changefeed.model.values import Irregular
from changefeed.mysql.binlog import TableMap
from changefeed.mysql.binlog.events import Event, Header, Rows, TransactionPayload
from changefeed.mysql.binlog.json_diff import JsonDiff
from tests.services.database import Database

DATABASE = "logged"


@dataclass(frozen=True)
class Kind:
    """A type of column: its SQL, its random literals, and the text of a value, by the server and by the parser."""

    sql: str
    literal: Callable[[random.Random], str]
    shown: str = "CONVERT(CAST({} AS CHAR) USING utf8mb4)"
    text: Callable[[Any], str] = str
    mysql: bool = True
    mariadb: bool = True
    newer: bool = False  # only the newer versions of both servers have it


def _integers(bits: int, *, unsigned: bool = False) -> Callable[[random.Random], str]:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return lambda r: str(r.choice([low, high, 0, 1, r.randint(low, high), max(low, -r.randrange(99))]))


def _decimal(precision: int, scale: int) -> Kind:
    def literal(r: random.Random) -> str:
        digits = "".join(r.choice("0123456789") for _ in range(r.randint(1, precision)))
        whole, fraction = digits[: precision - scale], digits[precision - scale :]
        return f"{r.choice(['', '-'])}{whole or 0}.{fraction or 0}"

    return Kind(f"DECIMAL({precision},{scale})", literal)


def _words(*words: str, most: int = 9) -> Callable[[random.Random], str]:
    return lambda r: quoted("".join(r.choice(words) for _ in range(r.randrange(most))))


def _bytes(most: int) -> Callable[[random.Random], str]:
    def literal(r: random.Random) -> str:
        data = bytes(r.choice([0, 32, 92, 255, r.randrange(256)]) for _ in range(r.randint(0, most)))
        return f"x'{data.hex()}'"

    return literal


def _moment(digits: int) -> Callable[[random.Random], str]:
    def literal(r: random.Random) -> str:
        year = r.choice([1000, 1970, 2024, 9999])
        day = f"{year}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"
        return f"'{day} {r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}.{r.randrange(10**digits)}'"

    return lambda r: "'0000-00-00 00:00:00'" if r.random() < 0.1 else literal(r)


def _instant(digits: int) -> Callable[[random.Random], str]:
    def literal(r: random.Random) -> str:
        day = f"{r.randint(1971, 2037)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"
        return f"'{day} {r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}.{r.randrange(10**digits)}'"

    return lambda r: "'0000-00-00 00:00:00'" if r.random() < 0.1 else literal(r)


def _time(digits: int) -> Callable[[random.Random], str]:
    return lambda r: (
        f"'{r.choice(['', '-'])}{r.choice([0, 1, 23, 99, 837]):02}:{r.randrange(60):02}:{r.randrange(60):02}"
        f".{r.randrange(10**digits)}'"
    )


def _json(r: random.Random, depth: int = 0) -> Any:
    scalar = [
        None, True, False, 0, -1, 32767, 32768, -32769, 65536, 2**31, -(2**31) - 1, 2**53 + 1, 2**64 - 1, -(2**63), 1.5, 0.0,
        1e15, 1e14, 123456789012345680.0, 1e-5, 1e-15, 1e-16, 1.7976931348623157e308, 5e-324, -2.5e-7, r.random(),
        r.random() * 10 ** r.randint(-20, 20), "", "text", 'q"\\/\b\f\n\r\t\x01\x7f', "é€🐟", "x" * r.choice([127, 128, 300]),
    ]  # fmt: skip
    roll = r.random()
    if depth > 3 or roll < 0.4:
        return r.choice(scalar)
    if roll < 0.7:
        return [_json(r, depth + 1) for _ in range(r.randrange(5))]
    return {
        r.choice(["a", "bb", "é", "", "k" * 9, str(r.random())]): _json(r, depth + 1) for _ in range(r.randrange(5))
    }


def _json_literal(r: random.Random) -> str:
    roll = r.random()
    if roll < 0.15:
        opaque = r.choice(
            [
                "CAST('2024-01-02' AS DATE)", "CAST('-12:13:14.5' AS TIME(6))", "CAST('2024-01-02 03:04:05.678' AS DATETIME(3))",
                "CAST(-12345.678 AS DECIMAL(20,5))", "CAST(0.5 AS DECIMAL(1,1))", "CAST(x'00ff' AS BINARY(2))",
                f"CAST(x'{bytes(range(99)).hex()}' AS BINARY(99))", "b'101'",
            ]
        )  # fmt: skip
        return f"JSON_OBJECT('v', JSON_ARRAY({opaque}, {opaque}))"
    if roll < 0.2:  # more than 64 KiB: the large form
        return quoted(json.dumps({"big": ["y" * 500] * 140, "n": [2**31 - 1, -1, 70000]}))
    return quoted(json.dumps(_json(r), ensure_ascii=False))


def _wkt(r: random.Random) -> str:
    a, b = r.randint(-9, 9), r.random()
    shapes = [f"POINT({a} {b})", f"LINESTRING(0 0,{a} {b})", f"GEOMETRYCOLLECTION(POINT({b} {a}))"]
    return f"ST_GeomFromText('{r.choice(shapes)}')"


def _float(value: Any) -> str:
    return repr(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def _hex(value: Any) -> str:
    return bytes(value).hex().upper()


def _geometry(value: Any) -> str:
    return _hex(value["srid"].to_bytes(4, "little") + value["wkb"])


def _instant_text(value: str) -> str:
    return value.replace("T", " ").removesuffix("Z")


def quoted(text: str) -> str:
    """An SQL literal in utf8mb4, whatever the characters are."""
    return f"CONVERT(x'{text.encode().hex()}' USING utf8mb4)" if text else "''"


_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 24: "MEDIUMINT", 32: "INT", 64: "BIGINT"}
_BYTES: dict[str, Any] = {"shown": "HEX({})", "text": _hex}
_LATIN = ("a", "é", "ß", " ", "Z", "'", "\\", "\t")
_WIDE = (*_LATIN, "€", "中", "🐟", "\n")
KINDS = {
    **{f"i{bits}": Kind(name, _integers(bits)) for bits, name in _INTEGERS.items()},
    **{f"u{bits}": Kind(f"{name} UNSIGNED", _integers(bits, unsigned=True)) for bits, name in _INTEGERS.items()},
    **{f"dec{p}_{s}": _decimal(p, s) for p, s in ((1, 0), (1, 1), (10, 0), (9, 9), (18, 9), (38, 10), (65, 30), (23, 5))},
    "decu": Kind("DECIMAL(12,4) UNSIGNED", lambda r: f"{r.randrange(10**8)}.{r.randrange(10**4)}"),
    "fl": Kind("FLOAT", lambda r: repr(r.choice([0.0, -1.5, 1e-40, 3.4e38, r.random(), r.random() * 1e9])), "{}*1e0", _float),
    "db": Kind("DOUBLE", lambda r: repr(r.choice([0.0, -1e-300, 1.7e308, r.random(), r.random() * 1e20])), "{}*1e0",
               lambda v: repr(float(v))),
    **{f"bit{n}": Kind(f"BIT({n})", _integers(n, unsigned=True), "{}+0") for n in (1, 7, 8, 9, 33, 64)},
    "yr": Kind("YEAR", lambda r: str(r.choice([0, 1901, 2024, 2155])), text=lambda v: f"{v:04}"),
    "dat": Kind("DATE", lambda r: r.choice(["'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2024-02-29'"])),
    **{f"t{n}": Kind(f"TIME({n})", _time(n)) for n in range(7)},
    **{f"dt{n}": Kind(f"DATETIME({n})", _moment(n)) for n in range(7)},
    **{f"ts{n}": Kind(f"TIMESTAMP({n}) NULL", _instant(n), text=_instant_text) for n in range(7)},
    "ch": Kind("CHAR(5) CHARACTER SET utf8mb4", lambda r: f"LEFT({_words(*_WIDE)(r)}, 5)"),
    "ch63": Kind("CHAR(63) CHARACTER SET utf8mb4", _words(*_WIDE, most=60)),
    "ch64": Kind("CHAR(64) CHARACTER SET utf8mb4", _words(*_WIDE, most=60)),
    "ch255": Kind("CHAR(255) CHARACTER SET utf8mb4", _words(*_WIDE, most=255)),
    "ch200": Kind("CHAR(200) CHARACTER SET utf8mb3", _words(*_LATIN, "中", most=200)),
    **{f"vc_{charset}": Kind(f"VARCHAR(20) CHARACTER SET {charset}", _words(*letters)) for charset, letters in {
        "utf8mb4": _WIDE, "utf8mb3": (*_LATIN, "中"), "latin1": (*_LATIN, "€"), "utf16": _WIDE, "utf16le": _WIDE, "utf32": _WIDE,
        "ucs2": (*_LATIN, "中"), "gbk": ("a", "中", "文"), "big5": ("a", "中"), "sjis": ("a", "日", "本"), "ujis": ("a", "日"),
        "euckr": ("a", "한"), "cp1251": ("a", "П"), "greek": ("a", "Ε"), "latin2": ("a", "Ł"), "hebrew": ("a", "ש"),
        "koi8r": ("a", "П"), "tis620": ("a", "ก"), "cp850": ("a", "é"), "ascii": ("a", "b")}.items()},
    "ch_u16": Kind("CHAR(7) CHARACTER SET utf16", _words("a", "中", "🐟", " ", most=7)),
    "vc255": Kind("VARCHAR(255) CHARACTER SET latin1", _words(*_LATIN, most=255)),
    "vc256": Kind("VARCHAR(256) CHARACTER SET latin1", _words(*_LATIN, most=255)),
    "dec8": Kind("VARCHAR(9) CHARACTER SET dec8", _words("a", "b"), **_BYTES),
    "tx": Kind("TEXT CHARACTER SET utf8mb4", lambda r: f"REPEAT({_words(*_WIDE)(r)}, {r.choice([1, 90])})"),
    **{f"{size}tx": Kind(f"{size}TEXT CHARACTER SET utf8mb4", _words(*_WIDE)) for size in ("TINY", "MEDIUM", "LONG")},
    **{f"{size}bl": Kind(f"{size}BLOB", _bytes(20), **_BYTES) for size in ("TINY", "", "MEDIUM", "LONG")},
    "bn": Kind("BINARY(9)", _bytes(9), **_BYTES),
    "bn255": Kind("BINARY(255)", _bytes(255), **_BYTES),
    "vb": Kind("VARBINARY(300)", _bytes(300), **_BYTES),
    "en": Kind("ENUM('a','b,c','é','''')", lambda r: r.choice(["'a'", "'b,c'", "'é'", "''''"])),
    "enl": Kind(f"ENUM({','.join(repr(f'm{i}') for i in range(300))})", lambda r: f"'m{r.randrange(300)}'"),
    "enu": Kind("ENUM('ä','中') CHARACTER SET gbk", lambda r: "'中'"),
    "st": Kind("SET('x','y','ż')", lambda r: r.choice(["''", "'x'", "'y,ż'", "'x,y,ż'"])),
    "stl": Kind(f"SET({','.join(repr(f's{i}') for i in range(64))})", lambda r: r.choice([str(r.getrandbits(64)), "'s63'"])),
    "geo": Kind("GEOMETRY", _wkt, "HEX({})", _geometry),
    "pnt": Kind("POINT", lambda r: f"ST_GeomFromText('POINT({r.randint(-9, 9)} 2)')", "HEX({})", _geometry),
    "js": Kind("JSON", _json_literal, mariadb=False),
    "js2": Kind("JSON", _json_literal, mariadb=False),
    "ve": Kind("VECTOR(3)", lambda r: f"x'{struct.pack('<3f', *(r.choice([0.0, 1.5, -3e38, r.random()]) for _ in '123')).hex()}'",
               "HEX({})", lambda v: struct.pack(f"<{len(v)}f", *v).hex().upper(), newer=True),
    "u": Kind("UUID", lambda r: quoted(r.choice([
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "01890a5d-ac96-774b-bcce-b302099a8057", "123e4567-e89b-42d3-a456-426655440000", "123e4567-e89b-12d3-0456-426655440000",
        "12345678-9abc-8def-8123-456789abcdef"])), mysql=False),
    "in4": Kind("INET4", lambda r: quoted(r.choice(["0.0.0.0", "10.0.0.1", "255.255.255.0"])), mysql=False),
    "in6": Kind("INET6", lambda r: quoted(r.choice([
        "::", "::1", "2001:db8::ff00:42:8329", "::ffff:192.0.2.1", "::192.0.2.1", "fe80::", "1:0:0:2:0:0:0:3"])), mysql=False),
    "vcc": Kind("VARCHAR(300) COMPRESSED CHARACTER SET utf8mb4", lambda r: f"REPEAT({_words(*_WIDE)(r)}, {r.choice([1, 30])})",
                mysql=False),
    "txc": Kind("TEXT COMPRESSED CHARACTER SET utf8mb4", lambda r: f"REPEAT({_words(*_WIDE)(r)}, {r.choice([1, 90])})",
                mysql=False),
    "blc": Kind("BLOB COMPRESSED", lambda r: f"REPEAT({_bytes(9)(r)}, {r.choice([1, 90])})", **_BYTES, mysql=False),
}  # fmt: skip


def kinds(database: Database) -> list[str]:
    """The names of the kinds that a server has."""
    mysql = database.connector == "mysql"
    return [
        name
        for name, kind in KINDS.items()
        if (kind.mysql if mysql else kind.mariadb) and (database.is_newer or not kind.newer)
    ]


class History:
    """Random changes of tables: `tables` maps each to its columns, which are named by their kinds."""

    def __init__(self, seed: int, columns: list[str], *, tables: int = 4, width: int = 30) -> None:
        self._random = random.Random(seed)
        shuffled = self._random.sample(columns, len(columns))
        parts = [shuffled[i : i + width] for i in range(0, len(shuffled), width)]
        self.tables = {f"t{i}": parts[i % len(parts)] for i in range(max(tables, len(parts)))}

    def create(self) -> str:
        """The DDL."""
        created = [f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4", f"USE {DATABASE}"]
        for table, columns in self.tables.items():
            definitions = ", ".join(f"`{name}` {KINDS[name].sql}" for name in columns)
            created.append(f"CREATE TABLE {table} (id INT PRIMARY KEY, {definitions})")
        return ";\n".join(created) + ";\n"

    def changes(self, count: int) -> str:
        """DML in transactions of a few statements."""
        lines = [f"USE {DATABASE}", "SET sql_mode = ''"]
        for _ in range(count):
            lines += ["BEGIN", *(self._statement() for _ in range(self._random.randint(1, 3))), "COMMIT"]
        return ";\n".join(lines) + ";\n"

    def _statement(self) -> str:
        table = self._random.choice(list(self.tables))
        columns, roll, key = self.tables[table], self._random.random(), self._random.randrange(12)
        if roll < 0.15:
            return f"DELETE FROM {table} WHERE id IN ({key}, {key + 1})"
        if roll < 0.5:
            chosen = self._random.sample(columns, min(3, len(columns)))
            return f"UPDATE {table} SET {', '.join(f'`{c}` = {self._literal(c)}' for c in chosen)} WHERE id >= {key}"
        values = ", ".join(self._literal(c) for c in columns)
        return f"REPLACE INTO {table} VALUES ({key}, {values})"

    def _literal(self, column: str) -> str:
        return "NULL" if self._random.random() < 0.1 else KINDS[column].literal(self._random)

    def selected(self, database: Database) -> dict[str, dict[int, dict[str, str | None]]]:
        """The rows of all tables as the server shows them: table -> id -> column -> text."""
        return {table: selected(database, table, columns) for table, columns in self.tables.items()}


def selected(database: Database, table: str, columns: list[str]) -> dict[int, dict[str, str | None]]:
    """The rows of a table as the server shows them: id -> column -> text."""
    shown = ", ".join(
        f"HEX(CAST({KINDS[name].shown.format(f'`{name}`')} AS CHAR CHARACTER SET utf8mb4))" for name in columns
    )
    rows = {}
    for key, *cells in database.selected(f"SELECT id, {shown} FROM {table}", DATABASE):
        texts = (None if cell == "NULL" else bytes.fromhex(cell).decode() for cell in cells)
        rows[int(key)] = {
            name: text if text is None or KINDS[name].sql not in ("FLOAT", "DOUBLE") else repr(float(text))
            for name, text in zip(columns, texts, strict=True)
        }
    return rows


class Tables:
    """Rows that are applied in order: table -> id -> column -> text of the value."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, dict[str, str | None]]] = {}

    def apply(self, event: Rows) -> None:
        """Applies one event. Columns that the image after does not carry keep their values."""
        rows = self.rows.setdefault(event.table.table, {})
        for before, after in event.images():
            key = (before or after or {})["id"]
            row = rows.pop(key, {}) if before is not None else {}
            if after is not None:
                row |= {name: _after(name, value, row.get(name)) for name, value in after.items() if name != "id"}
                rows[after.get("id", key)] = row


def _after(column: str, value: Any, before: str | None) -> str | None:
    if isinstance(value, JsonDiff):
        assert before is not None
        return value.apply(before)
    return shown(column, value)


def shown(column: str, value: Any) -> str | None:
    """The text of a parsed value, in the form of the column's `shown`."""
    if value is None:
        return None
    if isinstance(value, Irregular):
        raise AssertionError(f"{column}: {value}")
    return KINDS[column].text(value)


# Names of SHOW BINLOG EVENTS that differ from those of `codes`, after the case.
_SHOWN_TYPES = {
    "FORMAT_DESC": "FORMAT_DESCRIPTION",
    "UPDATE_ROWS_PARTIAL": "PARTIAL_UPDATE_ROWS",
    "ANONYMOUS_GTID": "ANONYMOUS_GTID",
}


def listed(database: Database, file: str) -> list[list[Any]]:
    """The events of a file as the server lists them: position, type, next position."""
    shown = database.selected(f"SHOW BINLOG EVENTS IN '{file}'", "mysql")
    return [[int(row[1]), _type_name(row[2]), int(row[4])] for row in shown]


def _type_name(shown: str) -> str:
    name = shown.upper().replace(" ", "_")
    return _SHOWN_TYPES.get(name, name)


def listed_events(events: list[Event]) -> list[list[Any]]:
    """The same of parsed events. The server lists those of a payload at its end."""
    rows: list[list[Any]] = []
    payload: Header | None = None
    for event in events:
        header = event.header
        name = header.name.removesuffix("_EVENT").replace("MARIADB_", "")
        inside = payload is not None and header.position == payload.position
        if payload is not None and inside:
            rows.append([payload.next_position, name, payload.next_position])
        else:
            rows.append([header.position, name, header.next_position])
        if isinstance(event, TransactionPayload):
            payload = header
    return rows


def rows_of(events: Iterator[Event]) -> Iterator[Rows]:
    """The row events of a history's tables."""
    return (event for event in events if isinstance(event, Rows) and event.table.table.removeprefix("t").isdigit())


def kinds_of_mariadb(table: TableMap) -> TableMap:
    """Adds the types that no table map has, by the names of the columns."""
    types = {"u": "uuid", "in4": "inet4", "in6": "inet6", "ve": "vector"}
    columns = (dataclasses.replace(c, mariadb_type=types.get(c.name or "")) for c in table.columns)
    return dataclasses.replace(table, columns=tuple(columns))


JSON_COLUMNS = ["js", "i32", "js2"]
DOCUMENT = (
    '{"a": [1, 2.50, "é", {"k": 1e100}], "bb": {"x": null, "": "q"}, "é": 1.0, "q\\"x": [[]], '
    f'"pad": "{"p" * 200}"}}'
)
PATHS = [
    "$.a[0]", "$.a[1]", "$.a[3].k", "$.a[9]", "$.bb", "$.bb.x", '$.bb.""', '$."é"', '$."q\\"x"[0]', "$.n", "$.c", '$."a.b"',
]  # fmt: skip


def json_changes(image: str, count: int) -> str:
    """Updates that MySQL logs as diffs of the documents in table t0, with this `binlog_row_image`."""
    changes = random.Random(image)
    lines = [
        f"CREATE DATABASE {DATABASE}; USE {DATABASE}",
        "CREATE TABLE t0 (id INT PRIMARY KEY, js JSON, i32 INT, js2 JSON)",
        f"SET SESSION binlog_row_value_options = PARTIAL_JSON, binlog_row_image = {image}",
    ]
    for i in range(count):
        if i < 4 or changes.random() < 0.1:
            lines.append(f"REPLACE INTO t0 VALUES ({i % 4}, {quoted(DOCUMENT)}, 1, {quoted(DOCUMENT)})")
        changed = ", ".join(_diff(changes, column) for column in changes.choice([["js"], ["js2"], ["js", "js2"]]))
        lines.append(f"UPDATE t0 SET {changed}, i32 = {changes.randrange(9)} WHERE id >= {changes.randrange(3)}")
    return ";\n".join(lines) + ";\n"


def _diff(changes: random.Random, column: str) -> str:
    parts = column
    for _ in range(changes.randint(1, 3)):
        function = changes.choice(["JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
        path = changes.choice(PATHS)
        new = changes.choice(
            ["1", "2.5e0", "TRUE", "NULL", quoted("v\t"), "JSON_ARRAY(1, NULL)", "CAST('2024-01-02' AS DATE)"]
        )
        parts = f"{function}({parts}, {quoted(path)}{'' if function == 'JSON_REMOVE' else f', {new}'})"
    return f"{column} = {parts}"
