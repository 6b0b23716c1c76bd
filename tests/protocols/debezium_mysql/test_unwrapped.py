"""Rows without envelope beside other events, and the members that transforms have added to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.model.event import Heartbeat, SchemaChange, TransactionMark
from tests.protocols.debezium_mysql.records import DEBEZIUM, SOURCE, bytes_of, decode, encode, errors, record, rows

MARK = b'{"status":"BEGIN","id":"file=a,pos=1","event_count":null,"data_collections":null,"ts_ms":5}'
NOTE = b'{"id":"7","type":"STARTED","aggregate_type":"Snapshot","additional_data":null,"timestamp":5}'


def unwrapped(value: bytes, **more: Any) -> dict[str, Any]:
    """Op and columns of a row without envelope; asserts that the record comes back as it was."""
    options = {name.replace("_", "."): more[name] for name in more.keys() - {"key", "headers"}}
    sent = {**record(more.get("key"), value), "headers": more.get("headers", [])}
    changes = decode(sent, unwrap="true", **options)
    assert errors(changes) == []
    assert bytes_of(encode(changes, unwrap="true", **{"tombstones.on.delete": "false"}, **options)) == [sent]
    (row,) = rows(changes)
    return {"op": row.op, **(row.after or row.before or {})}


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":1,"status":"BEGIN","event_count":3}',
        b'{"id":1,"status":"BEGIN","event_count":3,"data_collections":"x","ts_ms":5}',
        b'{"id":2,"op":"c","source":"web"}',
        b'{"op":"c","source":"web","before":null,"after":null,"ts_ms":5}',
        b'{"ddl":"x","source":"y","databaseName":"z"}',
        b'{"ts_ms":5}',
        b'{"id":1,"type":"x","data":"y"}',
        b'{"type":"x","data":null}',
        NOTE,
        b'{"schema":5,"payload":6}',
    ],
)
def test_names_of_columns_do_not_decide_what_a_record_is(value: bytes) -> None:
    columns = list(json.loads(value))
    for marked, op in ((value, "upsert"), (value[:-1] + b',"__deleted":"true"}', "delete")):
        changes = decode(record(None, marked), unwrap="true")
        (row,) = rows(changes)
        assert (row.op, list(row.after or row.before or {}), changes.control) == (op, columns, [])
        assert bytes_of(encode(changes, unwrap="true", **{"tombstones.on.delete": "false"})) == [record(None, marked)]


@pytest.mark.parametrize(
    "topic, key, value, kind",
    [
        ("srv1.transaction", b'{"id":"file=a,pos=1"}', MARK, TransactionMark),
        ("eu.srv1.transaction", b'{"id":"file=a,pos=1"}', MARK, TransactionMark),
        ("all", None, MARK, TransactionMark),
        ("__debezium-heartbeat.srv1", b'{"serverName":"srv1"}', b'{"ts_ms":5}', Heartbeat),
        ("a.b.c", b'{"serverName":"srv1"}', b'{"ts_ms":5}', Heartbeat),
        ("__debezium-heartbeat.eu.srv1", None, b'{"ts_ms":5}', Heartbeat),
        ("srv1", b'{"databaseName":"inv"}', b'{"source":%b,"databaseName":"inv","ddl":"DROP TABLE t"}', SchemaChange),
        ("notes", b'{"id":"7"}', NOTE, Heartbeat),
        ("signals", b"srv1", b'{"type":"log","data":{}}', Heartbeat),
    ],
)
def test_events_beside_rows_have_their_own_topic(topic: str, key: bytes | None, value: bytes, kind: type) -> None:
    sent = {**record(key, value.replace(b"%b", SOURCE.encode())), "topic": topic}
    changes = decode(sent, unwrap="true")
    assert errors(changes) == []
    assert [type(event) for event in changes.control] == [kind]
    assert bytes_of(encode(changes, unwrap="true")) == [sent]


def test_the_name_of_the_schema_decides_where_there_is_one() -> None:
    schema = (
        b'{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"ts_ms"}],"optional":false,'
    )
    row = {**record(None, schema + b'"name":"srv1.inv.t.Value"},"payload":{"ts_ms":5}}'), "topic": "ticks"}
    beat = record(None, schema + b'"name":"io.debezium.connector.common.Heartbeat","version":1},"payload":{"ts_ms":5}}')
    changes = decode(row, {**beat, "offset": 42}, unwrap="true")
    assert [(r.shape.table, r.after) for r in rows(changes)] == [("t", {"ts_ms": 5})]
    assert [type(event) for event in changes.control] == [Heartbeat]


@pytest.mark.parametrize("deleted", [b'"true"', b"true"])
@pytest.mark.parametrize(
    "form",
    [
        b'{"id":1,"__deleted":%b,"ingested_at":5}',
        b'{"ingested_at":5,"id":1,"__deleted":%b}',
        b'{"__deleted":%b,"id":1,"ingested_at":5}',
        b'{"id":1,"__deleted":%b,"__op":"d","__source_ts_ms":7,"ingested_at":5}',
        b'{"id":1,"__op":"d","ingested_at":5,"__deleted":%b}',
        b'{"id":1,"ingested_at":5,"__name":"srv","__deleted":%b,"__row":0}',
    ],
)
def test_deletes_are_found_wherever_their_mark_is(form: bytes, deleted: bytes) -> None:
    assert unwrapped(form % deleted) == {"op": "delete", "id": 1, "ingested_at": 5}


def test_other_members_with_two_underscores_are_columns() -> None:
    value = b'{"__id":1,"__name":"x","n":2,"__deleted":"false","__ingested":3,"__row_hash":4,"z":5,"__version":"v"}'
    row = unwrapped(value, key=b'{"__id":1}')
    assert row == {"op": "upsert", "__id": 1, "__name": "x", "n": 2, "__ingested": 3, "__row_hash": 4, "z": 5}


@pytest.mark.parametrize("value", [b"null", b"0", b'"yes"', b"0.5"])
def test_a_column_of_such_a_name_has_other_values(value: bytes) -> None:
    row = unwrapped(b'{"id":1,"__deleted":%b,"__op":"d"}' % value)
    assert (row["op"], set(row)) == ("delete", {"op", "id", "__deleted"})


def test_a_column_of_such_a_name_by_option() -> None:
    soft = b'{"id":1,"__deleted":"true","__op":"u"}'
    assert unwrapped(soft, delete_tombstone_handling_mode="drop") == {"op": "update", "id": 1, "__deleted": "true"}
    assert unwrapped(soft, add_fields="") == {"op": "delete", "id": 1, "__op": "u"}
    (error,) = errors(decode(record(None, soft), unwrap="true"))
    assert error == (
        "debezium-mysql: the op u and `__deleted` contradict each other; if one of them is a column, set the option "
        '"add.fields" or "delete.tombstone.handling.mode" as the transform has it (srv1.inv.t:0:41)'
    )


def test_added_members_may_have_another_prefix_and_other_names() -> None:
    value = b'{"id":1,"dbz_op":"d","dbz_table":"u","__op":"x","dbz_when":5}'
    prefixed = {"add_fields_prefix": "dbz_"}
    assert unwrapped(value, **prefixed) == {"op": "delete", "id": 1, "__op": "x", "dbz_when": 5}
    row = unwrapped(value, **prefixed, add_fields="op,table, source.ts_ms:when")
    assert row == {"op": "delete", "id": 1, "__op": "x"}
    assert unwrapped(b'{"id":1,"OPERATION":"d"}', add_fields_prefix="", add_fields="op:OPERATION") == {
        "op": "delete",
        "id": 1,
    }


@pytest.mark.parametrize(
    "data",
    [b"d", b'"d"', b'{"schema":{"type":"string","optional":true},"payload":"d"}'],
    ids=["text", "json", "schema"],
)
def test_headers_decide_where_the_row_does_not(data: bytes) -> None:
    header_list = [{"key": "__op", "value": data}, {"key": "__source_table", "value": b"u"}]
    assert unwrapped(b'{"id":1}', headers=header_list) == {"op": "delete", "id": 1}


def test_added_members_give_the_row_its_place() -> None:
    value = (
        b'{"id":1,"__op":"c","__source_file":"bin.000003","__source_pos":400,"__source_row":2,"__source_snapshot":"last",'
        b'"__source_server_id":7,"__source_gtid":null,"__source_ts_ms":1795248239121,"__deleted":"false"}'
    )
    changes = decode(record(None, value), unwrap="true")
    (row,), (table,) = rows(changes), changes.tables
    assert table.rows.column("sequence").to_pylist() == [3 << 40 | 400]
    assert (row.instant.us if row.instant else None) == 1795248239121000
    kept = {name: row.origin[name] for name in ("file", "pos", "row", "snapshot", "server_id")}
    assert kept == {"file": "bin.000003", "pos": 400, "row": 2, "snapshot": "last", "server_id": 7}
    assert "gtid" not in row.origin
    (table,) = decode(record(None, b'{"id":1,"__op":"c"}'), unwrap="true").tables
    assert table.rows.column("sequence").to_pylist() == [None]


@pytest.mark.parametrize(
    "options, error",
    [
        ({"add.fields": "a.b"}, "add.fields: 'a.b' is not <field>, <struct>.<field> or <field>:<name>"),
        ({"add.fields": "op:a:b"}, "add.fields: 'op:a:b' is not <field>, <struct>.<field> or <field>:<name>"),
        ({"add.fields.prefix": ""}, 'add.fields.prefix is empty: name the added members by the option "add.fields"'),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DEBEZIUM.read_options(options)
    assert error in str(raised.value)
