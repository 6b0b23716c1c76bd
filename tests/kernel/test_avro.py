"""The kernel against the reference on TiCDC Avro: rows of every type, as hypothesis makes them up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import ProtocolError
from changefeed.protocols.ticdc_avro.checksum import checksum
from changefeed.protocols.ticdc_avro.schemas import understand
from changefeed.protocols.ticdc_avro.shapes import Family, Image
from changefeed.wire import avro
from tests.examples import large_examples
from tests.kernel.agreement import speaking, topical

KEY, VALUE = 1, 2
Values = st.SearchStrategy[Any]


def _two_complement(low: int, high: int) -> Values:
    def shortest(number: int) -> bytes:
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)

    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, -128, 127])).map(shortest)


def _integers(low: int, high: int) -> Values:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high]))


def _moments(digits: int) -> Values:
    fraction = st.integers(0, 10**digits - 1).map(lambda n: f".{n:0{digits}}" if digits else "")
    years = st.integers(1, 9999).map(lambda year: f"{year:04}")
    return st.builds(lambda y, m, f: f"{y}-{m:%m-%d %H:%M:%S}{f}", years, st.datetimes(), fraction)


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
_float32 = st.floats(width=32, allow_nan=False)
_dates = st.dates().map(lambda day: f"{day.year:04}-{day:%m-%d}")
_times = st.sampled_from(["00:00:00", "-838:59:59.000000", "100:00:00.1", "99:59:59"])
_decimals = st.sampled_from(["0", "-12.50", "99999999999999999999.0", "-0.01"])
_vectors = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr), max_size=4)

# Avro type, tidb_type, what else the type says, and values; what depends on the digits of a fraction is a function.
TYPES: list[tuple[str, str, dict[str, Any], Values | Callable[[int], Values]]] = [
    ("int", "INT", {}, _integers(-(2**31), 2**31 - 1)),
    ("int", "INT UNSIGNED", {}, _integers(0, 2**31 - 1)),
    ("long", "INT UNSIGNED", {}, _integers(0, 2**32 - 1)),
    ("long", "BIGINT", {}, _integers(-(2**63), 2**63 - 1)),
    ("long", "BIGINT UNSIGNED", {}, _integers(-(2**63), 2**63 - 1)),
    ("string", "BIGINT UNSIGNED", {}, _integers(0, 2**64 - 1).map(str)),
    ("float", "FLOAT", {}, _float32),
    ("double", "FLOAT", {}, _float32),
    ("double", "DOUBLE", {}, st.floats(allow_nan=False)),
    ("bytes", "DECIMAL", {"logicalType": "decimal", "precision": 12, "scale": 2}, _two_complement(-(10**12) + 1, 10**12 - 1)),
    ("bytes", "DECIMAL", {"logicalType": "decimal", "precision": 38, "scale": 0}, _two_complement(-(10**38) + 1, 10**38 - 1)),
    ("bytes", "DECIMAL", {"logicalType": "decimal", "precision": 65, "scale": 30}, _two_complement(-(10**65) + 1, 10**65 - 1)),
    ("string", "DECIMAL", {}, _decimals),
    ("bytes", "BIT", {"length": "10"}, _integers(0, 1023).map(lambda n: n.to_bytes(2, "big"))),
    ("bytes", "BIT", {"length": "64"}, st.binary(min_size=8, max_size=8)),
    ("string", "TEXT", {}, _texts),
    ("bytes", "BLOB", {}, st.binary(max_size=80)),
    ("string", "JSON", {}, _texts),
    ("string", "ENUM", {"allowed": "a,it's"}, st.sampled_from(["a", "it's"])),
    ("string", "SET", {"allowed": "a,it's"}, st.sampled_from(["", "a", "it's", "a,it's"])),
    ("string", "DATE", {}, _dates),
    ("string", "DATETIME", {}, _moments),
    ("string", "TIMESTAMP", {}, _moments),
    ("string", "TIME", {}, _times),
    ("int", "YEAR", {}, _integers(0, 2155)),
    ("string", "TiDBVECTORFloat32", {}, _vectors.map(lambda items: f"[{','.join(items)}]")),
]  # fmt: skip
# What some type has its own opinion on.
ODD: dict[str, list[Any]] = {
    "string": ["0000-00-00", "2026-02-30 00:00:00", "-0.00", "1e5", "007", "-1", "", "\udcff", "[1, 2]", "[null]", "x"],
    "bytes": [b"", b"\0", b"\0\0", b"\0\1", b"\xff\xff", b"\x7f" * 33, b"\x7f" * 40],
    "int": [-1, 2156, -(2**31)],
    "long": [-1, 2**32],
    "float": [-0.0],
    "double": [-0.0],
}


@dataclass(frozen=True)
class Table:
    """Columns as places in TYPES with their unions, how many of them are the key, and what the values have behind them."""

    columns: tuple[tuple[int, str], ...]
    keys: int
    digits: int
    before: bool
    extension: bool
    checksum: bool

    @property
    def texts(self) -> dict[int, str]:
        """Key's and value's schema by their ids."""
        columns = [self._field(at) for at in range(len(self.columns))]
        own: list[dict[str, Any]] = []
        if self.before:
            own.append({"name": "_ticdc_before", "type": ["null", _record("t_before", columns)]})
        if self.extension:
            own += [{"name": name, "type": "long" if "commit" in name else "string"} for name in _EXTENSION]
        if self.checksum:
            own += [{"name": name, "type": kind} for name, kind in _CHECKSUM.items()]
        return {KEY: json.dumps(_record("t", columns[: self.keys])), VALUE: json.dumps(_record("t", columns + own))}

    @property
    def beyond(self) -> bool:
        """Whether the kernel leaves such rows to the reference."""
        kinds = [TYPES[number][:2] for number, _ in self.columns]
        unhashed = self.checksum and {("bytes", "DECIMAL"), ("string", "TiDBVECTORFloat32")} & set(kinds)
        return bool(unhashed) or any(kind in ("float", "double") for kind, _ in kinds[: self.keys])

    def _field(self, at: int) -> dict[str, Any]:
        number, union = self.columns[at]
        kind, name, more, _ = TYPES[number]
        parameters = {"tidb_type": name} | {k: v for k, v in more.items() if k in ("allowed", "length")}
        other = {"type": kind, "connect.parameters": parameters} | {
            k: v for k, v in more.items() if k not in parameters
        }
        branches = {"bare": other, "alone": [other], "first": ["null", other], "last": [other, "null"]}
        return {"name": f"c{at}", "type": branches[union]}

    def image(self, data: st.DataObject, odd: bool) -> dict[str, Any]:
        """Values for the columns."""
        return {f"c{at}": self._value(data, number, union, odd) for at, (number, union) in enumerate(self.columns)}

    def _value(self, data: st.DataObject, number: int, union: str, odd: bool) -> Any:
        kind, _, _, values = TYPES[number]
        choices = [values(self.digits) if callable(values) else values]
        choices += [st.none()] if union in ("first", "last") else []
        choices += [st.sampled_from(ODD[kind])] if odd else []
        return data.draw(st.one_of(choices))


_CHECKSUM = {"_tidb_row_level_checksum": "string", "_tidb_corrupted": "boolean", "_tidb_checksum_version": "int"}
_EXTENSION = ("_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time")


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "default.shop", "fields": fields}


def _datum(texts: dict[int, str], schema_id: int, values: dict[str, Any]) -> bytes:
    out = bytearray(b"\0" + schema_id.to_bytes(4, "big"))
    avro.writer(avro.parse(texts[schema_id]))(values, out)
    return bytes(out)


def _drawn(data: st.DataObject, table: Table, odd: bool) -> tuple[bytes | None, bytes | None]:
    texts = table.texts
    new = table.image(data, odd)
    key = _datum(texts, KEY, {name: new[name] for name in list(new)[: table.keys]}) if table.keys else None
    op = data.draw(st.sampled_from("cud" if table.before and table.extension else "cu"))
    if key is not None and data.draw(st.integers(0, 5)) == 0:
        return key, data.draw(st.sampled_from([None, b"\3" + bytes(8)]))
    own: dict[str, Any] = {}
    if table.before:
        own["_ticdc_before"] = new if op == "d" else data.draw(st.one_of(st.none(), st.just(table.image(data, odd))))
    if table.extension:
        ts = data.draw(st.integers(0, 2**63 - 1))
        own |= dict(zip(_EXTENSION, (op, ts, (ts >> 18) + (odd and data.draw(st.integers(0, 1)))), strict=True))
    if table.checksum:
        wrong = odd and data.draw(st.booleans())
        own |= dict(zip(_CHECKSUM, ("1" if wrong else _checksum(texts, new), wrong, 2), strict=True))
    return key, _datum(texts, VALUE, new | own)


def _checksum(texts: dict[int, str], values: dict[str, Any]) -> str:
    """The row's checksum as the reference computes it; empty where it cannot."""
    family, image = Family(None, understand(VALUE, texts[VALUE]), ("", ""), UTC), Image()
    try:
        ready = family.read(values, image)
        found = checksum(family.shape(image).columns, ready, image.irregular)
    except ProtocolError:
        found = None
    return "" if found is None else str(found)


_columns = st.lists(
    st.tuples(st.integers(0, len(TYPES) - 1), st.sampled_from(["bare", "alone", "first", "last"])),
    min_size=1,
    max_size=6,
)
tables = st.builds(
    Table,
    _columns.map(tuple),
    st.integers(0, 2),
    st.integers(0, 6),
    before=st.booleans(),
    extension=st.booleans(),
    checksum=st.booleans(),
)


@large_examples(100)
@given(data=st.data(), table=tables, odd=st.booleans())
def test_kernel_and_reference_agree_on_any_row(data: st.DataObject, table: Table, odd: bool) -> None:
    both = speaking(table.texts)
    batch = topical([_drawn(data, table, odd) for _ in range(6)])
    both.decode(batch)
    first = both.unmatched
    both.decode(batch)
    if not odd and not table.beyond:
        assert both.unmatched == first, "regular rows must be the kernel's once their shape is known"
