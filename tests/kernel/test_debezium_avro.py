"""The kernel against the reference on Debezium's Avro: rows of every type and envelope, as hypothesis makes them up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changefeed.codec import decoding
from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.model.batch import Decoded, record_batch
from changefeed.model.table import TableShape
from changefeed.protocols.base import Stores
from changefeed.wire import avro
from tests.examples import large_examples
from tests.protocols.conformance.cases import lines

KEY, VALUE = 1, 2
D, C = "io.debezium.", "org.apache.kafka.connect.data."
Values = st.SearchStrategy[Any]
Tree = dict[str, Any]


def _integers(low: int, high: int) -> Values:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high]))


def _unscaled(digits: int) -> Values:
    def shortest(number: int) -> bytes:
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)

    return _integers(-(10**digits) + 1, 10**digits - 1).map(shortest)


def _moments(digits: int) -> Values:
    fraction = st.integers(0, 10**digits - 1).map(lambda n: f".{n:0{digits}}" if digits else "")
    years = st.integers(1, 9999).map(lambda year: f"{year:04}")
    return st.builds(lambda y, m, f: f"{y}-{m:%m-%dT%H:%M:%S}{f}Z", years, st.datetimes(), fraction)


def _decimal(precision: int, scale: int) -> Tree:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"scale": scale, "precision": precision, "connect.parameters": parameters, "logicalType": "decimal"}


_ALLOWED = {"connect.parameters": {"allowed": r"a,b\,c"}}
_DAYS, _LONGEST_MS = (-719_162, 2_932_896), 838 * 3_600_000
_FIRST_MS, _LAST_MS = _DAYS[0] * 86_400_000, (_DAYS[1] + 1) * 86_400_000 - 1
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_ms, _us = _integers(_FIRST_MS, _LAST_MS), _integers(_FIRST_MS * 1000, _LAST_MS * 1000)
_durations, _short = _integers(-_LONGEST_MS, _LONGEST_MS), _integers(1 - 2**31, 2**31 - 1)

# Avro type, what Connect calls it, what else the type says, and values; what depends on digits is a function.
TYPES: list[tuple[str, str, Tree, Values | Callable[[int], Values]]] = [
    ("int", "", {"connect.type": "int8"}, _integers(-128, 127)),
    ("int", "", {"connect.type": "int16"}, _integers(-(2**15), 2**15 - 1)),
    ("int", "", {}, _integers(-(2**31), 2**31 - 1)),
    ("long", "", {}, _integers(-(2**63), 2**63 - 1)),
    ("float", "", {}, st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ("double", "", {}, st.floats(allow_nan=False, allow_infinity=False)),
    ("boolean", "", {}, st.booleans()),
    ("string", "", {}, _texts),
    ("bytes", "", {}, st.binary(max_size=40)),
    ("int", D + "time.Date", {}, _integers(*_DAYS)),
    ("int", C + "Date", {"logicalType": "date"}, _integers(*_DAYS)),
    ("int", D + "time.Time", {}, _short),
    ("int", C + "Time", {"logicalType": "time-millis"}, _short),
    ("long", D + "time.MicroTime", {}, _durations.map(lambda ms: ms * 1000 + 1)),
    ("long", D + "time.NanoTime", {}, _durations.map(lambda ms: ms * 1_000_000 + 1000)),
    ("long", D + "time.Timestamp", {}, _ms),
    ("long", C + "Timestamp", {"logicalType": "timestamp-millis"}, _ms),
    ("long", D + "time.MicroTimestamp", {}, _us),
    ("long", D + "time.NanoTimestamp", {}, _integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1).map(lambda us: us * 1000)),
    ("int", D + "time.Year", {}, _integers(0, 2155)),
    ("string", D + "time.ZonedTimestamp", {}, _moments),
    ("bytes", D + "data.Bits", {"connect.parameters": {"length": "10"}}, st.binary(min_size=2, max_size=2)),
    ("bytes", D + "data.Bits", {"connect.parameters": {"length": "64"}}, st.binary(min_size=8, max_size=8)),
    ("bytes", C + "Decimal", _decimal(12, 2), _unscaled(12)),
    ("bytes", C + "Decimal", _decimal(38, 0), _unscaled(38)),
    ("bytes", C + "Decimal", _decimal(65, 30), _unscaled(65)),
    ("string", D + "data.Enum", _ALLOWED, st.sampled_from(["a", "b,c"])),
    ("string", D + "data.EnumSet", _ALLOWED, st.sampled_from(["", "a"])),
    ("string", D + "data.Json", {}, _texts),
    ("string", D + "data.Uuid", {}, _texts),
]  # fmt: skip
# What some type has its own opinion on.
ODD: dict[str, list[Any]] = {
    "string": [
        "gone", "Z29uZQ==", "0000-00-00T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-02T03:04:05.1Z", "\udcff", "c",
        "2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05+01:00", "a,b\\,c", "",
    ],
    "bytes": [b"gone", b"", b"\0", b"\0\0", b"\0\1", b"\xff\xff", b"\x7f" * 33, b"\x7f" * 41],
    "int": [-1, 2156, 128, 2**15, -(2**31)],
    "long": [-1, 2**63 - 1, -(2**63)],
    "float": [-0.0, float("inf"), 1e-45],
    "double": [-0.0, float("-inf"), 5e-324],
    "boolean": [True],
}  # fmt: skip
ORDERS = [
    "before after source op ts_ms transaction",
    "before after source op ts_ms ts_us ts_ns transaction",
    "before after source transaction op ts_ms ts_us ts_ns",
    "source op transaction after before",
]
SOURCE = {
    "version": "string", "connector": "string", "name": "string", "ts_ms": "long", "snapshot": "string", "db": "string",
    "sequence": "string", "ts_us": "long", "ts_ns": "long", "table": "string", "server_id": "long", "gtid": "string",
    "file": "string", "pos": "long", "row": "int", "thread": "long", "query": "string",
}  # fmt: skip
ORDINARY = {
    "version": "3.6", "connector": "mariadb", "name": "srv1", "ts_ms": 1, "snapshot": "false", "db": "d", "ts_us": 1500,
    "ts_ns": 1_500_000, "table": "t", "server_id": 1, "file": "bin.000002", "pos": 7, "row": 0,
}  # fmt: skip
# Members of the source block as they may be, and as the kernel leaves them to the reference.
OTHER: dict[str, list[Any]] = {
    "version": [None, 'a "b"\n', "é🐟"],
    "connector": ["mysql", None],
    "snapshot": ["true", "last"],
    "table": ["u"],
    "ts_ns": [1_500_600, 0],
    "file": ["bin", None, "7", "a.99999999"],
    "pos": [-1, 2**40, None],
    "row": [None, -1],
    "thread": [2**63 - 1],
    "gtid": ["u:1-5"],
    "query": ["select \t1"],
}
STRANGE: dict[str, list[Any]] = {
    "connector": ["oracle"],
    "snapshot": [None],
    "db": [None],
    "table": [None],
    "ts_us": [None, 2**63 - 1],
    "ts_ms": [None, 2],
    "file": ["1" * 600],
}


def _union(other: Any, how: str) -> Any:
    return {"bare": other, "alone": [other], "first": ["null", other], "last": [other, "null"]}[how]


def _record(name: str, fields: dict[str, Any], namespace: str = "") -> Tree:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": listed}


@dataclass(frozen=True)
class Table:
    """Columns as places in TYPES with their unions, how many of them are the key, and how the envelope looks."""

    columns: tuple[tuple[int, str], ...]
    keys: int
    digits: int
    order: str
    named: str

    @property
    def texts(self) -> dict[int, str]:
        """Key's and value's schema by their ids."""
        row = {f"c{at}": self._type(at) for at in range(len(self.columns))}
        key = dict(list(row.items())[: self.keys])
        source = _record("Source", {name: _union(kind, "first") for name, kind in SOURCE.items()}, "io.debezium")
        numbers = {"total_order": "long", "data_collection_order": ["null", "long"]}
        block = _record("block", {"id": "string", **numbers}, "event")
        types = {"source": source, "op": "string", "transaction": ["null", block]}
        fields: Tree = {}
        for name in self.order.split():
            image = self.named if {"before", "after"} & fields.keys() else _record("Value", row)
            fields[name] = ["null", image] if name in ("before", "after") else types.get(name, ["null", "long"])
        return {KEY: json.dumps(_record("Key", key, "a.b-c")), VALUE: json.dumps(_record("Envelope", fields, "a.b-c"))}

    def _type(self, at: int) -> Any:
        number, union = self.columns[at]
        kind, name, more, _ = TYPES[number]
        return _union({"type": kind, **more, **({"connect.name": name} if name else {})}, union)

    def image(self, data: st.DataObject, odd: bool) -> Tree:
        """Values for the columns."""
        return {f"c{at}": self._value(data, number, union, odd) for at, (number, union) in enumerate(self.columns)}

    def _value(self, data: st.DataObject, number: int, union: str, odd: bool) -> Any:
        kind, _, _, values = TYPES[number]
        choices = [values(self.digits) if callable(values) else values]
        choices += [st.none()] if union in ("first", "last") else []
        choices += [st.sampled_from(ODD[kind])] if odd else []
        return data.draw(st.one_of(choices))


def _datum(texts: dict[int, str], schema_id: int, values: Tree) -> bytes:
    out = bytearray(b"\0" + schema_id.to_bytes(4, "big"))
    avro.writer(avro.parse(texts[schema_id]))(values, out)
    return bytes(out)


def _source(data: st.DataObject, odd: bool) -> Tree:
    source = dict.fromkeys(SOURCE) | ORDINARY
    for name in data.draw(st.lists(st.sampled_from(sorted(OTHER)), max_size=3)):
        source[name] = data.draw(st.sampled_from(OTHER[name]))
    if odd and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(STRANGE)))
        source[name] = data.draw(st.sampled_from(STRANGE[name]))
    if data.draw(st.integers(0, 4)) == 0:
        source |= {"ts_us": None, "ts_ns": None}
    return source


def _drawn(data: st.DataObject, table: Table, odd: bool) -> Tree:
    texts, op = table.texts, data.draw(st.sampled_from("crud"))
    ops: Any = {"c": [None, {}], "r": [None, {}], "u": [{}, {}], "d": [{}, None]}[op]
    before, after = (None if one is None else table.image(data, odd) for one in ops)
    if op == "u" and before and after:  # what tells of the shape is told by both
        before = data.draw(st.sampled_from([before, after, None]))
    if odd and data.draw(st.integers(0, 5)) == 0:
        op, before = data.draw(st.sampled_from(["t", "x", op])), data.draw(st.sampled_from([before, after]))
    ms = data.draw(st.integers(0, 2**41))
    clock = data.draw(st.sampled_from([(ms, ms * 1000, ms * 1_000_000 + 7), (ms, None, None), (None, ms, -ms)]))
    block = {"id": "g:1", "total_order": 2, "data_collection_order": data.draw(st.sampled_from([None, 3]))}
    said: dict[str, Any] = {"before": before, "after": after, "source": _source(data, odd), "op": op}
    said |= {"transaction": data.draw(st.sampled_from([None, block]))}
    said |= dict(zip(("ts_ms", "ts_us", "ts_ns"), clock, strict=True))
    row = (table.image(data, odd) if odd and data.draw(st.integers(0, 5)) == 0 else None) or after or before or {}
    named = {f"c{at}": row.get(f"c{at}") for at in range(table.keys)}
    key = _datum(texts, KEY, named) if table.keys and all(map(row.__contains__, named)) else None
    value = _datum(texts, VALUE, {name: said[name] for name in table.order.split()})
    return {"key": key, "value": value, "topic": "t", "partition": 0}


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
    st.sampled_from(ORDERS),
    st.sampled_from(["Value", "a.b-c.Value"]),
)


@large_examples(100)
@given(data=st.data(), table=tables, odd=st.booleans())
def test_kernel_and_reference_agree_on_any_row(data: st.DataObject, table: Table, odd: bool) -> None:
    options, stores = {"unavailable.value.placeholder": "gone"}, Stores(get_schema=table.texts.__getitem__)
    twin, other = (
        decoding.decoder("debezium-mysql", {"converter": "avro", **options}, stores, kernel=how)
        for how in ("on", "off")
    )
    assert isinstance(twin, KernelDecoder)
    batch = record_batch({**_drawn(data, table, odd), "offset": at} for at in range(6))
    expected = other.decode(batch)
    for _ in range(2):
        before, found = twin.unmatched, twin.decode(batch)
        assert lines(found) == lines(expected)
        assert _schemas(found) == _schemas(expected)
    assert odd or twin.unmatched == before, "regular rows must be the kernel's once their shape is known"


def _schemas(decoded: Decoded) -> set[tuple[TableShape, str]]:
    """The shapes with the columns of their batches."""
    return {(table.shape, table.rows.schema.to_string(show_schema_metadata=True)) for table in decoded.tables}
