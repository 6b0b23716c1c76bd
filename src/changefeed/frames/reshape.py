"""A column from one MySQL type to another, in the core's Arrow types, whole columns at a time.

A value that the new type cannot hold exactly is NULL in the result, and its text is returned under its row. Exactly
means with the same canonical meaning: `1.50` fits decimal(10,1), `1.55` does not; a datetime(6) fits datetime(3) when
its last three digits are zero; index 2 of an enum fits two members, index 3 does not.

    from           to                       how
    integers       integers                 range check, cast
    integers       decimal, float, double   exact ones only
    decimal, text  integers, decimal        by the digits of their text
    double         float                    when the shortest text stays the same
    date           datetime                 midnight
    datetime(p)    datetime(q)              what is finer than q digits must be zero; so timestamps and times
    enum, set      enum(…), set(…)          index and bits to members
    text           enum(…), set(…)          members only
    text           binary and back          UTF-8
    anything       text                     canonical text
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.table import canonical
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import reader, writer

Reshaped = tuple[pa.Array, dict[int, str]]
_EXACT = {"float": 2**24, "double": 2**53}


def reshape(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """The column in `target.arrow`, and row -> text of what that type cannot hold.

    Raises:
        SchemaError: no value of `source` means anything in `target`.
    """
    if source == target:
        return array, {}
    families = family(source), family(target)
    if families[0] == "null":
        return pa.nulls(len(array), target.arrow), {}
    route = _ROUTES.get(families)
    if route is None and families[1] == "text":
        route = _to_text
    if route is None and families[0] == families[1]:
        route = _unchanged
    if route is None:
        raise SchemaError(f"a column of type {target} cannot take values of type {source}")
    return route(array, source, target)


def plain_text(array: pa.Array) -> pa.Array:
    """The text of decimals or floats without exponents."""
    text = array.cast(pa.string())
    exponent = pc.match_substring(text, "e", ignore_case=True)
    if not pc.any(exponent).as_py():
        return text
    return pa.array([v if v is None else _plain(v) for v in text.to_pylist()], pa.string())


def _plain(text: str) -> str:
    return format(Decimal(text), "f") if "e" in text.lower() else text


def family(t: ColumnType) -> str:
    """The kind of type, by which conversions are chosen."""
    if t.name in INTEGERS or t.name in ("bit", "year", "boolean"):
        return "integer"
    if t.name in TEXTS or t.name == "json":
        return "text"
    if t.name in BINARIES:
        return "binary"
    if t.name in GEOMETRIES:
        return "geometry"
    if t.name in ("enum", "set") and t.members is not None:
        return f"{t.name} members"
    return {"float": "real", "double": "real"}.get(t.name, t.name)


def _blank(array: pa.Array, bad: pa.Array) -> Reshaped:
    """The array with the bad rows NULL, and their texts."""
    bad = pc.fill_null(bad, False)
    if not pc.any(bad).as_py():
        return array, {}
    rows = pc.indices_nonzero(bad)
    values = array.take(rows).to_pylist()
    kept = pc.if_else(bad, pa.scalar(None, array.type), array)
    return kept, {row: _shown(value) for row, value in zip(rows.to_pylist(), values, strict=True)}


def _shown(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _unchanged(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    return array, {}


# Integers.


def _range(t: ColumnType) -> tuple[int, int]:
    if t.name == "boolean":
        return 0, 1
    if t.name == "year":
        return 0, 2155
    if t.name == "bit":
        return 0, 2 ** (t.length or 64) - 1
    bits = 24 if t.name == "mediumint" else INTEGERS[t.name]
    return (0, 2**bits - 1) if t.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _outside(array: pa.Array, low: int, high: int) -> pa.Array | None:
    """Which rows are below `low` or above `high`; None when the array's type rules it out."""
    kind = array.type
    signed = pa.types.is_signed_integer(kind)
    least, most = (
        (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
    )
    below = pc.less(array, pa.scalar(low, kind)) if low > least else None
    above = pc.greater(array, pa.scalar(high, kind)) if high < most else None
    if below is None or above is None:
        return above if below is None else below
    return pc.or_(below, above)


def _integers(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    if source.name == "boolean":
        array = array.cast(pa.int8())
    irregular: dict[int, str] = {}
    outside = _outside(array, *_range(target))
    if outside is not None:
        array, irregular = _blank(array, outside)
    return array.cast(target.arrow), irregular


def _integer_to_real(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    if source.name == "boolean":
        array = array.cast(pa.int8())
    limit = _EXACT[target.name]
    irregular: dict[int, str] = {}
    outside = _outside(array, -limit, limit) if array.type.bit_width > 32 or target.name == "float" else None
    if outside is not None:
        array, irregular = _blank(array, outside)
    return array.cast(target.arrow, safe=False), irregular


def _integer_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    if source.name == "boolean":
        array = array.cast(pa.int8())
    return _text_to_decimal(array.cast(pa.string()), source, target)


# Decimals, and numbers by their text.


def _text_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    if target.length is None:
        return _blank(array, pc.invert(pc.match_substring_regex(array, r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$")))
    whole, scale = target.length - (target.scale or 0), target.scale or 0
    fits = pc.match_substring_regex(array, rf"^-?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{scale}}}0*)?$")
    digits = pc.match_substring_regex(array, r"[0-9]")
    array, irregular = _blank(array, pc.invert(pc.and_(fits, digits)))
    return _trimmed(array, scale).cast(target.arrow), irregular


def _trimmed(array: pa.Array, scale: int) -> pa.Array:
    """Decimal texts without the zeros behind their last place: Arrow refuses to drop even those."""
    if not pc.any(pc.match_substring_regex(array, rf"\.[0-9]{{{scale}}}0")).as_py():
        return array
    return pc.replace_substring_regex(array, rf"(\.[0-9]{{{scale}}})0+$", r"\1")


def _decimal_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    if source.length is None:
        return _text_to_decimal(array, source, target)
    if target.length is None:
        return plain_text(array), {}
    scale = (target.scale or 0) - (source.scale or 0)
    if scale >= 0 and target.length - source.length >= scale:
        return array.cast(target.arrow), {}
    return _text_to_decimal(plain_text(array), source, target)


def _text_to_integer(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    wide, irregular = _text_to_decimal(array, source, ColumnType("decimal", length=20, scale=0))
    low, high = (pa.scalar(Decimal(n), wide.type) for n in _range(target))
    kept, outside = _blank(wide, pc.or_(pc.less(wide, low), pc.greater(wide, high)))
    arrow = pa.int8() if target.name == "boolean" else target.arrow
    return kept.cast(arrow).cast(target.arrow), irregular | outside


def _decimal_to_integer(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    return _text_to_integer(plain_text(array), source, target)


def _real_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    return _text_to_decimal(plain_text(array), source, target)


def _real(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    if target.name == source.name or target.name == "double":
        return array.cast(target.arrow), {}
    narrow = array.cast(pa.float32(), safe=False)
    shortest = narrow.cast(pa.string()).cast(pa.float64())
    same = pc.or_(pc.equal(shortest, array), pc.equal(narrow.cast(pa.float64()), array))
    array, irregular = _blank(array, pc.invert(pc.or_(same, pc.is_nan(array))))
    return array.cast(pa.float32(), safe=False), irregular


# Dates and times.


def _temporal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """datetime(p) to datetime(q), timestamp(p) to timestamp(q)."""
    if (source.length or 0) <= (target.length or 0):
        return array, {}
    unit = 10 ** (6 - (target.length or 0))
    us = array.cast(pa.int64())
    finer = pc.not_equal(pc.multiply(pc.divide(us, unit), unit), us)
    write, kept = writer(source), _blank(array, finer)[0]
    rows = pc.indices_nonzero(pc.fill_null(finer, False))
    texts = [write(value) for value in us.take(rows).to_pylist()]
    return kept, dict(zip(rows.to_pylist(), texts, strict=True))


def _time(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """time(p) to time(q): texts with as many digits of a fraction as the type says."""
    if source.length == target.length:
        return array, {}
    digits = target.length or 0
    dotted = pc.replace_substring_regex(array, r"^([^.]*)$", r"\1.")
    parts = pc.extract_regex(
        pc.binary_join_element_wise(dotted, "000000", ""), rf"^(?P<kept>[^.]*\.[0-9]{{{digits}}})(?P<rest>.*)$"
    )
    finer = pc.match_substring_regex(pc.struct_field(parts, "rest"), "[1-9]")
    kept = pc.utf8_rtrim(pc.struct_field(parts, "kept"), ".")
    return pc.if_else(finer, pa.scalar(None, pa.string()), kept), _blank(array, finer)[1]


def _date_to_datetime(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    return array.cast(pa.timestamp("us")), {}


# Members of enum and set.


def _index_to_member(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    members = target.members or ()
    array, irregular = _blank(array, pc.greater(array, pa.scalar(len(members), pa.uint16())))
    return pa.array(["", *members], pa.string()).take(array), irregular


def _bits_to_members(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """By distinct value: a column of sets has few of them."""
    members = target.members or ()
    most = pa.scalar(2 ** min(len(members), 64) - 1, pa.uint64())
    array, irregular = _blank(array, pc.greater(array, most))
    coded = array.dictionary_encode()
    names = [",".join(m for i, m in enumerate(members) if bits >> i & 1) for bits in coded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(coded.indices), irregular


def _text_to_members(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    members = target.members or ()
    if target.name == "enum":
        return _blank(array, pc.invert(pc.is_in(array, value_set=pa.array(["", *members, None], pa.string()))))
    coded = array.dictionary_encode()
    known = set(members)
    wrong = [bool(text) and not known.issuperset(text.split(",")) for text in coded.dictionary.to_pylist()]
    return _blank(array, pa.array(wrong, pa.bool_()).take(coded.indices))


# Text and binary.


def _text_to_binary(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    return array.cast(pa.binary()), {}


def _binary_to_text(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    try:
        return array.cast(pa.string()), {}
    except pa.ArrowInvalid:
        return _each(array.to_pylist(), lambda value: value.decode(), target)


def _to_text(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Anything as its canonical text; JSON for what is no text in canonical form."""
    kind = family(source)
    if array.type == pa.string():
        return array, {}
    if kind == "integer" and source.name != "boolean":
        return array.cast(pa.string()), {}
    if kind == "decimal":
        return plain_text(array), {}
    write = writer(source)
    return _each(_ready(array), lambda value: _as_text(write(value)), target)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _text_to(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Text in canonical form to the type it is the text of; not to a timestamp, for that would take a zone."""
    if target.name != "datetime":
        return _each(array.to_pylist(), reader(target), target)
    full = ColumnType("datetime", length=6)
    exact, irregular = _each(array.to_pylist(), reader(full), full)
    kept, finer = _temporal(exact, full, target)
    return kept, irregular | finer


def _ready(array: pa.Array) -> list[Any]:
    whole = pa.int32() if pa.types.is_date32(array.type) else pa.int64() if pa.types.is_timestamp(array.type) else None
    values: list[Any] = (array if whole is None else array.cast(whole)).to_pylist()
    return values


def _each(values: list[Any], change: Callable[[Any], Any], target: ColumnType) -> Reshaped:
    """Value by value, for what columns are rarely asked to become."""
    irregular: dict[int, str] = {}
    changed: list[Any] = []
    for row, value in enumerate(values):
        try:
            changed.append(None if value is None else change(value))
        except (ProtocolError, UnicodeDecodeError):
            irregular[row] = _shown(value)
            changed.append(None)
    return pa.array(changed, target.arrow), irregular


_Route = Callable[[pa.Array, ColumnType, ColumnType], Reshaped]
_ROUTES: dict[tuple[str, str], _Route] = {
    ("integer", "integer"): _integers,
    ("integer", "real"): _integer_to_real,
    ("integer", "decimal"): _integer_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "integer"): _decimal_to_integer,
    ("real", "real"): _real,
    ("real", "decimal"): _real_to_decimal,
    ("date", "datetime"): _date_to_datetime,
    ("datetime", "datetime"): _temporal,
    ("timestamp", "timestamp"): _temporal,
    ("time", "time"): _time,
    ("enum", "enum members"): _index_to_member,
    ("set", "set members"): _bits_to_members,
    ("enum members", "enum members"): _text_to_members,
    ("set members", "set members"): _text_to_members,
    ("text", "enum members"): _text_to_members,
    ("text", "set members"): _text_to_members,
    ("text", "integer"): _text_to_integer,
    ("text", "decimal"): _text_to_decimal,
    ("text", "binary"): _text_to_binary,
    ("binary", "text"): _binary_to_text,
    ("text", "date"): _text_to,
    ("text", "datetime"): _text_to,
    ("text", "time"): _text_to,
}
