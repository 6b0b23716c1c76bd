"""Definitions of columns, as statements have them: types of all kinds, defaults in all forms, generated columns, comments."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.live.schema import ServerColumn, ServerTable, quoted
from tests.live.values import plain

_INTEGERS = ["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT"]
_TEXTS = ["TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"]
_BLOBS = ["TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"]
_MEMBERS = ["'a','b'", "'a','b','c'", "'b','a'", "'x','y','a'", "'O''Hara','it, is','a'", "'A','b c'", "'é','ü'"]
_DEFAULTED = frozenset(
    {"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json"}
)
FAMILIES = {
    "integer": 8, "decimal": 3, "real": 2, "text": 7, "long text": 2, "binary": 2, "blob": 1, "bit": 1, "date": 2, "datetime": 3,
    "timestamp": 2, "time": 2, "year": 1, "enum": 2, "set": 1, "json": 1, "geometry": 0.3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of the statements of a history.

    Attributes:
        mariadb: the server is MariaDB; else MySQL 8.
        mixed_case: names are written in any case (`lower_case_table_names=1`).
    """

    mariadb: bool
    mixed_case: bool = False


@dataclass(frozen=True, slots=True)
class Type:
    """A type as a statement has it, and the column that literals are drawn for."""

    text: str
    column: ServerColumn


def draw_type(random: Random, family: str | None = None) -> Type:
    """A type, of a family or of any."""
    family = family or random.choices(list(FAMILIES), list(FAMILIES.values()))[0]
    text = _type_text(random, family)
    charset = "utf8mb4"
    if family in ("text", "long text") and random.random() < 0.12:
        charset = random.choice(["latin1", "ascii", "utf8mb4", "utf8mb3"])
        text += f" CHARACTER SET {charset}"
    lower = text.lower().replace("integer", "int").replace("numeric", "decimal")
    kind = lower.partition(" character")[0]
    return Type(
        text, ServerColumn("", kind, False, charset if family in ("text", "long text") else "", "", False, False)
    )


def _type_text(random: Random, family: str) -> str:
    match family:
        case "integer":
            sign = random.choices(["", " UNSIGNED", " UNSIGNED ZEROFILL"], [8, 2, 0.3])[0]
            return random.choice(_INTEGERS) + ("(6)" if random.random() < 0.05 else "") + sign
        case "decimal":
            digits, scale = random.choice(
                [(10, 2), (5, 0), (10, 0), (12, 4), (4, 3), (30, 10), (38, 8), (50, 3), (65, 30)]
            )
            return f"{random.choice(['DECIMAL', 'NUMERIC'])}({digits},{scale})" + random.choice(
                ["", "", "", " UNSIGNED"]
            )
        case "real":
            return random.choice(["FLOAT", "DOUBLE", "DOUBLE", "FLOAT(7,3)", "DOUBLE(10,2)"])
        case "text":
            return (
                random.choice(["VARCHAR", "VARCHAR", "VARCHAR", "CHAR"]) + f"({random.choice([2, 5, 10, 20, 40, 200])})"
            )
        case "long text":
            return random.choice(_TEXTS)
        case "binary":
            return random.choice(["BINARY", "VARBINARY", "VARBINARY"]) + f"({random.choice([1, 4, 8, 30])})"
        case "blob":
            return random.choice(_BLOBS)
        case "bit":
            return f"BIT({random.choice([1, 4, 8, 20, 64])})"
        case "datetime" | "timestamp" | "time":
            return family.upper() + random.choice(["", "", "(3)", "(6)", "(1)"])
        case "enum" | "set":
            return f"{family.upper()}({random.choice(_MEMBERS)})"
        case "geometry":
            return "POINT"
    return family.upper()


def definition(
    random: Random, dialect: Dialect, kind: Type, others: list[ServerColumn], *, required: bool = False
) -> str:
    """The definition behind a column's name in a statement.

    Args:
        others: columns of the table, which an expression may name.
        required: the column is in a primary key.
    """
    if others and not required and random.random() < 0.06:
        return _generated(random, kind, others)
    parts = [kind.text]
    null = "NOT NULL" if required or random.random() < 0.35 else random.choice(["", "", "NULL"])
    if kind.column.kind == "timestamp" and not null:
        null = "NULL"  # what is meant without it depends on a setting
    parts.append(null)
    if not required and random.random() < 0.35:
        parts.append(default(random, dialect, kind))
    if random.random() < 0.06:
        comment = random.choice(["COMMENT 'a, b; -- c'", "COMMENT 'it''s'", "/* DROP COLUMN b */", 'COMMENT "x"'])
        if kind.text != "POINT":  # the engine dies of it: "doc has already been set"
            parts.append(comment)
    if random.random() < 0.03:
        parts.append("INVISIBLE" if "DEFAULT" in " ".join(parts) else "")
    return " ".join(part for part in parts if part)


def default(random: Random, dialect: Dialect, kind: Type) -> str:
    """A DEFAULT clause."""
    column = kind.column
    if column.kind in ("datetime", "timestamp") and random.random() < 0.3:
        digits = f"({column.numbers[0]})" if column.numbers else ""
        return f"DEFAULT CURRENT_TIMESTAMP{digits}" + random.choice(["", f" ON UPDATE CURRENT_TIMESTAMP{digits}"])
    value = plain(random, column).replace("X''", "''")  # which the engine cannot parse
    if column.kind in _DEFAULTED and not dialect.mariadb:
        return f"DEFAULT ({value})"  # MySQL takes no literal
    if column.kind in ("point",):
        return ""
    if random.random() < 0.12:
        return f"DEFAULT ({value})"
    if column.kind in ("int", "bigint", "decimal") and random.random() < 0.1:
        return random.choice(["DEFAULT (1 + 1)", "DEFAULT -1", "DEFAULT '7'", "DEFAULT 2.5", "DEFAULT +3"])
    return f"DEFAULT {value}"


def _generated(random: Random, kind: Type, others: list[ServerColumn]) -> str:
    base = quoted(random.choice(others).name)
    expression = random.choice([f"CONCAT({base}, 'x')", f"{base} + 1", f"IFNULL({base}, 0)", f"LENGTH({base})"])
    type_text = "VARCHAR(250)" if expression.startswith("CONCAT") else random.choice(["INT", "BIGINT", kind.text])
    return f"{type_text} {random.choice(['AS', 'GENERATED ALWAYS AS'])} ({expression}) {random.choice(['VIRTUAL', 'STORED'])}"


def changed(random: Random, column: ServerColumn) -> Type:
    """Another type for a column: often of the same family, so that the values fit."""
    if random.random() < 0.25:
        return draw_type(random)
    kinds = {
        "integer": ("tinyint", "smallint", "mediumint", "int", "bigint"),
        "decimal": ("decimal",),
        "real": ("float", "double"),
        "text": ("char", "varchar"),
        "long text": ("tinytext", "text", "mediumtext", "longtext"),
        "binary": ("binary", "varbinary"),
        "blob": ("tinyblob", "blob", "mediumblob", "longblob"),
    }
    family = next((name for name, names in kinds.items() if column.kind in names), column.kind)
    near = {
        "integer": ["integer", "integer", "integer", "decimal", "real", "text"],
        "decimal": ["decimal", "decimal", "integer", "text", "real"],
        "real": ["real", "decimal", "text"],
        "text": ["text", "text", "text", "long text", "blob", "binary"],
        "long text": ["long text", "text"],
        "binary": ["binary", "blob"],
        "blob": ["blob", "binary"],
        "date": ["datetime", "text", "timestamp"],
        "datetime": ["datetime", "datetime", "date", "text", "timestamp", "time"],
        "timestamp": ["timestamp", "datetime", "text"],
        "time": ["time", "time", "text", "datetime"],
        "year": ["integer", "text"],
        "enum": ["enum", "enum", "text", "set"],
        "set": ["set", "set", "text"],
        "bit": ["bit", "integer", "text"],
        "json": ["long text", "text", "json"],
    }
    return draw_type(random, random.choice(near.get(family, [family if family in FAMILIES else "text"])))


def keyable(column: ServerColumn) -> bool:
    """Whether a whole column can be in a key."""
    long = column.kind in _DEFAULTED or column.kind in ("point", "geometry")
    return not long and column.generated == "" and not (column.numbers[:1] > (100,) and column.kind != "decimal")


def place(random: Random, table: ServerTable, new: list[str]) -> str:
    """FIRST, AFTER a column or a new one, or nothing."""
    chance = random.random()
    if chance < 0.55:
        return ""
    if chance < 0.68:
        return " FIRST"
    return f" AFTER {quoted(random.choice([column.name for column in table.columns] + new))}"
