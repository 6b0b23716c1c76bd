"""Canal-JSON: changes of other protocols, written with the producers' options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols import protocol
from tests.protocols.canal_json.records import COMMIT_TS, decoded, encoded, row, rows

SHAPE = TableShape(
    "shop",
    "orders",
    (
        Column("id", ColumnType("bigint", unsigned=True), False, True),
        Column("status", ColumnType.parse("enum('new','paid')"), False, False),
        Column("note", ColumnType.parse("varchar(40)"), True, False),
    ),
)


def changed(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, shape: TableShape = SHAPE) -> Decoded:
    builder = BatchBuilder()
    place, ms = Place("up", 1, 7), COMMIT_TS >> 18
    builder.add(shape, place, op, before=before, after=after, commit_ts=COMMIT_TS, commit_time=ms)
    return Decoded(builder.build())


OLD = {"id": 2**64 - 1, "status": "new", "note": None}
NEW = {**OLD, "status": "paid"}
UPDATE = changed("update", OLD, NEW)


def test_an_update_as_the_new_architecture_writes_it() -> None:
    assert encoded(UPDATE, enable_tidb_extension=True) == [
        b'{"id":0,"database":"shop","table":"orders","pkNames":["id"],"isDdl":false,"type":"UPDATE","es":1767225626357,'
        b'"ts":1767225626357,"sql":"","sqlType":{"id":3,"status":4,"note":12},"mysqlType":{"id":"bigint unsigned",'
        b'"status":"enum","note":"varchar"},"old":[{"id":"18446744073709551615","status":"1","note":null}],"data":[{'
        b'"id":"18446744073709551615","status":"2","note":null}],"_tidb":{"commitTs":463267594595935302}}'
    ]


def test_an_update_as_canal_writes_it() -> None:
    assert encoded(UPDATE, profile="canal") == [
        b'{"data":[{"id":"18446744073709551615","status":"2","note":null}],"database":"shop","es":1767225626357,"gtid":"",'
        b'"id":0,"isDdl":false,"mysqlType":{"id":"bigint unsigned","status":"enum(\'new\',\'paid\')","note":"varchar(40)"},'
        b'"old":[{"status":"1"}],"pkNames":["id"],"sql":"","sqlType":{"id":3,"status":4,"note":12},"table":"orders",'
        b'"ts":1767225626357,"type":"UPDATE"}'
    ]


@pytest.mark.parametrize(
    "options, old",
    [
        ({}, [{"id": "18446744073709551615", "status": "1", "note": None}]),
        ({"only_output_updated_columns": True}, [{"status": "1"}]),
        ({"content_compatible": True}, [{"status": "1"}]),
    ],
)
def test_old_has_the_columns_that_the_options_select(options: dict[str, Any], old: Any) -> None:
    assert json.loads(encoded(UPDATE, **options)[0])["old"] == old


def test_members_are_there_with_content_compatible() -> None:
    (event,) = rows(decoded(*encoded(UPDATE, content_compatible=True)))
    assert (event["before"]["status"], event["after"]["status"]) == ("new", "paid")


def test_an_upsert_is_an_update_without_old_rows_and_a_row_of_a_snapshot_an_insert() -> None:
    (upsert,), (read,) = encoded(changed("upsert", None, NEW)), encoded(changed("read", None, NEW))
    assert (json.loads(upsert)["type"], json.loads(upsert)["old"]) == ("UPDATE", None)
    assert json.loads(read)["type"] == "INSERT"
    assert [event["op"] for event in rows(decoded(upsert, read))] == ["update", "insert"]


def test_a_delete_may_have_its_handle_key_alone() -> None:
    (value,) = encoded(changed("delete", NEW, None), delete_only_output_handle_key_columns=True)
    message = json.loads(value)
    assert (message["data"], message["mysqlType"]) == ([{"id": "18446744073709551615"}], {"id": "bigint unsigned"})


def test_a_row_that_is_too_large_has_its_handle_key_alone() -> None:
    large = changed("insert", None, {**NEW, "note": "x" * 200})
    options: dict[str, Any] = {
        "enable_tidb_extension": True,
        "large_message_handle_option": "handle-key-only",
        "max_message_bytes": 400,
    }
    (value,) = encoded(large, **options)
    assert json.loads(value)["_tidb"] == {"commitTs": COMMIT_TS, "onlyHandleKey": True}
    (event,) = rows(decoded(value))
    assert (event["after"], event["origin"]["ohk"]) == ({"id": 2**64 - 1}, True)
    with pytest.raises(
        UnsupportedError, match=r"needs a message of 5\d\d bytes, max-message-bytes is 400 \(ErrMessageT"
    ):
        encoded(large, enable_tidb_extension=True, max_message_bytes=400)


def test_a_column_of_nulls_without_a_type_is_refused() -> None:
    shape = TableShape("shop", "t", (Column("v", ColumnType("null")),))
    with pytest.raises(UnsupportedError) as caught:
        encoded(changed("insert", None, {"v": None}, shape))
    assert str(caught.value).startswith("canal-json cannot carry shop.t.v of type null")


def schema_change(action: str, ddl: str) -> Decoded:
    time = Instant((COMMIT_TS >> 18) * 1000, 3)
    return Decoded(control=[SchemaChange(action, "shop", "t", ddl, Place("up", 0, 1), None, COMMIT_TS, time)])


@pytest.mark.parametrize(
    "action, ddl, kind",
    [
        ("create_table", "CREATE TABLE t (id INT)", "CREATE"),
        ("drop_table", "DROP TABLE t", "ERASE"),
        ("truncate_table", "TRUNCATE TABLE t", "TRUNCATE"),
        ("rename_table", "RENAME TABLE t TO u", "RENAME"),
        ("add_column", "ALTER TABLE t ADD COLUMN a INT", "ALTER"),
        ("add_index", "CREATE INDEX i ON t (a)", "CINDEX"),
        ("drop_index", "DROP INDEX i ON t", "DINDEX"),
        ("create_database", "CREATE DATABASE shop", "QUERY"),
    ],
)
def test_ddl_has_the_type_that_the_producers_give_it(action: str, ddl: str, kind: str) -> None:
    (value,) = encoded(schema_change(action, ddl))
    assert (json.loads(value)["type"], json.loads(value)["sql"]) == (kind, ddl)
    (event,) = decoded(value).control
    assert isinstance(event, SchemaChange)
    assert (event.type, event.ddl) == (action, ddl)


def test_with_new_partitions_ddl_goes_to_partition_0_and_marks_to_all() -> None:
    canal = protocol("canal-json")
    encoder = canal.encoder(canal.read_options({"partition-num": 3, "enable-tidb-extension": True}), None)  # type: ignore[arg-type]  # no stores
    made = schema_change("add_column", "ALTER TABLE t ADD COLUMN a INT")
    made.control.append(Resolved(COMMIT_TS, Place("up", 0, 2, None, 1)))
    written = encoder.encode(made).to_pylist()
    assert [(r["partition"], json.loads(r["value"])["type"]) for r in written] == [
        (0, "ALTER"),
        (0, "TIDB_WATERMARK"),
        (1, "TIDB_WATERMARK"),
        (2, "TIDB_WATERMARK"),
    ]


def test_marks_need_the_extension() -> None:
    marks = Decoded(control=[Resolved(COMMIT_TS, Place("up", 0, 2))])
    assert encoded(marks) == []
    assert encoded(marks, enable_tidb_extension=True) == [
        b'{"id":0,"database":"","table":"","pkNames":null,"isDdl":false,"type":"TIDB_WATERMARK","es":1767225626357,'
        b'"ts":1767225626357,"sql":"","sqlType":null,"mysqlType":null,"data":null,"old":null,'
        b'"_tidb":{"watermarkTs":463267594595935302}}'
    ]


def test_bytes_that_are_not_utf8_are_written_as_they_were() -> None:
    value = row([{"id": "1", "a": "@"}]).encode().replace(b"@", b"\xff")
    changes = decoded(value)
    assert rows(changes)[0]["irregular"]["a"] is not None
    assert encoded(changes) == [value]


@pytest.mark.parametrize(
    "options, error",
    [
        (
            {"large-message-handle-option": "handle-key-only"},
            "large message handle is set to handle-key-only, protocol is canal-json, but enable-tidb-extension is false",
        ),
        (
            {"large-message-handle-option": "claim-check", "enable-tidb-extension": "true"},
            "large-message-handle-option is set to claim-check, but the claim-check-storage-uri is empty",
        ),
        (
            {"large-message-handle-option": "drop"},
            "unknown large-message-handle-option drop; known: none, handle-key-only, cl",
        ),
        ({"max-message-bytes": "0"}, "invalid max-message-bytes 0"),
        (
            {"large-message-handle-compression": "zip"},
            "large message handle compression is not supported, got zip; known: ",
        ),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        protocol("canal-json").read_options(options)
    assert error in str(caught.value)


def test_compressed_values_come_back() -> None:
    for kind in ("snappy", "lz4"):
        (value,) = encoded(UPDATE, large_message_handle_compression=kind)
        assert not value.startswith(b"{")
        assert len(rows(decoded(value, large_message_handle_compression=kind))) == 1
        recognize, likely = protocol("canal-json").recognize, protocol("canal-json").likely
        assert recognize is not None
        assert likely is not None
