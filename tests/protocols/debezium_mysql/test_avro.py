"""Avro: recorded JSON, converted to records as the Avro converter writes them, has the same events and comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.connect import avro_schema, parts
from changefeed.connect.parts import Block
from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model import text
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols.base import Stores
from changefeed.wire import confluent
from changefeed.wire.avro import parse as avro_schema_of
from changefeed.wire.avro import writer as avro_writer
from tests.protocols.conformance.cases import Schemas
from tests.protocols.debezium_mysql.records import (
    DEBEZIUM,
    SPECIFIED_ENVELOPE,
    SPECIFIED_KEY,
    bytes_of,
    decode,
    encode,
    errors,
    log,
    one_insert,
    record,
)

CASES = [
    "mysql-crud",
    "mariadb-types_stream",
    "mariadb-types_snapshot",
    "mariadb-types_time_connect",
    "mariadb-types_bigint_unsigned_precise",
    "mariadb-opt_tx_meta",
    "mariadb-opt_heartbeat",
    "mariadb-opt_src_type",
]


def stores() -> tuple[Schemas, Stores]:
    schemas = Schemas()
    return schemas, Stores(get_schema=schemas.get, register_schema=schemas.register)


def as_avro(data: bytes | None, subject: str, writer: parts.PartWriter) -> bytes | None:
    """The same key or value in Avro."""
    if data is None:
        return None
    part = parts.PartReader(None).read(data, "part")
    return writer.write(part.payload, Block(avro_schema.text(part.block.text), True), subject)


def in_avro(name: str, stores_in_memory: Stores) -> list[dict[str, Any]]:
    writer, made = parts.PartWriter("debezium-mysql", stores_in_memory.get_schema, stores_in_memory.register_schema), []
    for row in log(name):
        try:
            key = as_avro(row["key"], f"{row['topic']}-key", writer)
            made.append({**row, "key": key, "value": as_avro(row["value"], f"{row['topic']}-value", writer)})
        except Exception:
            assert "ird" in row["topic"]  # a name that Avro does not have; such a schema cannot be registered
    return made


def meaning(decoded: Decoded) -> list[dict[str, Any]]:
    """The events without the members that depend on the serialization."""
    events = [json.loads(line) for line in text.lines(decoded)]
    for event in events:
        for key in ("shape", "wire"):
            event.pop(key, None)
        for key in ("schemas", "wire"):
            (event.get("origin") or {}).pop(key, None)
    return [event for event in events if "ird" not in event.get("position", "") and event["kind"] != "shape"]


@pytest.mark.parametrize("name", CASES)
def test_avro_has_the_same_events_as_json(name: str) -> None:
    _, stores_in_memory = stores()
    records = in_avro(name, stores_in_memory)
    changes = decode(*records, stores=stores_in_memory)
    assert errors(changes) == []
    assert meaning(changes) == meaning(decode(*log(name)))


@pytest.mark.parametrize("name", CASES)
def test_avro_is_written_as_it_was_read(name: str) -> None:
    _, stores_in_memory = stores()
    records = in_avro(name, stores_in_memory)
    assert bytes_of(encode(decode(*records, stores=stores_in_memory), stores=stores_in_memory)) == records


@pytest.mark.parametrize("name", CASES)
def test_avro_is_written_from_its_canonical_text(name: str) -> None:
    _, stores_in_memory = stores()
    records = in_avro(name, stores_in_memory)
    (changes,) = text.parse(text.lines(decode(*records, stores=stores_in_memory)))
    assert bytes_of(encode(changes, stores=stores_in_memory)) == records


def test_schemas_of_foreign_rows_are_registered_as_specified() -> None:
    schemas, stores_in_memory = stores()
    encode(one_insert(), stores=stores_in_memory, converter="avro", **{"topic.prefix": "p"})
    assert [schemas.get(1), schemas.get(2)] == [SPECIFIED_KEY, SPECIFIED_ENVELOPE]


@pytest.mark.parametrize(
    "connect, avro",
    [
        (
            '{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
            '"parameters":{"scale":"2","connect.decimal.precision":"5"},"field":"bal"}',
            '{"name":"bal","type":["null",{"type":"bytes","scale":2,"precision":5,"connect.version":1,'
            '"connect.parameters":{"scale":"2","connect.decimal.precision":"5"},'
            '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}],"default":null}',
        ),
        (
            '{"type":"int64","optional":false,"name":"io.debezium.time.Timestamp","version":1,"default":0,"field":"ts"}',
            '{"name":"ts","type":{"type":"long","connect.version":1,"connect.default":0,'
            '"connect.name":"io.debezium.time.Timestamp"},"default":0}',
        ),
        (
            '{"type":"int16","optional":true,"doc":"a flag","default":1,"field":"f"}',
            '{"name":"f","type":[{"type":"int","connect.doc":"a flag","connect.default":1,"connect.type":"int16"},"null"],'
            '"default":1}',
        ),
        (
            '{"type":"float","optional":true,"default":0.1,"field":"x"}',
            '{"name":"x","type":[{"type":"float","connect.default":0.1},"null"],"default":0.10000000149011612}',
        ),
        (
            '{"type":"bytes","optional":false,"default":"/wA=","field":"b"}',
            '{"name":"b","type":{"type":"bytes","connect.default":"ÿ\\u0000"},"default":"ÿ\\u0000"}',
        ),
    ],
)
def test_fields_are_derived_as_specified(connect: str, avro: str) -> None:
    struct = f'{{"type":"struct","fields":[{connect}],"optional":false,"name":"a.T"}}'
    expected = f'{{"type":"record","name":"T","namespace":"a","fields":[{avro}],"connect.name":"a.T"}}'
    assert avro_schema.text(struct) == expected


def test_avro_without_a_registry_is_dead_and_names_the_option() -> None:
    assert errors(decode(record(None, b"\0\0\0\0\7\2"))) == [
        'debezium-mysql: the record is Avro: set option "schema-registry" to read its schema (srv1.inv.t:0:41)'
    ]


def test_an_unknown_schema_is_dead_with_its_id() -> None:
    _, stores_in_memory = stores()
    changes = decode(record(None, b"\0\0\0\0\7\2"), stores=stores_in_memory)
    assert errors(changes) == ["debezium-mysql: schema 7 is not in the schema registry (srv1.inv.t:0:41)"]
    assert [(letter.reason, letter.schema_id) for letter in changes.dead] == [("unknown-schema", 7)]


def test_writing_avro_without_a_registry_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        encode(one_insert(), converter="avro")
    assert str(caught.value) == 'Avro records need a schema registry: set option "schema-registry"'


def test_a_name_that_avro_does_not_have_is_refused() -> None:
    _, stores_in_memory = stores()
    with pytest.raises(UnsupportedError) as caught:
        encode(one_insert(column="co-l"), stores=stores_in_memory, converter="avro")
    assert "changefeed.d.t.Value has a field without a valid, unique name: 'co-l'" in str(caught.value)
    adjusted = {"field.name.adjustment.mode": "avro"}
    assert encode(one_insert(column="co-l"), stores=stores_in_memory, converter="avro", **adjusted).num_rows == 1


def test_a_namespace_is_written_as_the_topic_has_it() -> None:
    """Java checks the name of a record alone: `my-server.inv.t.Envelope` is written and read without adjustment."""
    _, stores_in_memory = stores()
    written = encode(
        one_insert(table="we-ird"), stores=stores_in_memory, converter="avro", **{"topic.prefix": "my-server"}
    )
    assert errors(decode(*bytes_of(written), stores=stores_in_memory)) == []


@pytest.mark.parametrize("name", ["mysql-crud", "mariadb-types_stream"])
def test_avro_cut_anywhere_is_dead(name: str) -> None:
    _, stores_in_memory = stores()
    for row in in_avro(name, stores_in_memory)[-12:]:
        if row["value"] is None:
            continue
        cut = [{**row, "value": row["value"][:at]} for at in range(len(row["value"]))]
        changes = DEBEZIUM.decoder(DEBEZIUM.read_options({}), stores_in_memory).decode(
            record_batch([*cut, {**row, "value": row["value"] + b"\0"}])
        )
        assert (len(changes.dead), changes.tables, changes.control) == (len(cut) + 1, [], [])


@pytest.mark.parametrize(
    "avro, sent, t, shown",
    [
        (
            {"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": 10},
            b"\x04\xd2",
            "decimal(10,2)",
            "12.34",
        ),
        ({"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": 64}, b"\x04\xd2", "decimal", "12.34"),
        ({"type": "int", "logicalType": "date"}, 20001, "date", "2024-10-05"),
        ({"type": "int", "logicalType": "time-millis"}, 1500, "time(3)", "00:00:01.500"),
        ({"type": "long", "logicalType": "time-micros"}, 1500, "time(6)", "00:00:00.001500"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1500, "datetime(3)", "1970-01-01 00:00:01.500"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1500, "datetime(6)", "1970-01-01 00:00:00.001500"),
        ({"type": "long", "logicalType": "of-tomorrow"}, 1500, "bigint", 1500),
    ],
)
def test_without_connects_names_avros_logical_types_are_understood(
    avro: dict[str, Any], sent: Any, t: str, shown: Any
) -> None:
    schemas, stored = stores()
    row = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": ["null", avro], "default": None}]}
    names = [{"name": name, "type": "string"} for name in ("db", "table")]
    fields: list[dict[str, Any]] = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": names}},
        {"name": "op", "type": "string"},
    ]
    schema = json.dumps({"type": "record", "name": "Envelope", "fields": fields})
    tree = {"before": None, "after": {"v": sent}, "source": {"db": "inv", "table": "t"}, "op": "c"}
    out = bytearray(confluent.header(schemas.register("s", schema)))
    avro_writer(avro_schema_of(schema))(tree, out)
    log_record = record(None, bytes(out))
    changes = decode(log_record, stores=stored)
    assert errors(changes) == []
    shape, line = (json.loads(text_line) for text_line in text.lines(changes))
    assert (shape["columns"][0]["type"], line["after"]["v"]) == (t, shown)
    assert bytes_of(encode(changes, stored)) == [log_record]


@pytest.mark.parametrize(
    "value, headers, named",
    [
        (b"\x03\x00" + bytes(16) + b"x", [], "AWS Glue Schema Registry"),
        (b"\x00" + bytes(7) + b"\x07\x02", [], "an id of eight bytes, as Apicurio's serializer writes it"),
        (b"\x02\x04", ["apicurio.value.globalId"], "apicurio.registry.headers.enabled=false"),
        (b"\x02\x04", ["__value_schema_id"], "The header __value_schema_id shows that the schema's id is in a header"),
        (b"\x00\x00\x00\x00\x09{}", [], "as JsonSchemaConverter writes it"),
        (b"\x02\x04", [], 'Is "protocol" right for this topic?'),
    ],
)
def test_other_framings_are_named(value: bytes, headers: list[str], named: str) -> None:
    schemas, stored = stores()
    schemas.register("other", '{"type":"string"}')
    sent = {**record(None, value), "headers": [{"key": name, "value": b"1"} for name in headers]}
    (error,) = errors(decode(sent, stores=stored))
    assert named in error
