"""The bomb corpus: small or plain records that would cost much time or memory if their content were trusted.

Each protocol has its own in `tests/protocols/<name>/bombs.py`. JSON gets the same charges at every place that a protocol
reads; the other bombs use features of a format: lengths and counts in front of data, schemas, envelopes that announce
more, compression, statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cramjam

from changefeed.protocols import PROTOCOLS
from tests.protocols.conformance.cases import own

MIB = 2**20


@dataclass(frozen=True)
class Bomb:
    """A record that a decoder must refuse quickly; a `harmless` one may also be decoded."""

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


def bombs() -> Iterator[Bomb]:
    """The bombs of all protocols."""
    for name in PROTOCOLS:
        module = own(name, "bombs")
        assert module is not None, f"{name} has no bombs"
        yield from module.bombs()


def inflating(kind: str, size: int) -> bytes:
    """Zeros of a given size, compressed."""
    codec = cramjam.snappy.compress_raw if kind == "snappy" else cramjam.lz4.compress
    return bytes(codec(bytes(size)))


# Debezium's envelopes, as TiCDC and the connector write them.


def envelope(source: str, image: str) -> str:
    """The payload of an insert."""
    return f'{{"before":null,"after":{image},"source":{source},"op":"c","ts_ms":1767312000000,"transaction":null}}'


def json_charges(
    protocol: str, source: str, options: dict[str, Any], wrap: str, harmless: frozenset[str]
) -> Iterator[Bomb]:
    """Each charge as a value, an image and a source; those named in `harmless` may be decoded."""
    for name, charge in CHARGES.items():
        for place, payload in (
            ("a value of", envelope(source, f'{{"id":{charge}}}')),
            ("an image of", envelope(source, charge)),
            ("a source of", envelope(charge, '{"id":1}')),
        ):
            named = f"{place} {name}"
            yield Bomb(protocol, named, (wrap % payload).encode(), options=options, harmless=named in harmless)


# Confluent's Avro: schemas from outside, counts and lengths as varints.

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
    """Nested record schemas: each level contains ten of the level below."""
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


def avro(protocol: str) -> Iterator[Bomb]:
    """Bombs for a protocol whose values are Avro."""
    for name, schema in _avro_schemas().items():
        yield Bomb(protocol, f"Avro, {name}", b"\0\0\0\0\x07\x02\x02\x02", schema=schema)
    for name, (kind, data) in _avro_data().items():
        yield Bomb(protocol, f"Avro, {name}", b"\0\0\0\0\x07" + data, schema=_record(_column(kind)))
