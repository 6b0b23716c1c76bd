"""Recordings of servers that changed types of columns, and their values in the sink's types."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from changefeed.frames.convert import to_canonical, to_sink
from changefeed.model.types import BINARIES, INTEGERS, ColumnType
from changefeed.model.values import IrregularError, reader

FOLDER = Path(__file__).parents[1] / "data" / "retype"


@dataclass(frozen=True, slots=True)
class Pair:
    """A change of type.

    Attributes:
        before: canonical values before it.
        after: canonical values after it, row by row.
    """

    old: ColumnType
    new: ColumnType
    before: tuple[Any, ...]
    after: tuple[Any, ...]


@cache
def recorded(server: str) -> tuple[Pair, ...]:
    """The recorded changes of a server: `mariadb` or `mysql`."""
    with gzip.open(FOLDER / f"{server}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(pair(*json.loads(line)) for line in lines)


def pair(old: str, new: str, rows: list[list[str | None]]) -> Pair:
    """A change of type from the texts of a server."""
    kinds = ColumnType.parse(old), ColumnType.parse(new)
    canonical = [(_canonical(kinds[0], before), _canonical(kinds[1], after)) for before, after in rows]
    kept = [(before, after) for before, after in canonical if _is_regular(kinds[0], before)]
    return Pair(*kinds, tuple(before for before, _ in kept), tuple(after for _, after in kept))


def _canonical(t: ColumnType, text: str | None) -> Any:
    """The canonical value for the server's text, which is hexadecimal for bytes."""
    if text is None:
        return None
    if t.name in BINARIES:
        return {"base64": base64.b64encode(bytes.fromhex(text)).decode()}
    if t.name in INTEGERS or t.name in ("year", "bit"):
        return int(text)
    if t.name in ("float", "double"):
        return float(text)
    if t.name == "timestamp":
        return text.replace(" ", "T") + "Z"
    return text


def _is_regular(t: ColumnType, value: Any) -> bool:
    try:
        return value is None or reader(t)(value) is not None
    except IrregularError:
        return False


def column(t: ColumnType, canonical: Sequence[Any]) -> pa.Array:
    """Canonical values in the sink's type."""
    return to_sink(pa.array([None if v is None else reader(t)(v) for v in canonical], t.arrow), t)


def values(t: ColumnType, array: pa.Array) -> list[Any]:
    """The canonical values of a column of the sink, floats as they are printed."""
    return [shown(t, v) for v in to_canonical(array, t)]


def shown(t: ColumnType, value: Any) -> Any:
    """A value in a form in which equal ones are equal: NULL if it is irregular, the digits that FLOAT(m,d) has."""
    if not _is_regular(t, value):
        return None
    if t.name in ("float", "double") and value is not None:
        if t.name == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        return (
            f"{value:.{t.scale}f}" if t.scale is not None and abs(value) < 1e6 else f"{value:.6g}" if t.scale else value
        )
    return value
