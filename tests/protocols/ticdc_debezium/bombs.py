"""Bombs of ticdc-debezium: JSON in payload and schema, compressed values."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocols.conformance.bombs import CHARGES, MIB, Bomb, envelope, inflating, json_charges

_SOURCE = (
    '{"version":"2.4.0.Final","connector":"TiCDC","name":"default","ts_ms":1767225626357,"snapshot":"false","db":"shop",'
    '"table":"orders","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,"commit_ts":463267594595935302,"cluster_id":"default"}'
)
# Charges that may be decoded: 1e-999999999 as 0.0, the last of a member's values.
_HARMLESS = frozenset({"a value of a small exponent", "an image of a member twice, often"})


def bombs() -> Iterator[Bomb]:
    """The bombs of ticdc-debezium."""
    yield from json_charges("ticdc-debezium", _SOURCE, {}, '{"payload":%s}', _HARMLESS)
    sound = envelope(_SOURCE, '{"id":1}')
    for name, charge in CHARGES.items():
        yield Bomb("ticdc-debezium", f"a schema of {name}", f'{{"payload":{sound},"schema":{charge}}}'.encode())
    options = {"large-message-handle-compression": "lz4", "max-inflated-bytes": MIB}
    yield Bomb("ticdc-debezium", "lz4 of zeros", inflating("lz4", 64 * MIB), options=options)
