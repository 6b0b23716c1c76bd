"""Types, and canonical values of them."""

from __future__ import annotations

import base64
from datetime import date
from typing import Any

from hypothesis import strategies as st

from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import shortest_float32, write_date, write_datetime, write_instant

_FIRST = -719_162  # 0001-01-01 in days since 1970
_LAST = date.max.toordinal() + _FIRST - 1
_DAY_US = 86_400_000_000
MEMBERS = ("new", "it's", "c d", "ü")


def types() -> st.SearchStrategy[ColumnType]:
    """Every kind of type that a column may have."""
    return st.one_of(
        st.builds(ColumnType, st.sampled_from(sorted(INTEGERS)), st.booleans()),
        st.builds(lambda n: ColumnType("bit", length=n), st.none() | st.integers(1, 64)),
        st.integers(1, 65).flatmap(
            lambda p: st.integers(0, min(p, 30)).map(lambda s: ColumnType("decimal", length=p, scale=s))
        ),
        st.builds(
            lambda name, digits: ColumnType(name, length=digits),
            st.sampled_from(["datetime", "timestamp", "time"]),
            st.none() | st.integers(1, 6),
        ),
        st.sampled_from(sorted({*TEXTS, *BINARIES})).map(ColumnType),
        st.sampled_from(
            [
                ColumnType(name)
                for name in (
                    "year",
                    "float",
                    "double",
                    "decimal",
                    "date",
                    "json",
                    "enum",
                    "set",
                    "point",
                    "vector",
                    "boolean",
                )
            ]
        ),
        st.builds(
            lambda name, n: ColumnType(name, members=MEMBERS[:n]), st.sampled_from(["enum", "set"]), st.integers(1, 4)
        ),
    )


def _listed(name: str, count: int) -> ColumnType:
    return ColumnType(name, members=MEMBERS[:count])


def canonical_values(t: ColumnType) -> st.SearchStrategy[Any]:
    """Canonical values that the type holds, NULL among them."""
    return st.none() | _values(t)


def _values(t: ColumnType) -> st.SearchStrategy[Any]:
    name, digits = t.name, t.length or 0
    if name in INTEGERS:
        bits = 24 if name == "mediumint" else INTEGERS[name]
        return st.integers(0, 2**bits - 1) if t.unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if name == "decimal":
        return _decimals(t.length or 65, t.scale or 0)
    if name in ("datetime", "timestamp"):
        unit = 10 ** (6 - digits)
        moments = st.integers(_FIRST * _DAY_US // unit, ((_LAST + 1) * _DAY_US - 1) // unit)
        write = write_datetime if name == "datetime" else write_instant
        return moments.map(lambda n: write(n * unit, digits))
    if name in TEXTS or name == "json":
        return st.text(st.characters(codec="utf-8"), max_size=8)
    if name in BINARIES:
        return st.binary(max_size=8).map(_base64)
    if name == "enum" and t.members:
        return st.sampled_from(["", *t.members])
    if name == "set" and t.members:
        members = t.members
        return st.sets(st.sampled_from(members)).map(lambda chosen: ",".join(m for m in members if m in chosen))
    float32 = st.floats(width=32, allow_nan=False, allow_infinity=False).map(shortest_float32)
    return {
        "bit": st.integers(0, 2 ** (t.length or 64) - 1),
        "year": st.integers(0, 2155),
        "float": float32,
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "date": st.integers(_FIRST, _LAST).map(write_date),
        "time": st.builds(_time, st.integers(-838 * 3600, 838 * 3600), st.just(digits)),
        "enum": st.integers(0, 2**16 - 1).map(lambda n: {"index": n}),
        "set": st.integers(0, 2**64 - 1).map(lambda n: {"bits": n}),
        "point": st.builds(
            lambda s, w: {"srid": s, "wkb": _base64(w)["base64"]}, st.integers(0, 2**32 - 1), st.binary()
        ),
        "vector": st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False).map(shortest_float32), max_size=3
        ),
        "boolean": st.booleans(),
    }[name]


def _decimals(precision: int, scale: int) -> st.SearchStrategy[str]:
    most = 10**precision - 1

    def write(units: int) -> str:
        text = str(abs(units)).rjust(scale + 1, "0")
        whole, fraction = text[: len(text) - scale], text[len(text) - scale :]
        return ("-" if units < 0 else "") + whole + (f".{fraction}" if scale else "")

    return st.integers(-most, most).map(write)


def _time(seconds: int, digits: int) -> str:
    fraction = "." + "0" * digits if digits else ""
    clock = f"{abs(seconds) // 3600:02}:{abs(seconds) // 60 % 60:02}:{abs(seconds) % 60:02}{fraction}"
    return ("-" if seconds < 0 else "") + clock


def _point(srid: int, wkb: bytes) -> dict[str, Any]:
    return {"srid": srid, "wkb": _base64(wkb)["base64"]}


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
