"""Notifications and signals are heartbeats that come back byte for byte; no record is lost."""

from __future__ import annotations

import pytest

from changefeed.connect import avro_schema, parts
from changefeed.connect.parts import Block
from changefeed.model import text
from changefeed.model.event import Heartbeat, Instant
from changefeed.protocols.base import Stores
from changefeed.protocols.debezium_mysql import blocks
from changefeed.protocols.debezium_mysql.notices import MEMBERS
from tests.protocols.conformance.cases import Schemas
from tests.protocols.debezium_mysql.records import HINT, UNWRAP, bytes_of, decode, encode, errors, record

NOTE = '{"id":"7","type":"STARTED","aggregate_type":"Initial Snapshot","additional_data":%s,"timestamp":1795248611808}'
MORE = '{"status":"SUCCEEDED","connector_name":"srv1"}'


def there_and_back(sent: dict[str, object], stores: Stores | None = None) -> Heartbeat:
    """The one heartbeat of a record; asserts that it is written as it was read, also from its canonical text."""
    changes = decode(sent, stores=stores)
    assert (errors(changes), changes.tables, len(changes.control)) == ([], [], 1)
    (again,) = text.parse(text.lines(changes))
    assert bytes_of(encode(changes, stores=stores)) == bytes_of(encode(again, stores=stores)) == [sent]
    (event,) = changes.control
    assert isinstance(event, Heartbeat)
    assert event.sequence is None  # it promises nothing about rows
    return event


@pytest.mark.parametrize("more", [MORE, "{}", "null"])
@pytest.mark.parametrize("key", ['{"id":"7"}', '{"id":"8"}', None])
@pytest.mark.parametrize("with_schema", [True, False])
def test_notifications_come_back(more: str, key: str | None, with_schema: bool) -> None:
    value = NOTE % more
    if with_schema:
        value = f'{{"schema":{blocks.NOTIFICATION},"payload":{value}}}'
        key = key and f'{{"schema":{blocks.NOTIFICATION_KEY},"payload":{key}}}'
    event = there_and_back(record(None if key is None else key.encode(), value.encode(), topic="notif"))
    assert event.instant == Instant(1795248611808000, 3)
    assert event.origin["notification"]["type"] == "STARTED"


def test_notifications_in_avro_come_back() -> None:
    schemas = Schemas()
    stores = Stores(get_schema=schemas.get, register_schema=schemas.register)
    writer, reader = (
        parts.PartWriter("debezium-mysql", stores.get_schema, stores.register_schema),
        parts.PartReader(None),
    )
    value = reader.read(f'{{"schema":{blocks.NOTIFICATION},"payload":{NOTE % MORE}}}'.encode(), "value")
    key = reader.read(f'{{"schema":{blocks.NOTIFICATION_KEY},"payload":{{"id":"7"}}}}'.encode(), "key")
    sent = [
        writer.write(part.payload, Block(avro_schema.text(part.block.text), True), f"notif-{what}")
        for part, what in ((key, "key"), (value, "value"))
    ]
    event = there_and_back(record(sent[0], sent[1], topic="notif"), stores)
    assert event.origin["notification"]["additional_data"] == {"status": "SUCCEEDED", "connector_name": "srv1"}


@pytest.mark.parametrize("key", [b"srv1", b'{"id":1}', b"\xff\x00", b"", None])
@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"execute-snapshot","data": {"data-collections": ["inv.t"], "type": "INCREMENTAL"}}',
        b'{"id":"1", "type":"log", "data":{"message":"\\u00e9"}}\n',
        b'{"data":null,"type":"stop-snapshot"}',
    ],
)
def test_signals_come_back_verbatim(key: bytes | None, value: bytes) -> None:
    event = there_and_back(record(key, value, topic="signals"))
    assert event.origin["signal"]["value"] == value.decode()


@pytest.mark.parametrize(
    "value, error",
    [
        ('{"type":"x","data":1}', f"value is not an event: it has type, data{UNWRAP} (srv1.inv.t:0:41){HINT}"),
        ('{"type":1,"data":{}}', f"value is not an event: it has type, data{UNWRAP} (srv1.inv.t:0:41){HINT}"),
        (NOTE % "[]", "[] is not an object of strings - at `notification.additional_data` (srv1.inv.t:0:41)"),
        (NOTE % '{"a":1}', '{"a":1} is not an object of strings - at `notification.additional_data` (srv1.inv.t:0:41)'),
        ('{"aggregate_type":"x"}', f"notification has aggregate_type, expected {', '.join(MEMBERS)} (srv1.inv.t:0:41)"),
        ((NOTE % "{}").replace('"7"', "7"), "7 is not a string - at `notification.id` (srv1.inv.t:0:41)"),
        (
            (NOTE % "{}").replace("1795248611808", "9e99"),
            "9e99 is not an integer - at `notification.timestamp` (srv1.inv.t:0:41)",
        ),
    ],
)
def test_other_notices_are_dead(value: str, error: str) -> None:
    changes = decode(record(None, value.encode()))
    assert errors(changes) == [f"debezium-mysql: {error}"]


@pytest.mark.parametrize("kind", ['["struct"]', '{"a":1}', "[]", "{}", "1", "null", "true"])
@pytest.mark.parametrize("place", ["value", "field", "items", "key"])
def test_a_type_that_is_not_a_string_is_a_dead_letter(kind: str, place: str) -> None:
    bad = {
        "value": f'{{"type":{kind},"fields":[]}}',
        "field": f'{{"type":"struct","fields":[{{"type":{kind},"field":"a"}}]}}',
        "items": f'{{"type":"array","items":{{"type":{kind}}}}}',
        "key": '{"type":"string"}',
    }[place]
    key = f'{{"schema":{{"type":{kind}}},"payload":{{"id":1}}}}'.encode() if place == "key" else None
    payload = '{"op":"c","before":null,"after":{"id":1},"source":{"db":"d","table":"t"}}'
    changes = decode(record(key, f'{{"schema":{bad},"payload":{payload}}}'.encode()))
    assert [letter.reason for letter in changes.dead] == ["schema"]


@pytest.mark.parametrize("schema", ['{"type":"string"}', '{"type":"map"}', '{"type":"struct","fields":[]}'])
@pytest.mark.parametrize(
    "payload",
    [
        '{"source":{"db":"inv"},"ts_ms":1,"databaseName":"inv","ddl":"CREATE DATABASE inv","tableChanges":[]}',
        '{"op":"t","before":null,"after":null,"source":{"db":"d","table":"t"}}',
        '{"op":"c","before":null,"after":{"id":1},"source":{"db":"d","table":"t"}}',
    ],
)
def test_a_schema_of_something_else_is_a_dead_letter(schema: str, payload: str) -> None:
    changes = decode(record(None, f'{{"schema":{schema},"payload":{payload}}}'.encode()))
    assert [letter.reason for letter in changes.dead] == ["schema"]
