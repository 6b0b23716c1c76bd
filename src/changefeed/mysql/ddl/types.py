"""Column types in DDL -> ColumnType.

INTEGER(11) UNSIGNED            int unsigned        display widths are dropped, except that of tinyint(1)
BOOL, BOOLEAN                   tinyint(1)
DEC, NUMERIC, FIXED             decimal(10,0)
FLOAT(p)                        float, double from p = 25
REAL, FLOAT8                    double
YEAR(4)                         year
DATETIME(0)                     datetime
NATIONAL CHAR, NCHAR            char(1)
CHARACTER VARYING(5)            varchar(5)
LONG, LONG VARCHAR              mediumtext          LONG VARBINARY: mediumblob
VARCHAR(5) CHARACTER SET binary varbinary(5)        likewise for every text type
BLOB(100)                       tinyblob            the smallest type for that many bytes
ENUM('a ', _utf8mb4'it''s')     enum('a','it''s')   trailing spaces of members are removed
UUID, INET6, INET4, XMLTYPE     char(36), varchar(39), varchar(15), longtext: MariaDB's types, sent as text
VARCHAR2(5), RAW(5), CLOB       varchar(5), varbinary(5), longtext: MariaDB's sql_mode=ORACLE
NUMBER, NUMBER(5,2)             double, decimal(5,2)
mariadb_schema.DATE             date                oracle_schema.DATE, maxdb_schema.TIMESTAMP: datetime
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from changefeed.errors import UnsupportedError
from changefeed.model.types import GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.mysql.ddl.tokens import Tokens

_INTEGERS = {
    "TINYINT": "tinyint",
    "INT1": "tinyint",
    "SMALLINT": "smallint",
    "INT2": "smallint",
    "MEDIUMINT": "mediumint",
    "INT3": "mediumint",
    "MIDDLEINT": "mediumint",
    "INT": "int",
    "INTEGER": "int",
    "INT4": "int",
    "BIGINT": "bigint",
    "INT8": "bigint",
}
_PLAIN = {
    "DATE": "date",
    "JSON": "json",
    "TINYTEXT": "tinytext",
    "MEDIUMTEXT": "mediumtext",
    "LONGTEXT": "longtext",
    "TINYBLOB": "tinyblob",
    "MEDIUMBLOB": "mediumblob",
    "LONGBLOB": "longblob",
    "XMLTYPE": "longtext",
    "GEOMCOLLECTION": "geometrycollection",
    **{name.upper(): name for name in GEOMETRIES},
}
_BINARY_KIND = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
_VARYING = ("VARYING", "VARCHAR", "VARCHARACTER")
_WIDTHS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20, "float": 12, "double": 22}
_SCHEMAS = frozenset({"MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA"})  # whose sql_mode a type's name belongs to
_OTHER_NAMES = {("ORACLE_SCHEMA", "DATE"): "DATETIME", ("MAXDB_SCHEMA", "TIMESTAMP"): "DATETIME"}
# Text types that do not take the table's character set, but have one of their own.
HAVE_CHARSET = {
    **dict.fromkeys(("UUID", "INET6", "INET4", "XMLTYPE"), "utf8mb4"),
    **dict.fromkeys(("NCHAR", "NVARCHAR", "NATIONAL"), "utf8mb3"),
}


def column_type(tokens: Tokens) -> ColumnType:
    """Takes a column type, without attributes such as UNSIGNED or a character set.

    Raises:
        UnsupportedError: the type is unknown.
    """
    schema = tokens.take().upper if tokens.peek().upper in _SCHEMAS and tokens.peek(1).upper == "." else ""
    tokens.accept(".")
    word = _OTHER_NAMES.get((schema, tokens.peek().upper), tokens.peek().upper)
    if word in _INTEGERS:
        tokens.take()
        return _integer(tokens, _INTEGERS[word])
    if word in _PLAIN:
        tokens.take()
        return ColumnType(_PLAIN[word])
    read = _TYPES.get(word)
    if read is None:
        tokens.fail("expected a column type")
    tokens.take()
    return read(tokens)


def binary(t: ColumnType) -> ColumnType:
    """The binary type for a text type in character set `binary`; any other type unchanged."""
    return replace(t, name=_BINARY_KIND[t.name]) if t.name in TEXTS else t


def zero_padding(t: ColumnType, written: str) -> int:
    """The number of characters to which ZEROFILL pads a value of the type.

    Args:
        t: the type.
        written: its text in the statement, with a display width perhaps.
    """
    if t.name == "decimal":
        return (t.length or 0) + bool(t.scale)
    inside = written.partition("(")[2].partition(")")[0].split(",")
    width = inside[0].strip() if t.name in INTEGERS or len(inside) > 1 else ""
    return int(width) if width.isdigit() and int(width) else _WIDTHS.get(t.name, 0)


def _numbers(tokens: Tokens) -> list[int]:
    """Takes numbers in parentheses, if any."""
    numbers: list[int] = []
    if tokens.accept("("):
        numbers.append(tokens.integer())
        while tokens.accept(","):
            numbers.append(tokens.integer())
        tokens.expect(")")
    return numbers


def _number(tokens: Tokens, most: int) -> int | None:
    numbers = _numbers(tokens)
    if len(numbers) > 1 or (numbers and numbers[0] > most):
        raise UnsupportedError(f"DDL that cannot be read: a type's length is one number up to {most}, found {numbers}")
    return numbers[0] if numbers else None


def _integer(tokens: Tokens, name: str) -> ColumnType:
    width = _number(tokens, 255)
    return ColumnType(name, length=1 if name == "tinyint" and width == 1 else None)


def _decimal(tokens: Tokens) -> ColumnType:
    numbers = [*_numbers(tokens), 0]
    length, scale = numbers[0] or 10, numbers[1] if len(numbers) > 2 else 0
    if len(numbers) > 3 or length > 65 or scale > min(30, length):
        raise UnsupportedError(f"DDL that cannot be read: decimal({length},{scale}) has more digits than MySQL allows")
    return ColumnType("decimal", length=length, scale=scale)


def _float(tokens: Tokens) -> ColumnType:
    numbers = _numbers(tokens)
    if len(numbers) > 1:
        return ColumnType("float", length=numbers[0], scale=numbers[1])
    return ColumnType("double" if numbers and numbers[0] > 24 else "float")


def _double(tokens: Tokens) -> ColumnType:
    tokens.accept("PRECISION")
    numbers = _numbers(tokens)
    return ColumnType("double", length=numbers[0], scale=numbers[1]) if len(numbers) > 1 else ColumnType("double")


def _number_type(tokens: Tokens) -> ColumnType:
    return _decimal(tokens) if tokens.peek().upper == "(" else ColumnType("double")


def _year(tokens: Tokens) -> ColumnType:
    _number(tokens, 4)
    return ColumnType("year")


def _temporal(name: str) -> Callable[[Tokens], ColumnType]:
    return lambda tokens: ColumnType(name, length=_number(tokens, 6) or None)


def _sized(name: str, default: int | None, most: int = 2**32 - 1) -> Callable[[Tokens], ColumnType]:
    def read(tokens: Tokens) -> ColumnType:
        length = _number(tokens, most)
        return ColumnType(name, length=default if length is None else length)

    return read


def _char(tokens: Tokens) -> ColumnType:
    name = "varchar" if tokens.accept_any(*_VARYING) else "char"
    return _sized(name, 1 if name == "char" else None)(tokens)


def _national(tokens: Tokens) -> ColumnType:
    if tokens.accept_any("VARCHAR", "VARCHARACTER"):
        return _sized("varchar", None)(tokens)
    if not tokens.accept_any("CHAR", "CHARACTER"):
        tokens.fail("expected CHAR")
    return _char(tokens)


def _long(tokens: Tokens) -> ColumnType:
    if tokens.accept("VARBINARY"):
        return ColumnType("mediumblob")
    if tokens.accept_any("CHAR", "CHARACTER"):
        tokens.expect("VARYING")
    else:
        tokens.accept_any("VARCHAR", "VARCHARACTER")
    return ColumnType("mediumtext")


def _large(*names: str, width: int) -> Callable[[Tokens], ColumnType]:
    """TEXT and BLOB: with a length, the smallest of four types for that many characters of `width` bytes."""
    limits = dict(zip(names, (2**8, 2**16, 2**24, 2**32), strict=True))

    def read(tokens: Tokens) -> ColumnType:
        size = _number(tokens, 2**32 - 1)
        if size is None:
            return ColumnType(names[1])
        return ColumnType(next((name for name, limit in limits.items() if size * width < limit), names[3]))

    return read


def _listed(name: str) -> Callable[[Tokens], ColumnType]:
    def read(tokens: Tokens) -> ColumnType:
        tokens.expect("(")
        members = [_member(tokens)]
        while tokens.accept(","):
            members.append(_member(tokens))
        tokens.expect(")")
        return ColumnType(name, members=tuple(members))

    return read


def _member(tokens: Tokens) -> str:
    token = tokens.peek(1 if tokens.peek().kind == "word" else 0)
    if tokens.restored and "\\" in token.raw:
        tokens.fail(
            "a member of ENUM or SET with a backslash: TiDB does not escape it when it restores the statement, so the "
            "members are ambiguous",
            token,
        )
    return tokens.literal().rstrip(" ")


_TYPES: dict[str, Callable[[Tokens], ColumnType]] = {
    "BOOL": lambda _: ColumnType("tinyint", length=1),
    "BOOLEAN": lambda _: ColumnType("tinyint", length=1),
    "SERIAL": lambda _: ColumnType("bigint", unsigned=True),
    "UUID": lambda _: ColumnType("char", length=36),
    "INET6": lambda _: ColumnType("varchar", length=39),
    "INET4": lambda _: ColumnType("varchar", length=15),
    "BIT": _sized("bit", 1, 64),
    "DECIMAL": _decimal,
    "DEC": _decimal,
    "NUMERIC": _decimal,
    "FIXED": _decimal,
    "FLOAT": _float,
    "FLOAT4": _float,
    "FLOAT8": _double,
    "DOUBLE": _double,
    "REAL": _double,
    "YEAR": _year,
    "TIME": _temporal("time"),
    "DATETIME": _temporal("datetime"),
    "TIMESTAMP": _temporal("timestamp"),
    "CHAR": _char,
    "CHARACTER": _char,
    "NCHAR": _char,
    "NATIONAL": _national,
    "VARCHAR": _sized("varchar", None),
    "VARCHARACTER": _sized("varchar", None),
    "NVARCHAR": _sized("varchar", None),
    "BINARY": _sized("binary", 1),
    "VARBINARY": _sized("varbinary", None),
    "VARCHAR2": _sized("varchar", None),
    "RAW": _sized("varbinary", None),
    "CLOB": _sized("longtext", None),
    "NUMBER": _number_type,
    "LONG": _long,
    "TEXT": _large("tinytext", "text", "mediumtext", "longtext", width=4),
    "BLOB": _large("tinyblob", "blob", "mediumblob", "longblob", width=1),
    "ENUM": _listed("enum"),
    "SET": _listed("set"),
    "VECTOR": _sized("vector", None),
}
