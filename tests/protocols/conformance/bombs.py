"""The bomb corpus: small or plain records that would cost much time or memory if they were believed.

JSON is bombed at every place that a protocol reads, with the same charges; the rest is what each format has of its own:
lengths and counts in front of data, schemas, envelopes that announce more, compression, statements.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cramjam

from tests.protocols.tencent_dts import records as dts

MIB = 2**20


@dataclass(frozen=True)
class Bomb:
    """A record that a decoder has to get over soon; `harmless` where it may be read."""

    protocol: str
    name: str
    value: bytes
    key: bytes | None = None
    options: dict[str, Any] = field(default_factory=dict)
    schema: str | None = None
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.protocol}: {self.name}"


CHARGES: dict[str, str] = {
    "arrays in each other": "[" * 500_000,
    "arrays in each other, closed": "[" * 100_000 + "]" * 100_000,
    "objects in each other": '{"a":' * 200_000,
    "objects in each other, closed": '{"a":' * 900 + "1" + "}" * 900,
    "a million digits": "9" * 1_000_000,
    "a million places": "0." + "1" * 1_000_000,
    "a large exponent": "1e999999999",
    "a small exponent": "1e-999999999",
    "many members": "{" + ",".join(f'"c{n}":1' for n in range(10_000)) + "}",
    "many items": "[" + "1.5," * 30_000 + "1]",
    "a member twice, often": "{" + ",".join(['"a":1'] * 5_000) + "}",
    "escapes without end": '"' + "\\u0000" * 30_000,
}
# What may be read all the same: any JSON as a value without a schema, 1e-999999999 as 0.0, the last of a member's values.
HARMLESS = {
    "debezium-mysql": {"a value of a small exponent", "a value of many members", "a value of many items"},
    "ticdc-debezium": {"a value of a small exponent", "an image of a member twice, often"},
}


def bombs() -> Iterator[Bomb]:
    """All of them."""
    yield from _open()
    yield from _ticdc_debezium()
    yield from _debezium_mysql()
    yield from _avro()
    yield from _dts()


# TiCDC Open Protocol: lengths in front of keys and values, JSON in both, compressed values.

_VERSION = struct.pack(">Q", 1)
_OPEN_KEY = b'{"ts":463267594595935302,"scm":"shop","tbl":"orders","t":1}'


def _framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">Q", len(body)) + body for body in bodies)


def _open_record(name: str, value: bytes, key: bytes = _OPEN_KEY, **more: Any) -> Bomb:
    return Bomb("ticdc-open", name, _framed(value), _VERSION + _framed(key), **more)


def _open() -> Iterator[Bomb]:
    for name, charge in CHARGES.items():
        yield _open_record(f"a value of {name}", f'{{"u":{{"id":{{"t":3,"h":true,"f":11,"v":{charge}}}}}}}'.encode())
        yield _open_record(f"an image of {name}", f'{{"u":{charge}}}'.encode())
    column = '{"t":3,"f":0,"v":1}'
    image = ",".join(f'"c{n}":{column}' for n in range(8_000))
    yield _open_record("an image of many columns", f'{{"u":{{{image}}}}}'.encode())
    deep = '{"ts":' + "[" * 100_000
    yield _open_record("a deep key", b'{"u":{}}', deep.encode())
    for name, length in (("2^63", 2**63), ("2^64-1", 2**64 - 1), ("2^40", 2**40)):
        framed = struct.pack(">Q", length) + b"{}"
        yield Bomb("ticdc-open", f"a value of {name} bytes", framed, _VERSION + _framed(_OPEN_KEY))
        yield Bomb("ticdc-open", f"a key of {name} bytes", _framed(b"{}"), _VERSION + framed)
    nothing = struct.pack(">Q", 0) * 20_000
    yield Bomb("ticdc-open", "many empty messages", nothing, _VERSION + nothing)
    text = "{" + '"v":"' + "A" * 100 + "\\" * 1_000_001 + '"}'
    yield _open_record("backslashes", f'{{"u":{{"id":{text}}}}}'.encode())
    vector = json.dumps("[" + "1," * 200_000 + "1]")
    yield _open_record("a long vector", f'{{"u":{{"v":{{"t":225,"f":0,"v":{vector}}}}}}}'.encode())
    for kind in ("snappy", "lz4"):
        options = {"large-message-handle-compression": kind, "max-inflated-bytes": MIB}
        yield _open_record(f"{kind} of zeros", _inflating(kind, 64 * MIB), options=options)
        yield _open_record(f"{kind} that says 4 GiB", b"\xff\xff\xff\xff\x0f" + b"\0" * 16, options=options)


def _inflating(kind: str, size: int) -> bytes:
    codec = cramjam.snappy.compress_raw if kind == "snappy" else cramjam.lz4.compress
    return bytes(codec(bytes(size)))


# Debezium's envelopes, TiCDC's and the connector's: payload, and the schema before it.

_TICDC_SOURCE = (
    '{"version":"2.4.0.Final","connector":"TiCDC","name":"default","ts_ms":1767225626357,"snapshot":"false","db":"shop",'
    '"table":"orders","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,"commit_ts":463267594595935302,"cluster_id":"default"}'
)
_MYSQL_SOURCE = (
    '{"version":"3.6.1.Final","connector":"mysql","name":"inv","ts_ms":1767312000000,"snapshot":"false","db":"shop",'
    '"sequence":null,"ts_us":1767312000000000,"ts_ns":1767312000000000000,"table":"orders","server_id":1,"gtid":null,'
    '"file":"mysql-bin.000001","pos":4,"row":0,"thread":null,"query":null}'
)


def _payload(source: str, image: str) -> str:
    return f'{{"before":null,"after":{image},"source":{source},"op":"c","ts_ms":1767312000000,"transaction":null}}'


def _json_charges(protocol: str, source: str, options: dict[str, Any], wrap: str) -> Iterator[Bomb]:
    for name, charge in CHARGES.items():
        for place, payload in (
            ("a value of", _payload(source, f'{{"id":{charge}}}')),
            ("an image of", _payload(source, charge)),
            ("a source of", _payload(charge, '{"id":1}')),
        ):
            named = f"{place} {name}"
            harmless = named in HARMLESS[protocol]
            yield Bomb(protocol, named, (wrap % payload).encode(), options=options, harmless=harmless)


def _ticdc_debezium() -> Iterator[Bomb]:
    yield from _json_charges("ticdc-debezium", _TICDC_SOURCE, {}, '{"payload":%s}')
    sound = _payload(_TICDC_SOURCE, '{"id":1}')
    for name, charge in CHARGES.items():
        yield Bomb("ticdc-debezium", f"a schema of {name}", f'{{"payload":{sound},"schema":{charge}}}'.encode())
    options = {"large-message-handle-compression": "lz4", "max-inflated-bytes": MIB}
    yield Bomb("ticdc-debezium", "lz4 of zeros", _inflating("lz4", 64 * MIB), options=options)


def _debezium_mysql() -> Iterator[Bomb]:
    yield from _json_charges("debezium-mysql", _MYSQL_SOURCE, {"schemas.enable": "false"}, "%s")
    sound = _payload(_MYSQL_SOURCE, '{"id":1}')
    for name, charge in CHARGES.items():
        yield Bomb("debezium-mysql", f"a schema of {name}", f'{{"schema":{charge},"payload":{sound}}}'.encode())
    nested = '{"type":"array","items":' * 40 + '{"type":"int8"}' + "}" * 40
    yield Bomb("debezium-mysql", "a schema of arrays", f'{{"schema":{nested},"payload":{{}}}}'.encode())
    yield Bomb("debezium-mysql", "gzip", gzip.compress(bytes(16 * MIB)))


# Confluent's Avro: schemas that are written by others, counts and lengths as varints.

_INT = '{"type":"int","connect.parameters":{"tidb_type":"INT"}}'
_TEXT = '{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}'
_VECTOR = '{"type":"string","connect.parameters":{"tidb_type":"TiDBVECTORFloat32"}}'
_HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2^63-1 as a varint
_TRILLION = b"\x80\xc0\xca\xf3\x84\xa3\x02"  # 10^12


def _record(*fields: str) -> str:
    return f'{{"name":"t","namespace":"default.shop","type":"record","fields":[{",".join(fields)}]}}'


def _column(kind: str, name: str = "a") -> str:
    return f'{{"name":"{name}","type":{kind}}}'


def _laughing(levels: int) -> str:
    """Records that name each other: ten of each level in the next."""
    fields = [_column('{"type":"record","name":"R0","fields":[{"name":"a","type":"null"}]}', "a0")]
    for level in range(1, levels):
        inner = ",".join(f'{{"name":"f{n}","type":"R{level - 1}"}}' for n in range(10))
        fields.append(_column(f'{{"type":"record","name":"R{level}","fields":[{inner}]}}', f"a{level}"))
    return _record(*fields)


def _avro_schemas() -> dict[str, str]:
    deep = '{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000
    itself = '{"type":"record","name":"R","fields":[{"name":"again","type":["null","R"]}]}'
    always = '{"type":"record","name":"R","fields":[{"name":"again","type":"R"}]}'
    return {
        "a deep schema": _record(_column(deep)),
        "a record in itself": _record(_column(itself)),
        "a record in itself without end": _record(_column(always)),
        "records that name each other": _laughing(40),
        "many fields": _record(*(_column(_INT, f"f{n}") for n in range(30_000))),
        "a large union": _record(_column("[" + ",".join(['"null"', *(f'"x{n}"' for n in range(50_000))]) + "]")),
        "many symbols": _record(_column(json.dumps({"type": "enum", "name": "E", "symbols": [f"s{n}" for n in range(90_000)]}))),
        "a fixed of many digits": _record(_column('{"type":"fixed","name":"F","size":' + "9" * 100_000 + "}")),
        "a fixed of 2^62 bytes": _record(_column(f'{{"type":"fixed","name":"F","size":{2**62}}}')),
        "a decimal of many digits": _record(
            _column('{"type":"bytes","logicalType":"decimal","precision":' + "9" * 30_000 + ',"scale":0}')
        ),
        "brackets": "[" * 70_000,
        "commas": "[" + "0," * 300_000 + "0]",
        "a long name": '"' + "x" * 8_000_000 + '"',
        "white space": " " * 5_000_000,
    }  # fmt: skip


def _avro_data() -> dict[str, tuple[str, bytes]]:
    nulls = '{"type":"array","items":"null"}'
    nothing = '{"type":"array","items":{"type":"record","name":"N","fields":[]}}'
    return {
        "10^12 nulls": (nulls, _TRILLION),
        "10^12 empty records": (nothing, _TRILLION),
        "10^12 integers": ('{"type":"array","items":"int"}', _TRILLION + b"\0" * 16),
        "blocks of a negative count": ('{"type":"array","items":"int"}', b"\x01" + _HUGE),
        "blocks without end": (nulls, b"\x02" * 500_000),
        "10^12 entries": ('{"type":"map","values":"null"}', _TRILLION),
        "a text of 2^63 bytes": (_TEXT, _HUGE),
        "a text of a negative length": (_TEXT, b"\x01"),
        "a varint without end": (_INT, b"\xff" * 1_000_000),
        "a branch of 2^62": (f'["null",{_INT}]', _HUGE),
        "a vector of brackets": (_VECTOR, b"\x80\x89\x7a" + b"[" * 1_000_000),
        "a decimal of a million bytes": (
            '{"type":"bytes","logicalType":"decimal","precision":10,"scale":2,"connect.parameters":{"tidb_type":"DECIMAL"}}',
            b"\x80\x89\x7a" + b"\x7f" * 1_000_000,
        ),
    }


def _avro() -> Iterator[Bomb]:
    for protocol in ("ticdc-avro", "debezium-mysql"):
        for name, schema in _avro_schemas().items():
            yield Bomb(protocol, f"Avro, {name}", b"\0\0\0\0\x07\x02\x02\x02", schema=schema)
        for name, (kind, data) in _avro_data().items():
            yield Bomb(protocol, f"Avro, {name}", b"\0\0\0\0\x07" + data, schema=_record(_column(kind)))


# Tencent DTS: protobuf in protobuf, texts in it, envelopes that announce others.


def _nested(levels: int) -> bytes:
    data = b"x"
    for _ in range(levels):
        data = b"\x22" + _varint(len(data)) + data
    return data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _sized(tag: bytes, data: bytes) -> bytes:
    return tag + _varint(len(data)) + data


def _dts() -> Iterator[Bomb]:
    header = _sized(b"\x0a", b"\x18\x02")  # of a DML entry
    wholes = {
        "messages in each other": _nested(1000),
        "groups in each other": b"\x0b" * 1_000_000,
        "groups, closed": b"\x0b" * 100_000 + b"\x0c" * 100_000,
        "a length of 2^63": b"\x22" + b"\xff" * 9 + b"\x01",
        "a varint without end": b"\x08" + b"\xff" * 1_000_000,
        "a tag without end": b"\xff" * 1_000_000,
        "a tag of 2^63": b"\xf8" + b"\xff" * 8 + b"\x01\x01",
        "the version, often": b"\x08\x01" * 300_000,
        "an envelope of 2^32-1": dts.envelope(b"", 2**32 - 1, 2**32 - 2),
    }
    for name, value in wholes.items():
        yield Bomb("tencent-dts", name, value)
    events = {
        "many entries": b"\x0a\0" * (MIB // 2),
        "many bad entries": b"\x0a\0" * 60_000,
        "many columns": _sized(b"\x0a", header + _sized(b"\x12", _sized(b"\x12", b"\x12\0" * (MIB // 2)))),
        "many unknown fields": _sized(b"\x0a", b"\xf8\x7f\x01" * (MIB // 2)),
        "many properties": _sized(b"\x0a", _sized(b"\x0a", b"\x18\x02" + b"\x7a\0" * (MIB // 2)) + b"\x12\0"),
        "a number of a million digits": dts.data_of(dts.inserted("int", dts.number(3, "9" * MIB))),
    }
    for name, data in events.items():
        yield Bomb("tencent-dts", name, dts.envelope(data))
    texts = {
        "a large exponent": dts.inserted("decimal(65,30)", dts.number(12, "1e999999999")),
        "an enum of quotes": dts.inserted("enum(" + "'" * MIB, dts.string(b"x")),
        "a type of brackets": dts.inserted("int" + "(" * MIB, dts.string(b"x")),
        "a type of digits": dts.inserted("decimal(" + "9" * MIB + ")", dts.string(b"x")),
        "a statement of brackets": dts.entry(3, {"ddlEvent": {"sql": "(" * 100_000}}),
        "a statement of columns": dts.entry(3, {"ddlEvent": {"sql": "CREATE TABLE t (" + "a int," * 100_000}}),
    }
    for name, entry in texts.items():
        yield Bomb("tencent-dts", name, dts.envelope(dts.data_of(entry)), harmless=True)
