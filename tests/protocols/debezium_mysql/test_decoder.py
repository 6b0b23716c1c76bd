"""The connector's records apart from their column values: every form that is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.model import text
from changefeed.model.event import SchemaChange
from tests.protocols.debezium_mysql.records import (
    CLOCK,
    HINT,
    SOURCE,
    bytes_of,
    decode,
    encode,
    errors,
    log,
    record,
    rows,
    value,
    with_schema,
)


@pytest.mark.parametrize(
    "mark, origin",
    [('"false"', {}), ("null", {"snapshot": None}), ("false", {"snapshot": False}), ('"last"', {"snapshot": "last"})],
)
def test_snapshot_marks_of_all_kinds(mark: str, origin: dict[str, Any]) -> None:
    sent = record(None, value(source=SOURCE.replace('"snapshot":"false"', f'"snapshot":{mark}')))
    changes = decode(sent)
    (row,) = rows(changes)
    assert {k: v for k, v in row.origin.items() if k == "snapshot"} == origin
    assert bytes_of(encode(changes)) == [sent]


@pytest.mark.parametrize(
    "envelope",
    [
        '"op":"c","ts_ms":5,"transaction":null',
        '"op":"c","ts_ms":5,"ts_us":5001,"ts_ns":5001002,"transaction":null',
        '"transaction":null,"op":"c","ts_ms":5,"ts_us":5001,"ts_ns":5001002',
        '"op":"c"',
        '"transaction":{"id":"g:1","total_order":2,"data_collection_order":1},"op":"c","ts_ms":7,"ts_us":5001,"ts_ns":null',
        '"op":"c","extra":{"a":1.50},"ts_ms":null',
    ],
)
def test_envelopes_of_all_versions_come_back(envelope: str) -> None:
    old = SOURCE.replace('"ts_us":1795248239121318,"ts_ns":1795248239121318000,', "").replace('"sequence":null,', "")
    for source in (SOURCE, old, old.replace('"row":0', '"row":0,"more":[1.0]')):
        sent = record(None, f'{{"before":null,"after":{{"id":1}},"source":{source},{envelope}}}'.encode())
        changes = decode(sent)
        assert errors(changes) == []
        (again,) = text.parse(text.lines(changes))
        assert bytes_of(encode(changes)) == bytes_of(encode(again)) == [sent]


@pytest.mark.parametrize(
    "file, pos, sequence",
    [
        ("mysql-bin.000001", 13400, (1 << 40) | 13400),
        ("binlog.000123", 4, (123 << 40) | 4),
        ("", 4, None),
        ("mysql-bin", 4, None),
        ("mysql-bin.000001", -1, None),
        ("mysql-bin.000001", 1 << 40, None),
        ("mysql-bin.99999999", 4, None),
    ],
)
def test_changes_are_ordered_by_their_binlog_position(file: str, pos: int, sequence: int | None) -> None:
    source = SOURCE.replace("mysql-bin.000001", file).replace('"pos":13400', f'"pos":{pos}')
    (table,) = decode(record(None, value(source=source))).tables
    assert table.rows.column("sequence").to_pylist() == [sequence]


def test_schema_changes_have_their_position_and_columns() -> None:
    changes = [e for e in decode(*log("mariadb-types_stream")).control if isinstance(e, SchemaChange)]
    assert all(e.sequence == (1 << 40) | e.origin["pos"] for e in changes)
    (table,) = [e for e in changes if e.table == "t_str" and e.columns]
    assert table.columns is not None
    assert {c.name: str(c.type) for c in table.columns} == {
        "id": "int",
        "c5": "char(5)",
        "v20": "varchar(20)",
        "tt": "tinytext",
        "tx": "text",
        "mt": "mediumtext",
        "lt": "longtext",
        "nc": "char(4)",
        "nv": "varchar(10)",
        "vl1": "varchar(20)",
        "vgbk": "varchar(20)",
        "vsj": "varchar(20)",
        "vu16": "varchar(20)",
        "vu3": "varchar(20)",
        "vasc": "varchar(20)",
        "vbin": "varbinary(20)",
        "cbin": "char(5)",
        "bi5": "binary(5)",
        "vb20": "varbinary(20)",
        "tb": "tinyblob",
        "bl": "blob",
        "mb": "mediumblob",
        "lb": "longblob",
        "en": "enum('a','b','c d','e,f','it''s','ü','\\')",
        "se": "set('x','y','z z','w')",
        "js": "longtext",
    }


def test_a_delete_without_its_row_has_the_key() -> None:
    sent = record(b'{"id":7}', value("null", "null", "d"))
    changes = decode(sent, **{"tombstones.on.delete": "false"})
    (row,) = rows(changes)
    assert (row.op, row.before, row.origin["absent"]) == ("delete", {"id": 7}, "before")
    assert bytes_of(encode(changes, **{"tombstones.on.delete": "false"})) == [sent]


def test_a_key_of_its_own_is_kept() -> None:
    sent = record(b'{"hidden":"\\uD83D\\uDC1F","id":1}', value())
    changes = decode(sent)
    (row,) = rows(changes)
    assert (row.shape.keys, row.origin["key"]) == (("id",), '{"hidden":"\\uD83D\\uDC1F","id":1}')
    assert bytes_of(encode(changes)) == [sent]


@pytest.mark.parametrize("key", [b"Struct{id=1}", b"1", b'"a"', b"[1]", b"\xff\x00", b"caf\xc3\xa9 {"])
def test_a_key_of_another_converter_is_kept(key: bytes) -> None:
    """The values have all columns. A tombstone has the key of its delete."""
    schema_change = f'{{"source":{SOURCE},"databaseName":"inv","ddl":"DROP TABLE t"}}'.encode()
    mark = b'{"status":"BEGIN","id":"7","event_count":null,"data_collections":null,"ts_ms":5}'
    truncate = value("null", "null", "t")
    values = [value(), value("null", '{"id":1}', "d"), None, truncate, schema_change, mark, b'{"ts_ms":5}']
    sent = [{**record(key, data), "offset": at} for at, data in enumerate(values)]
    changes = decode(*sent)
    assert errors(changes) == []
    assert [(row.op, row.shape.keys) for row in rows(changes)] == [("insert", ()), ("delete", ())]
    (again,) = text.parse(text.lines(changes))
    assert bytes_of(encode(changes)) == bytes_of(encode(again)) == sent
    with_block = record(key, with_schema('"type":"int32","optional":true', "1"))
    assert bytes_of(encode(decode(with_block))) == [with_block]


def test_a_delete_without_its_row_needs_the_columns_of_its_key() -> None:
    (error,) = errors(decode(record(b"Struct{id=1}", value("null", "null", "d"))))
    assert error == "debezium-mysql: delete has no image (srv1.inv.t:0:41)"


@pytest.mark.parametrize(
    "headers",
    [
        [("x", b"\xff"), ("y", None)],
        [("__debezium.context.runId", b'"1"')],
        [("__debezium.newkey", b"Struct{id=2003}")],
        [
            ("__debezium.context.connectorLogicalName", b'"other"'),
            ("__debezium.context.taskId", b'"0"'),
            ("__debezium.context.connectorName", b'"mysql"'),
            ("__debezium.context.runId", b'"1"'),
        ],
        [
            ("__debezium.context.connectorLogicalName", b"srv1"),
            ("__debezium.context.taskId", b"0"),
            ("__debezium.context.connectorName", b"mysql"),
            ("__debezium.context.runId", b"1"),
        ],
    ],
)
def test_headers_come_back(headers: list[tuple[str, bytes | None]]) -> None:
    header_list = [{"key": name, "value": data} for name, data in headers]
    sent = record(b'{"id":1}', value(), headers=header_list)
    assert bytes_of(encode(decode(sent))) == [sent]


def test_rows_without_envelope_by_option() -> None:
    sent = [r for r in log("mariadb-opt_unwrap") if r["topic"] != "srv1"]
    options = {"unwrap": "true", "tombstones.on.delete": "false"}
    changes = decode(*sent, **options)
    assert errors(changes) == []
    assert bytes_of(encode(changes, **options)) == sent
    first, *_, last = rows(changes)
    assert (first.op, first.shape.database, first.shape.table, first.shape.keys) == (
        "read",
        "inv",
        "customers",
        ("id",),
    )
    assert last.op == "insert"
    plain = record(b'{"id":1}', b'{"id":1,"__deleted":"true"}')
    (row,) = rows(decode(plain, **options))
    assert (row.op, row.before, row.shape.table) == ("delete", {"id": 1}, "t")
    assert bytes_of(encode(decode(plain, **options), **options)) == [plain]


def test_columns_that_look_added_come_before_others() -> None:
    sent = [
        record(b'{"__id":1}', b'{"__id":1,"__deleted":0.5,"__":2,"__op":"c"}'),
        {**record(b'{"__id":1}', None), "offset": 42},
    ]
    changes = decode(*sent, unwrap="true")
    insert, delete = rows(changes)
    assert (insert.op, insert.after) == ("insert", {"__id": 1, "__deleted": 0.5, "__": 2})
    assert (delete.op, delete.before) == ("delete", {"__id": 1})
    assert bytes_of(encode(changes, unwrap="true")) == sent


def test_without_envelope_a_renamed_topic_leaves_the_table_to_the_schema() -> None:
    changes = decode(*log("mysql-3.6.1-routed"), unwrap="true", **{"tombstones.on.delete": "false"})
    orders = [row for row in rows(changes) if row.shape.table == "orders"]
    assert [(row.shape.database, row.op, (row.after or row.before or {})["__"]) for row in orders] == [
        ("inv", "upsert", 1),
        ("inv", "upsert", 2),
        ("inv", "upsert", 3),
        ("inv", "delete", 2),
    ]


@pytest.mark.parametrize("topic", ["orders", "inv.orders"])
def test_without_envelope_and_schema_a_renamed_topic_leaves_no_table(topic: str) -> None:
    sent = {**record(None, b'{"id":1}'), "topic": topic}
    why = 'row does not name its database and table, nor does the topic; does "add.fields" have db,table?'
    assert errors(decode(sent, unwrap="true")) == [f"debezium-mysql: {why} ({topic}:0:41)"]


def test_without_envelope_topics_have_the_delimiter_of_the_option() -> None:
    sent = {**record(None, b'{"id":1}'), "topic": "srv1_inv_t"}
    (row,) = rows(decode(sent, unwrap="true", **{"topic.delimiter": "_"}))
    assert (row.shape.database, row.shape.table) == ("inv", "t")


def test_a_tombstone_without_envelopes_is_a_delete() -> None:
    """The transform leaves only the tombstone of a delete unless it is configured to rewrite deletes."""
    sent = [r for r in log("mysql-3.6.1-tombstones") if r["topic"] == "srv1.inv.b1"]
    changes = decode(*sent, unwrap="true")
    assert [(row.op, row.before) for row in rows(changes)[-3:]] == [("delete", {"id": i}) for i in (1, 2, 3)]
    assert rows(changes)[-1].shape.keys == ("id",)
    assert bytes_of(encode(changes, unwrap="true")) == sent
    assert rows(decode(*sent)) == rows(changes)[-3:]  # without the option, the rows are dead letters


def test_a_tombstone_after_the_row_of_its_delete_has_no_event() -> None:
    sent = [record(b'{"id":1}', b'{"id":1,"__deleted":"true"}'), {**record(b'{"id":1}', None), "offset": 42}]
    changes = decode(*sent, unwrap="true")
    assert [row.op for row in rows(changes)] == ["delete"]
    assert bytes_of(encode(changes, unwrap="true")) == sent


@pytest.mark.parametrize(
    "op, again",
    [
        (b"d", b"d"),
        (
            b'{"schema":{"type":"string","optional":true},"payload":"d"}',
            b'{"schema":{"type":"string","optional":false},"payload":"d"}',
        ),
    ],
)
def test_the_tombstone_of_a_delete_without_envelope_has_its_op_once_more(op: bytes, again: bytes) -> None:
    """Connectors 3.0 to 3.6 were seen to write it so with `add.headers`."""
    header_list = [{"key": "__op", "value": op}, {"key": "__db", "value": b"inv"}]
    delete = {**record(b'{"id":1}', b'{"id":1,"__deleted":"true"}'), "headers": header_list}
    sent = [delete, {**delete, "value": None, "offset": 42, "headers": [*header_list, {"key": "__op", "value": again}]}]
    assert bytes_of(encode(decode(*sent, unwrap="true"), unwrap="true")) == sent


def test_a_tombstone_without_a_valid_key_is_dead_without_envelopes() -> None:
    changes = decode(record(b"[1]", None), record(None, None), unwrap="true")
    assert errors(changes) == ["debezium-mysql: key is not an object (srv1.inv.t:0:41)"]


def test_a_row_without_envelope_needs_the_option() -> None:
    (error,) = errors(decode(record(None, b'{"id":1,"__deleted":"false"}')))
    why = 'value is not an event: it has id, __deleted; if it is a row without envelope, set the option "unwrap"'
    assert error == f"debezium-mysql: {why} (srv1.inv.t:0:41){HINT}"


def test_clock_is_one_reading() -> None:
    (row,) = rows(decode(record(None, value())))
    assert row.origin["envelope"] == {"ts_ns": 1795248239178174154}
    assert CLOCK.endswith("1795248239178174154")


def test_null_is_written_as_the_default_by_option() -> None:
    sent = record(None, with_schema('"type":"int32","optional":true,"default":18', "null"))
    changes = decode(sent)
    assert bytes_of(encode(changes)) == [sent]
    (written,) = bytes_of(encode(changes, **{"replace-null-with-default": "true"}))
    assert b'"after":{"v":18}' in written["value"]


@pytest.mark.parametrize(
    "members",
    [
        '"ts_ms":5,"databaseName":"inv","schemaName":null,"ddl":"DROP TABLE t","tableChanges":[]',
        '"databaseName":"inv","ddl":"DROP TABLE t","tableChanges":[]',
        '"ts_ms":5,"databaseName":"other","schemaName":"s","ddl":null,"tableChanges":[{"type":"DROP","id":"x","table":null}],"more":1.50',
    ],
)
def test_schema_changes_of_all_forms_come_back(members: str) -> None:
    for key in (b'{"databaseName":"inv"}', None, b'{"x":1}'):
        sent = record(key, f'{{"source":{SOURCE},{members}}}'.encode())
        changes = decode(sent)
        assert errors(changes) == []
        (again,) = text.parse(text.lines(changes))
        assert bytes_of(encode(changes)) == bytes_of(encode(again)) == [sent]


def test_tables_of_another_shape_have_no_columns() -> None:
    tables = (
        '[{"type":"CREATE","id":"x","table":{"columns":[{"name":"a","typeName":"ODD","length":null,"scale":null}]}}]'
    )
    sent = record(
        None,
        f'{{"source":{SOURCE},"databaseName":"inv","ddl":"CREATE TABLE t (a ODD)","tableChanges":{tables}}}'.encode(),
    )
    (change,) = decode(sent).control
    assert isinstance(change, SchemaChange)
    assert (change.type, change.columns) == ("other", None)


@pytest.mark.parametrize("bare", ["key", "value"])
def test_a_schema_may_be_on_one_side_alone(bare: str) -> None:
    records = []
    for row in log("mysql-crud"):
        if row[bare] is None:
            records.append(row)
        else:
            payload = row[bare].decode().split(',"payload":', 1)[1][:-1]
            records.append({**row, bare: payload.encode()})
    changes = decode(*records)
    assert errors(changes) == []
    assert bytes_of(encode(changes)) == records


def test_without_envelopes_the_tombstone_of_a_delete_with_one_is_its_own() -> None:
    sent = log("mysql-crud")
    assert any(record["value"] is None for record in sent)
    assert rows(decode(*sent, unwrap="true")) == rows(decode(*sent))
