"""Bombs of debezium-mysql: JSON in payload and schema, Avro."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from tests.protocols.conformance.bombs import CHARGES, MIB, Bomb, avro, envelope, json_charges

_SOURCE = (
    '{"version":"3.6.1.Final","connector":"mysql","name":"inv","ts_ms":1767312000000,"snapshot":"false","db":"shop",'
    '"sequence":null,"ts_us":1767312000000000,"ts_ns":1767312000000000000,"table":"orders","server_id":1,"gtid":null,'
    '"file":"mysql-bin.000001","pos":4,"row":0,"thread":null,"query":null}'
)
# Charges that may be decoded: any JSON as a value without a schema, 1e-999999999 as 0.0.
_HARMLESS = frozenset({"a value of a small exponent", "a value of many members", "a value of many items"})


def bombs() -> Iterator[Bomb]:
    """The bombs of debezium-mysql."""
    yield from json_charges("debezium-mysql", _SOURCE, {"schemas.enable": "false"}, "%s", _HARMLESS)
    sound = envelope(_SOURCE, '{"id":1}')
    for name, charge in CHARGES.items():
        yield Bomb("debezium-mysql", f"a schema of {name}", f'{{"schema":{charge},"payload":{sound}}}'.encode())
    nested = '{"type":"array","items":' * 40 + '{"type":"int8"}' + "}" * 40
    yield Bomb("debezium-mysql", "a schema of arrays", f'{{"schema":{nested},"payload":{{}}}}'.encode())
    yield Bomb("debezium-mysql", "gzip", gzip.compress(bytes(16 * MIB)))
    yield from avro("debezium-mysql")
