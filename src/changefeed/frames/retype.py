"""The values of a column after MODIFY: as a Spark SQL expression, where Spark can compute what the upstream did.

An upstream that checks (MySQL's strict mode, TiDB's default) refuses an ALTER under which a value would not fit, but it
rounds, pads and strips values without an error, and sends no row event for that. Whatever cannot be followed exactly has no
expression here: the pipeline then reports it instead of guessing.

    followed                                                  not followed
    integers to integers, decimals, floats, texts             to year: 70 becomes 1970
    decimals to decimals and integers, halves away from zero  floats to anything exact; anything to float(m,d)
    texts among each other; to char without trailing spaces   texts to numbers, dates, enum, set, json, binary
    binaries among each other; to binary(n) padded            binaries to texts: the bytes are in the column's charset
    enum and set whose members stay; either to text           members in another case; a set's members in another order
    date to datetime, more fraction digits                    fewer of them; between datetime and timestamp: a zone
"""

from __future__ import annotations

from changefeed.frames.reshape import family
from changefeed.frames.types import SPARK_DIGITS, sink_type
from changefeed.model.types import INTEGERS, ColumnType


def retyped(sql: str, old: ColumnType, new: ColumnType) -> str | None:
    """The values of expression `sql`, of type `old`, as the sink keeps them under `new`; None where not known."""
    if old == new:
        return sql
    kinds = family(old), family(new)
    if kinds[0] == "null":
        return _cast(sql, new)
    match kinds:
        case ("integer", "integer"):
            return None if new.name in ("year", "boolean") else _cast(sql, new)
        case ("integer", "text"):
            return _cast(sql, new) if old.name in INTEGERS else None
        case ("integer" | "decimal", "decimal"):
            return _decimal(sql, old, new)
        case ("integer" | "decimal" | "real", "real"):
            return None if new.scale is not None or not _exact(old) else _cast(sql, new)
        case ("decimal", "integer"):
            return _cast(f"round({sql})", new) if _exact(old) and new.name not in ("year", "boolean") else None
        case ("text", "text"):
            return _text(sql, old, new)
        case ("enum members" | "set members", "text"):
            return sql if new.name != "json" else None
        case ("binary", "binary"):
            return f"rpad({sql}, {new.length or 1}, X'00')" if new.name == "binary" else sql
        case ("enum members", "enum members") | ("set members", "set members"):
            return sql if _stay(old, new) else None
        case ("date", "datetime"):
            return _cast(sql, new)
        case ("datetime", "datetime") | ("timestamp", "timestamp"):
            return sql if (new.length or 0) >= (old.length or 0) else None
        case ("time", "time"):
            return _padded(sql, old.length or 0, new.length or 0)
        case ("geometry", "geometry"):
            return sql if new.name == "geometry" else None
    return None


def _cast(sql: str, new: ColumnType) -> str:
    return f"CAST({sql} AS {sink_type(new).sql})"


def _exact(t: ColumnType) -> bool:
    """Whether the sink keeps numbers of the type as numbers."""
    return t.name != "decimal" or (t.length is not None and t.length <= SPARK_DIGITS)


def _decimal(sql: str, old: ColumnType, new: ColumnType) -> str | None:
    """To a decimal; Spark's CAST rounds halves away from zero, as MySQL does."""
    if new.length is None:
        return None
    if new.length <= SPARK_DIGITS:
        return _cast(sql, new)
    scale = new.scale or 0
    if not _exact(old):  # text to text
        return None if old.length is None else _padded(sql, old.scale or 0, scale)
    whole = 20 if old.length is None else old.length - (old.scale or 0)
    if whole + scale > SPARK_DIGITS or scale < (old.scale or 0):
        return None
    return f"CAST(CAST({sql} AS decimal({SPARK_DIGITS},{scale})) AS string)"


def _padded(sql: str, digits: int, wanted: int) -> str | None:
    """A text with `digits` after the point, with `wanted` of them."""
    if wanted < digits:
        return None
    zeros = "0" * (wanted - digits)
    return f"concat({sql}, '{'' if digits else '.'}{zeros}')" if zeros else sql


def _text(sql: str, old: ColumnType, new: ColumnType) -> str | None:
    if new.name == "json":
        return None
    return f"rtrim({sql})" if new.name == "char" and old.name != "char" else sql


def _stay(old: ColumnType, new: ColumnType) -> bool:
    """Whether values in use are spelled alike: members that went away had no rows, unless they only changed case."""
    before, after = old.members or (), new.members or ()
    lower = {m.lower() for m in after}
    if any(m not in after and m.lower() in lower for m in before):
        return False
    common = [m for m in before if m in after]
    return old.name == "enum" or common == [m for m in after if m in before]
