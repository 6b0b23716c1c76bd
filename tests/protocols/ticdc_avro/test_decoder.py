"""Cases in addition to the vectors: schemas that change, schema registries that fail, rows that are dead."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import SchemaRegistryError
from changefeed.model.batch import record_batch
from changefeed.protocols.base import Stores
from tests.protocols.conformance.cases import Schemas
from tests.protocols.ticdc_avro.messages import AVRO, INT, datum, decode, read, record, rows, schema

ONE = schema({"name": "id", "type": INT})
TWO = schema({"name": "id", "type": INT}, {"default": 7, "name": "n", "type": [INT, "null"]})


def test_a_schema_that_appears_later_is_requested() -> None:
    schemas = Schemas()
    decoder = AVRO.decoder(read({}), Stores(get_schema=schemas.get, register_schema=schemas.register))
    first = datum(schemas, ONE, b"\x02")
    later = first[:4] + bytes([first[4] + 1]) + b"\x02\x02"
    changes = decoder.decode(record_batch([record(first, first), record(None, later)]))
    assert [letter.reason for letter in changes.dead] == ["unknown-schema"]
    assert changes.dead[0].schema_id == 2
    schemas.register("later", TWO)
    changes = decoder.decode(record_batch([record(None, later), record(first, first)]))
    assert [(len(t), [c.name for c in t.shape.columns]) for t in changes.tables] == [(1, ["id", "n"]), (1, ["id"])]
    assert rows(changes)[0].after == {"id": 1, "n": None}


def test_a_registry_that_cannot_be_asked_stops_the_decoder() -> None:
    def away(schema_id: int) -> str:
        raise SchemaRegistryError("the schema registry is away", transient=True)

    decoder = AVRO.decoder(read({}), Stores(get_schema=away))
    with pytest.raises(SchemaRegistryError) as caught:
        decoder.decode(record_batch([record(None, b"\0\0\0\0\x07\x02")]))
    assert caught.value.transient


def test_schemas_are_requested_once() -> None:
    schemas, asked = Schemas(), []
    data = datum(schemas, ONE, b"\x02")

    def get(schema_id: int) -> str:
        asked.append(schema_id)
        return schemas.get(schema_id)

    decoder = AVRO.decoder(read({}), Stores(get_schema=get))
    for _ in range(3):
        decoder.decode(record_batch([record(data, data)] * 5))
    assert asked == [1, 1]  # once as a value's schema, once as a key's


def test_a_bad_schema_is_read_once() -> None:
    asked = []

    def get(schema_id: int) -> str:
        asked.append(schema_id)
        return "{"

    decoder = AVRO.decoder(read({}), Stores(get_schema=get))
    changes = decoder.decode(record_batch([record(None, b"\0\0\0\0\x07\x02")] * 50))
    assert (len(changes.dead), asked) == (50, [7])


def test_dead_letters_name_the_table_and_the_schema() -> None:
    schemas = Schemas()
    data = datum(schemas, ONE, b"\x02")
    changes = decode(schemas, record(data, data + b"\0"), record(data + b"\0", None), record(data, b"\x03\0"))
    assert [(letter.database, letter.table, letter.schema_id) for letter in changes.dead] == [("shop", "t", 1)] * 3


def test_classics_zero_on_a_split_insert_is_not_a_mismatch() -> None:
    extension: list[dict[str, Any]] = [
        {"name": "_tidb_op", "type": "string"},
        {"name": "_tidb_row_level_checksum", "type": "string"},
    ]
    schemas = Schemas()
    data = datum(schemas, schema({"name": "id", "type": INT}, *extension), b"\x02\x02c\x020")
    assert [row.origin for row in rows(decode(schemas, record(None, data)))] == [{"_tidb_row_level_checksum": "0"}]


def test_a_dead_row_leaves_no_shape_that_a_null_could_join() -> None:
    time = {"type": "string", "connect.parameters": {"tidb_type": "DATETIME"}}
    fields = {"name": "at", "type": ["null", time]}, {"name": "_tidb_commit_ts", "type": "long"}
    schemas = Schemas()

    def row(at: bytes, ts: bytes) -> dict[str, Any]:
        return record(None, datum(schemas, schema(*fields), at + ts))

    plain, tenths = b"\x02\x262026-01-02 03:04:05", b"\x02\x2a2026-01-02 03:04:05.1"
    changes = decode(schemas, row(plain, b"\x01"), row(tenths, b"\x02"), row(b"\x00", b"\x02"))
    assert len(changes.dead) == 1
    assert [(str(t.shape.columns[0].type), len(t)) for t in changes.tables] == [("datetime(1)", 2)]
