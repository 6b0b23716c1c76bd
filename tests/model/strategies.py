"""Hypothesis strategies: every MySQL type, values in the ready form of `model.values`, and whole decoded batches."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import (
    OPS,
    Control,
    DeadLetter,
    Heartbeat,
    Instant,
    Resolved,
    SchemaChange,
    TransactionMark,
)
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import BINARIES, INTEGERS, NAMES, TEXTS, ColumnType

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Names of tables and statements may hold bytes that are not UTF-8, as surrogateescape shows them.
WILD = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\udc80\udcff"), max_size=8)
BYTES = st.binary(max_size=12)
MEMBERS = st.lists(TEXT, min_size=1, max_size=3, unique=True).map(tuple)
SMALL = st.integers(-(2**31), 2**31 - 1)
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999


def column_types(name: str) -> SearchStrategy[ColumnType]:
    """All forms in which a protocol may declare the type of this name."""
    if name in INTEGERS:
        return st.builds(ColumnType, st.just(name), unsigned=st.booleans())
    if name == "decimal":
        sized = st.integers(1, 65).flatmap(
            lambda p: st.builds(ColumnType, st.just(name), length=st.just(p), scale=st.integers(0, min(p, 30)))
        )
        return st.just(ColumnType(name)) | sized
    if name in ("enum", "set"):
        return st.builds(ColumnType, st.just(name), members=st.none() | MEMBERS)
    if name in ("datetime", "timestamp"):
        return st.builds(ColumnType, st.just(name), length=st.none() | st.integers(0, 6))
    return st.just(ColumnType(name))


def values(t: ColumnType) -> SearchStrategy[Any]:
    """Ready values of the type, over its whole range."""
    known = _BY_NAME.get(t.name)
    if known is not None:
        return known
    if t.name in INTEGERS:
        bits = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[t.name]
        return st.integers(0, 2**bits - 1) if t.unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if t.name == "decimal":
        return _decimals(t)
    if t.name in ("enum", "set"):
        return TEXT if t.members is not None else st.integers(0, 2**16 - 1 if t.name == "enum" else 2**64 - 1)
    if t.name in ("datetime", "timestamp"):
        step = 10 ** (6 - (t.length or 0))
        return st.integers(FIRST_US // step + 1, LAST_US // step).map(lambda n: n * step)
    return TEXT if t.name in TEXTS else BYTES if t.name in BINARIES else _GEOMETRY


def _decimals(t: ColumnType) -> SearchStrategy[Any]:
    digits, scale = t.length or 65, t.scale or 0

    def shifted(n: int) -> Decimal:
        return Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale))

    fixed = st.integers(-(10**digits) + 1, 10**digits - 1).map(shifted)
    return fixed if t.length is not None else fixed.map(lambda d: format(d, "f"))


_GEOMETRY = st.fixed_dictionaries({"srid": st.integers(0, 2**32 - 1), "wkb": BYTES})
_TIMES = st.builds(
    lambda sign, h, m, s, f: f"{sign}{h:02}:{m:02}:{s:02}{f}",
    st.sampled_from(["", "-"]),
    st.integers(0, 838),
    st.integers(0, 59),
    st.integers(0, 59),
    st.sampled_from(["", ".5", ".000", ".123456"]),
)
_BY_NAME: dict[str, SearchStrategy[Any]] = {
    "year": st.integers(0, 2155),
    "bit": st.integers(0, 2**64 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": st.integers(-719_162, 2_932_896),
    "time": _TIMES,
    "json": TEXT,
    "vector": st.lists(st.floats(width=32, allow_nan=False), max_size=3),
    "boolean": st.booleans(),
    "null": st.none(),
}

TYPES = st.sampled_from(sorted(NAMES)).flatmap(column_types)
ORIGINS = st.dictionaries(WILD, st.integers() | WILD | st.floats(allow_nan=False, allow_infinity=False), max_size=2)
INSTANTS = st.sampled_from([0, 3, 6]).flatmap(
    lambda digits: st.integers(FIRST_US // 10**6 + 1, LAST_US // 10**6).map(lambda s: Instant(s * 10**6, digits))
)


@st.composite
def shapes(draw: Callable[..., Any]) -> TableShape:
    """Tables of one to six columns of any types, whose images carry all columns or some; the key has any order."""
    names = draw(st.lists(TEXT, min_size=1, max_size=6, unique=True))  # Arrow has no other names of fields
    flags = st.sampled_from([True, False, None])
    columns = tuple(Column(name, draw(TYPES), draw(flags), draw(flags)) for name in names)
    some = st.none() | st.permutations(names).flatmap(lambda p: st.integers(0, len(p)).map(lambda n: tuple(p[:n])))
    wire = draw(st.sampled_from(["", "1.50"]) | ORIGINS.map(canonical))
    key = draw(st.just(()) | st.permutations([column.name for column in columns if column.key]).map(tuple))
    return TableShape(draw(WILD), draw(WILD), columns, draw(some), draw(some), wire, key)


def _image(draw: Callable[..., Any], columns: tuple[Column, ...]) -> dict[str, Any] | None:
    if draw(st.booleans()):
        return None
    return {c.name: draw(st.none() | values(c.type)) for c in columns}


def _irregular(draw: Callable[..., Any], before: Any, after: Any) -> dict[str, bytes]:
    nulls = [n for n, v in (after if after is not None else before or {}).items() if v is None]
    both = before is not None and after is not None
    nulls += [f"before.{n}" for n, v in before.items() if v is None] if both else []
    return {name: draw(BYTES) for name in nulls if name.encode("utf-8", "replace").isascii() and draw(st.booleans())}


def _control(draw: Callable[..., Any], place: Place) -> Control:
    time, origin, number = draw(st.none() | INSTANTS), draw(ORIGINS), draw(st.none() | st.integers(0, 2**64 - 1))
    columns = draw(
        st.none() | st.lists(st.builds(Column, WILD, TYPES, default=st.none() | WILD), max_size=3).map(tuple)
    )
    made: tuple[Control, ...] = (
        SchemaChange("add_column", draw(WILD), None, draw(WILD), place, columns, number, time, origin),
        Resolved(number or 0, place, time, origin),
        TransactionMark("begin", draw(WILD), place, 3, {draw(WILD): 3}, time, origin),
        Heartbeat(place, time, origin),
    )
    which: int = draw(st.integers(0, len(made) - 1))
    return made[which]


@st.composite
def decoded(draw: Callable[..., Any]) -> Decoded:
    """Possible results of a decoder: rows of several shapes, control events and dead letters, interleaved."""
    tables = draw(st.lists(shapes(), min_size=1, max_size=3))
    units = {unit: BatchBuilder(unit) for unit in ("s", "ms", "us")}
    control: list[Control] = []
    dead: list[DeadLetter] = []
    record, index = -1, None
    for _ in range(draw(st.integers(1, 8))):
        if index is None or draw(st.booleans()):
            record, index = record + 1, draw(st.sampled_from([None, 0]))
        else:
            index += 1
        place = Place("shop-1", 3, 2**62 + record, index, record)
        kind = draw(st.sampled_from(["row", "row", "row", "control", "dead"]))
        if kind == "control":
            control.append(_control(draw, place))
        elif kind == "dead":
            key, headers = draw(st.none() | BYTES), ((draw(TEXT), draw(st.none() | BYTES)),)
            dead.append(DeadLetter("truncated", draw(WILD), "p", place, key, draw(BYTES), headers, 7, draw(TEXT)))
        else:
            shape = draw(st.sampled_from(tables))
            before, after = _image(draw, shape.before_columns), _image(draw, shape.after_columns)
            units[draw(st.sampled_from(sorted(units)))].add(
                shape,
                place,
                draw(st.sampled_from(OPS)),
                before=before,
                after=after,
                commit_ts=draw(st.none() | st.integers(0, 2**64 - 1)),
                commit_time=draw(st.none() | st.integers(-(10**9), 10**9)),
                transaction=draw(st.none() | st.fixed_dictionaries({"id": TEXT, "order": st.none() | SMALL})),
                origin=draw(st.none() | ORIGINS.map(canonical)),
                irregular=_irregular(draw, before, after),
            )
    return Decoded([batch for builder in units.values() for batch in builder.build()], control, dead)
