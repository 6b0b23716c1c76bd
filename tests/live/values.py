"""Literals for the columns of a table, drawn by their types: ordinary values, extreme ones, NULL, and some that do not fit."""

from __future__ import annotations

from random import Random

from tests.live.schema import ServerColumn

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_LENGTHS = {"tinytext": 255, "text": 500, "mediumtext": 500, "longtext": 500}
_WORDS = [
    "", "a", "b", "Ab", "abc", "x y", "x ", " x", "O''Hara", "1", "12", "-7", "3.5", "1e3", "2024-02-29", "10:20:30", "{}",
    "NULL", "null", "a,b", "back\\\\slash", "%", "tab\\t", "line\\nfeed", "lang" * 5, "orange", "0", "true",
]  # fmt: skip
_LATIN = ["é", "ÜBER", "ß"]
_WIDE = ["北京", "🐟", "Ж", "e\u0301"]
_DATES = ["2024-02-29", "1970-01-01", "1999-12-31", "2038-01-19", "2000-01-01", "1969-12-31"]
_EARLY_DATES = ["1000-01-01", "9999-12-31", "1582-10-15", "1900-03-01", "0001-01-01"]
_TIMES = ["00:00:00", "12:34:56", "23:59:59", "01:02:03"]
_JSON = [
    '{"a": 1, "bb": [1, 2]}',
    "[]",
    '"x"',
    "null",
    "1.50",
    "{}",
    '{"b": {"c": "ü"}, "a": true}',
    "12345678901234567890",
    "[1e2]",
]


def literal(random: Random, column: ServerColumn, *, wild: bool = False) -> str:
    """A literal for a column.

    Args:
        wild: also values that do not fit the column; the server refuses them in strict mode and changes them otherwise.
    """
    if column.nullable and random.random() < 0.15:
        return "NULL"
    if wild and random.random() < 0.25:
        return random.choice(
            ["999999999999", "-5", "'zz'", "'long text that does not fit'", "12.987654321", "'2024-13-45'", "''"]
        )
    return plain(random, column)


def plain(random: Random, column: ServerColumn) -> str:
    """A literal that fits the column, and is not NULL."""
    kind = column.kind
    if kind in _BITS:
        return _integer(random, _BITS[kind], column.unsigned)
    if kind in ("char", "varchar", *_LENGTHS):
        return "'" + _text(random, column) + "'"
    if kind in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
        size = column.numbers[0] if column.numbers else 60
        data = random.choice([b"", b"\x00", b"a", b"\xff\x00\x7f", b"abc ", b"\x80", b"text"])[:size]
        return f"X'{data.hex()}'"
    match kind:
        case "decimal":
            return _decimal(random, column)
        case "float" | "double":
            number = random.choice(["0", "0.5", "2.25", "3.14159", "100", "0.1", "12345.678"])
            fits = len(column.numbers) < 2 or column.numbers[0] - column.numbers[1] > 4
            number = number if fits else "1.5"
            return number if column.unsigned else random.choice(["", "-"]) + number
        case "bit":
            return f"b'{random.getrandbits(column.numbers[0]) if random.random() < 0.7 else 1:b}'"
        case "year":
            return random.choice(["1970", "2024", "1901", "2155"])
        case "date":
            return f"'{_date(random)}'"
        case "datetime":
            return f"'{_date(random)} {_clock(random, column)}'"
        case "timestamp":
            return f"'{random.choice(_DATES[:5]).replace('1970', '1971').replace('2038', '2037')} {_clock(random, column)}'"
        case "time":
            return random.choice(["'", "'-"]) + random.choice([_clock(random, column), "838:59:59", "100:00:01"]) + "'"
        case "enum":
            return "'" + _escaped(random.choice(column.members)) + "'"
        case "set":
            members = [member for member in column.members if random.random() < 0.5]
            return "'" + ",".join(map(_escaped, members)) + "'"
        case "json":
            return "'" + random.choice(_JSON) + "'"
        case "point" | "geometry":
            return f"ST_GeomFromText('POINT({random.randint(-9, 9)} {random.randint(-9, 9)})')"
    raise ValueError(f"no literal for {column.type}")


def _integer(random: Random, bits: int, unsigned: bool) -> str:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    extreme = random.random() < 0.12
    return str(random.choice([low, high, high - 1]) if extreme else random.randint(max(low, -3), 60))


def _decimal(random: Random, column: ServerColumn) -> str:
    digits, scale = (*column.numbers, 0, 0)[:2] if column.numbers else (10, 0)
    whole = digits - scale
    sizes = random.choice([(whole, scale), (min(whole, 2), scale), (min(whole, 3), min(scale, 1))])
    number = "".join(random.choice("0123456789") for _ in range(sizes[0])) or "0"
    number += "." + "".join(random.choice("0123456789") for _ in range(sizes[1])) if sizes[1] else ""
    return number if column.unsigned or random.random() < 0.6 else "-" + number


def _text(random: Random, column: ServerColumn) -> str:
    words = list(_WORDS)
    if column.charset in ("latin1", "utf8mb3", "utf8mb4", "utf8"):
        words += _LATIN
    if column.charset == "utf8mb4":
        words += _WIDE
    size = column.numbers[0] if column.numbers else _LENGTHS.get(column.kind, 1)
    fitting = [word for word in words if len(word.replace("''", "'")) <= size]
    return random.choice(fitting)


def _escaped(member: str) -> str:
    return member.replace("\\", "\\\\").replace("'", "''")


def _date(random: Random) -> str:
    return random.choice(_EARLY_DATES if random.random() < 0.15 else _DATES)


def _clock(random: Random, column: ServerColumn) -> str:
    digits = column.numbers[0] if column.numbers else 0
    clock = random.choice(_TIMES)
    return (
        clock
        if not digits or random.random() < 0.3
        else clock + "." + str(random.randint(0, 10**digits - 1)).zfill(digits)
    )
