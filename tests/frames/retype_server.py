"""Changes types of columns on a server, and records what becomes of their values.

    python -m tests.frames.retype_server mariadb        writes tests/data/retype/mariadb.jsonl.gz; likewise mysql

Every type of `VALUES` is changed to each of them and to each of `MORE`, in tables of MyISAM, without strict mode. A pair that the
server refuses is left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Sequence

from changefeed.model.types import BINARIES, TEXTS, ColumnType
from tests.frames.retyping import FOLDER
from tests.services.database import Database, MariaDb, MySql

RECORDED_AT = 1_767_225_600  # seconds since 1970: when the statements begin
_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_REALS = [
    "1.5e0", "-1.5e0", "2.5e0", "0.1e0", "3.4e38", "-3.4e38", "16777216e0", "1e-10", "123456.789e0", "255.5e0", "0.5e0",
    "1e10", "1e14", "1e15", "1e16", "1e18", "1e19", "1e20", "-0.5e0", "127.4e0", "0e0", "2024e0", "1e5", "1e6",
]  # fmt: skip
_DOUBLES = [
    *_REALS, "1.7e308", "-1.7e308", "9007199254740993e0", "3.5e38", "1e-300", "2.675e0", "1.005e0", "1e22", "0.001e0",
    "1e-4", "1e-5", "1e-14", "1e-15", "123456789012345678e0", "1.45e0", "-9.3e18",
]  # fmt: skip
_TEXTS = [
    "''", "'a'", "'abc  '", "'naïve 北京 🐟'", "'12'", "'-12.7'", "'12abc'", "'2026-01-02'", "'b,a'", "'A'", "' 7'",
    "'1e3'", "'[1, 2]'",
]  # fmt: skip
_BYTES = [
    "''",
    "X'00'",
    "X'61'",
    "X'616200'",
    "X'FF'",
    "X'C3A9'",
    "X'61C3'",
    "X'313233'",
    "X'6162636465666768'",
    "X'F09F909F'",
]
_JSON = ['\'{"a": 1, "bb": [1, 2]}\'', "'[]'", "'\"x\"'", "'null'", "'1'", "'true'", "'{}'"]


def _moments(digits: int) -> list[str]:
    last, half, less = (f".{text[:digits]}" if digits else "" for text in ("999999", "500000", "499500"))
    return [
        "'0000-00-00'", f"'2026-01-02 03:04:05{half}'", f"'9999-12-31 23:59:59{last}'", f"'2026-12-31 23:59:59{last}'",
        f"'1970-01-01 00:00:01{less}'", "'2026-01-02'", f"'1000-01-01 00:00:00{half}'", f"'2026-02-28 23:59:59{less}'",
        f"'1969-12-31 23:59:59{half}'", f"'2038-01-19 03:14:07{last}'",
    ]  # fmt: skip


def _times(digits: int) -> list[str]:
    last, half, less = (f".{text[:digits]}" if digits else "" for text in ("999999", "500000", "499500"))
    return [
        "'00:00:00'", "'838:59:59'", "'-838:59:59'", f"'23:59:59{last}'", f"'-01:02:03{half}'", f"'12:34:56{less}'",
        f"'100:59:59{last}'", f"'-00:00:00{half}'", f"'838:59:58{last}'", f"'-838:59:58{last}'",
    ]  # fmt: skip


# type -> values in SQL
VALUES: dict[str, list[str]] = {
    **{
        name: [str(n) for n in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1, 7, 69, 70, 99, 100, 120)]
        for name, bits in _INTEGERS.items()
    },
    **{f"{name} unsigned": [str(n) for n in (2**bits - 1, 0, 1, 69, 70, 200)] for name, bits in _INTEGERS.items()},
    "bit(1)": ["0", "1"],
    "bit(8)": ["0", "65", "255", "97"],
    "bit(20)": ["0", str(2**20 - 1), "65", "2021"],
    "bit(64)": ["0", str(2**64 - 1), str(2**63), "65", "2021"],
    "year": ["0", "1901", "1970", "2155", "2026"],
    "decimal(5,2)": ["-999.99", "999.99", "0", "0.005", "-0.5", "0.5", "1.5", "2.5", "-2.5", "12.34", "1.995", "-0.004", "-1.01"],
    "decimal(10,0)": ["9999999999", "-9999999999", "0", "5", "20240131", "127", "-129"],
    "decimal(20,10)": ["1234567890.0123456789", "-0.0000000001", "0.5", "1.05", "-1.15", "255.5", "-9999999999.9999999999"],
    "decimal(38,10)": [
        "-1234567890123456789012345678.0123456789", "9999999999999999999999999999.9999999999", "18446744073709551615.5", "0.1",
        "-9223372036854775808.5", "9223372036854775807.4999999999",
    ],
    "decimal(65,30)": [
        "9" * 35 + "." + "9" * 30, "-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1", "1.5", "-0." + "0" * 29 + "1",
        "123456789.987654321", "2147483647.5",
    ],
    "float": _REALS,
    "double": _DOUBLES,
    "float(7,3)": ["1.5e0", "-9999.999", "0.1", "3.14159", "123.456"],
    "double(10,2)": ["1.5", "99999999.99", "-0.1", "3.14159", "2.675"],
    "date": ["'0000-00-00'", "'2026-01-02'", "'9999-12-31'", "'1000-01-01'", "'1901-05-06'", "'2069-12-31'"],
    **{f"datetime({digits})": _moments(digits) for digits in (0, 3, 6)},
    **{f"timestamp({digits})": _moments(digits) for digits in (0, 3, 6)},
    **{f"time({digits})": _times(digits) for digits in (0, 3, 6)},
    "char(30)": _TEXTS,
    "varchar(30)": _TEXTS,
    "text": _TEXTS,
    "varchar(3)": ["''", "'a'", "'ab '", "'北京🐟'", "'12'"],
    "binary(8)": _BYTES,
    "varbinary(8)": _BYTES,
    "blob": _BYTES,
    "enum('a','b','bb','x y','12')": ["'a'", "'b'", "'bb'", "'x y'", "'12'", "0"],
    "enum('1','2','3')": ["'1'", "'2'", "'3'", "0"],
    "set('a','b','12','c d')": ["'a'", "'b'", "'a,b'", "''", "'12'", "'a,c d'", "'a,b,12,c d'"],
    "set('1','x')": ["'1'", "'x'", "'1,x'", "''"],
    "json": _JSON,
}  # fmt: skip
MORE = [
    "float(5,1)", "double(6,1)", "float(20,2)", "double(30,1)", "decimal(3,1)", "decimal(5,5)", "decimal(40,3)", "decimal(38,0)",
    "decimal(65,0)", "decimal(2,0)", "char(2)", "char(1)", "varchar(1)", "varchar(2)", "varchar(100)", "char(100)", "tinytext",
    "mediumtext", "longtext", "binary(2)", "binary(12)", "varbinary(2)", "varbinary(30)", "tinyblob", "mediumblob",
    "longblob", "enum('b','a')", "enum('bb')", "enum('1','3')", "enum('x','y')", "set('b','a')", "set('a')", "set('y','x')",
    "bit(4)", "bit(16)", "bit(63)", "time(1)", "datetime(1)", "timestamp(1)", "decimal(5,2) unsigned", "decimal(65,30) unsigned",
    "float unsigned", "double unsigned", "float(7,3) unsigned", "double(10,2) unsigned",
]  # fmt: skip


def changed(
    database: Database, old: str, news: Sequence[str], values: Sequence[str], schema: str = "x", zone: str = "+00:00"
) -> Iterator[tuple[str, list[list[str | None]]]]:
    """Changes a column of type `old` to each of `news`; yields the new type, and the texts before and after, row by row.

    `zone` is the session's time zone during the change; texts are those of UTC.
    """
    rows = database.selected(_sql(old, news, values, zone), schema)
    texts: dict[tuple[str, int], dict[int, str]] = {}
    for when, place, row, value in rows:
        texts.setdefault((when, int(place)), {})[int(row)] = value
    for number, new in enumerate(news):
        if ("after", number) in texts:
            after = texts["after", number]
            before = texts["before", number].items()
            yield new, [[_text(old, value), _text(new, after[row])] for row, value in before]


def _sql(old: str, news: Sequence[str], values: Sequence[str], zone: str) -> str:
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
    statements = [f"SET sql_mode = '', time_zone = '+00:00', timestamp = {RECORDED_AT}"]
    for number, new in enumerate(news):
        statements += [
            "DROP TABLE IF EXISTS t, u",
            f"CREATE TABLE t (id INT PRIMARY KEY, c {_declared(old)}) ENGINE = MyISAM",
            f"INSERT IGNORE INTO t VALUES {rows}",
            f"SELECT 'before', {number}, id, {_shown(old)} FROM t",
            f"SET time_zone = '{zone}'",
            f"ALTER TABLE t MODIFY c {_declared(new)} COMMENT 'changed', RENAME TO u",
            "SET time_zone = '+00:00'",
            f"SELECT 'after', {number}, id, {_shown(new)} FROM u",
        ]
    return ";\n".join(statements) + ";\n"


def _declared(name: str) -> str:
    return f"{name} NULL"


def _shown(name: str) -> str:
    t = ColumnType.parse(name)
    if t.name == "bit" or (t.name in ("float", "double") and t.scale is None):
        return "c + 0" if t.name == "bit" else "c + 0e0"
    if t.name in BINARIES:
        return "HEX(c)"
    return "HEX(CONVERT(c USING utf8mb4))" if t.name in TEXTS or t.name in ("enum", "set", "json") else "c"


def _text(name: str, value: str) -> str | None:
    t = ColumnType.parse(name)
    if value == "NULL":
        return None
    is_text = t.name in TEXTS or t.name in ("enum", "set", "json")
    return bytes.fromhex(value).decode() if is_text else value


def all_changes(database: Database) -> Iterator[tuple[str, str, list[list[str | None]]]]:
    """Changes every type to every other; yields old type, new type, and the texts before and after."""
    database.execute("CREATE DATABASE x CHARACTER SET utf8mb4")
    for old, values in VALUES.items():
        for new, rows in changed(database, old, [*VALUES, *MORE], values):
            yield old, new, rows


def record(server: str) -> None:
    """Records what a server does."""
    made: Iterable[tuple[str, str, list[list[str | None]]]]
    with MariaDb() if server == "mariadb" else MySql() as database:
        made = list(all_changes(database))
    FOLDER.mkdir(exist_ok=True)
    with gzip.GzipFile(FOLDER / f"{server}.jsonl.gz", "wb", mtime=0) as out:
        for change in made:
            out.write(json.dumps(change, ensure_ascii=False).encode() + b"\n")


if __name__ == "__main__":
    record(sys.argv[1])
