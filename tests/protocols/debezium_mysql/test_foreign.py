"""Foreign events, written as the connector writes its own.

The strictest case takes recorded rows without any schema of their records, gives them the types of the schema-change
topic, and must write the recorded bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest

from changefeed.codec.encoding import encoder
from changefeed.columnar.events import Row, in_order
from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.statements import CreateTable
from tests.protocols.debezium_mysql.records import PLACE, TIME_US, bytes_of, decode, encode, log, one_insert

KEYS = "inv.orders:line,order_id;inv.uk_nn:b,a"  # a shape does not have the order of its key


def forgotten(decoded: Decoded, only: str) -> Iterator[tuple[Row, Decoded]]:
    """Each row with the columns of its table's DDL, and a shape without anything of this protocol."""
    tables: dict[tuple[str | None, str | None], tuple[Column, ...]] = {}
    for event in in_order(decoded):
        if isinstance(event, SchemaChange) and event.columns is not None:
            tables[event.database, event.table] = event.columns
        elif isinstance(event, Row):
            columns = tables[event.shape.database, event.shape.table]
            if only not in event.shape.table or any(c.default is not None for c in columns):
                continue  # the connector writes defaults, which a shape does not have
            keyed = tuple(replace(c, key=c.name in event.shape.keys, nullable=_nullable(event, c)) for c in columns)
            shape = TableShape(event.shape.database, event.shape.table, keyed)
            builder = BatchBuilder("us")
            time = None if event.instant is None else event.instant.us
            images: dict[str, Any] = {
                "before": _unwrapped(event.before, keyed),
                "after": _unwrapped(event.after, keyed),
            }
            images["commit_time"] = time
            images |= {"origin": canonical(event.origin), "transaction": event.transaction}
            builder.add(shape, event.place, event.op, **images)
            yield event, Decoded(builder.build())


def _unwrapped(image: dict[str, Any] | None, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """The image with the values of a bigint unsigned as they were before they became negative."""
    wide = {c.name for c in columns if c.type.unsigned}
    return image and {n: v + 2**64 if n in wide and v is not None and v < 0 else v for n, v in image.items()}


def _nullable(row: Row, column: Column) -> bool | None:
    return row.shape.by_name[column.name].nullable if column.name in row.shape.by_name else column.nullable


@pytest.mark.parametrize(
    "name, options",
    [
        ("mysql-crud", {"include.query": "true", "message.key.columns": KEYS}),
        ("mariadb-crud", {"include.query": "true", "connector": "mariadb", "message.key.columns": KEYS}),
        ("mariadb-opt_tx_meta", {"connector": "mariadb", "provide.transaction.metadata": "true"}),
        ("mariadb-opt_schemas_off", {"connector": "mariadb", "schemas.enable": "false"}),
    ],
)
def test_recorded_rows_are_written_again_from_their_definitions(name: str, options: dict[str, str]) -> None:
    recorded = {(r["topic"], r["offset"]): r for r in log(name)}
    seen = 0
    decoded = decode(*log(name))
    # A shape has no comments, which are the fields' doc; and without schema a decimal is not known to be one.
    only = "" if name.endswith("crud") else "trunc_me"
    for row, changes in forgotten(decoded, only):
        expected = recorded[row.place.topic, row.place.offset]
        own = [h for h in expected["headers"] if not h["key"].endswith("key")]
        (written, *_) = bytes_of(encode(changes, **{"topic.prefix": "srv1", **options}))
        assert {**written, "offset": row.place.offset} == {**expected, "headers": own}
        seen += 1
    assert seen == (6 if only else 49)


D, C = "io.debezium.", "org.apache.kafka.connect.data."


@pytest.mark.parametrize(
    "version, members",
    [
        ("2.3", ["before", "after", "source", "op", "ts_ms", "transaction"]),
        ("2.6", ["before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"]),
        ("2.7", ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]),
        ("3.0", ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]),
        ("3.6", ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]),
    ],
)
def test_versions_order_the_envelope(version: str, members: list[str]) -> None:
    (record,) = bytes_of(encode(one_insert(), **{"debezium-version": version}))
    value = json.loads(record["value"])
    assert list(value["payload"]) == members == [f["field"] for f in value["schema"]["fields"]]
    assert value["schema"]["version"] == (1 if version == "2.3" else 2)
    assert ("ts_us" in value["payload"]["source"]) == (version != "2.3")
    source = next(f for f in value["schema"]["fields"] if f["field"] == "source")
    assert source.get("version") == (1 if version == "3.6" else None)
    assert "first" in source["fields"][4]["parameters"]["allowed"] or version < "3"
    assert value["payload"]["source"]["version"].startswith(version)


def moved(**options: Any) -> list[dict[str, Any]]:
    columns = (Column("id", ColumnType("int"), False, True),)
    builder = BatchBuilder("us")
    images: dict[str, Any] = {"before": {"id": 1003}, "after": {"id": 2003}, "commit_time": TIME_US}
    builder.add(TableShape("inv", "customers", columns), Place("x", 0, 7), "update", **images)
    return bytes_of(encode(Decoded(builder.build()), **{"topic.prefix": "srv1"}, **options))


def test_a_key_that_changes_is_a_delete_a_tombstone_and_an_insert() -> None:
    deleted, tombstone, inserted = moved()
    schema = '{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,'
    schema += '"name":"srv1.inv.customers.Key"},"payload":{"id":%d}}'
    old, new = (schema % number for number in (1003, 2003))
    assert [r["key"].decode() for r in (deleted, tombstone, inserted)] == [old, old, new]
    assert deleted["headers"] == tombstone["headers"] == [{"key": "__debezium.newkey", "value": new.encode()}]
    assert inserted["headers"] == [{"key": "__debezium.oldkey", "value": old.encode()}]
    assert tombstone["value"] is None
    assert [(r["topic"], r["offset"]) for r in (deleted, tombstone, inserted)] == [
        ("srv1.inv.customers", offset) for offset in (7, 8, 9)
    ]
    assert len(moved(**{"tombstones.on.delete": "false"})) == 2


def test_names_are_adjusted_as_specified() -> None:
    columns = tuple(Column(name, ColumnType("int"), True, False) for name in ("co-l", "col 2", "列", "1st"))
    builder = BatchBuilder("us")
    image = {c.name: 1 for c in columns}
    builder.add(
        TableShape("inv", "we-ird $tbl", columns), PLACE, "insert", before=None, after=image, commit_time=TIME_US
    )
    changes = Decoded(builder.build())
    seen = {}
    for mode in ("none", "avro", "avro_unicode"):
        options = {f"{what}.name.adjustment.mode": mode for what in ("schema", "field")} | {"topic.prefix": "srv1"}
        (record,) = bytes_of(encode(changes, **options))
        value = json.loads(record["value"])
        seen[mode] = [record["topic"], value["schema"]["fields"][1]["name"], *value["payload"]["after"]]
    assert seen == {
        "none": ["srv1.inv.we-ird__tbl", "srv1.inv.we-ird__tbl.Value", "co-l", "col 2", "列", "1st"],
        "avro": ["srv1.inv.we-ird__tbl", "srv1.inv.we_ird__tbl.Value", "co_l", "col_2", "_", "_1st"],
        "avro_unicode": [
            "srv1.inv.we-ird__tbl",
            "srv1.inv.we_u002dird_u005f_u005ftbl.Value",
            "co_u002dl",
            "col_u00202",
            "_u5217",
            "_u0031st",
        ],
    }


def test_skipped_operations_are_not_written() -> None:
    assert encode(one_insert(), **{"skipped.operations": "c,t"}).num_rows == 0
    with pytest.raises(ConfigError) as caught:
        encode(one_insert(), **{"skipped.operations": "x"})
    assert str(caught.value) == "skipped.operations 'x' is not a list of c, u, d, t; or none"


@pytest.mark.parametrize(
    "text, message",
    [
        ("(:a", "message.key.columns: '(' is not a pattern: missing ), unterminated subpattern at position 0"),
        ("inv.t", "message.key.columns: 'inv.t' is not <regex of db.table>:<column>,…"),
    ],
)
def test_wrong_keys_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        encode(one_insert(), **{"message.key.columns": text})
    assert str(caught.value) == message


def test_keys_by_option_must_be_columns() -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(one_insert(), **{"message.key.columns": "d.t:nope"})
    assert str(caught.value) == "debezium-mysql: t has no column nope for its key (insert of d.t at e:0:7)"


def test_foreign_marks_follow_the_options() -> None:
    time = Instant(TIME_US, 6)
    marks = Decoded(control=[TransactionMark("end", "g:1", PLACE, 2, {"d.t": 2}, time), Resolved(1, PLACE)])
    assert encode(marks).num_rows == 0
    plain = {"schemas.enable": "false"}
    (record,) = bytes_of(encode(marks, **{"provide.transaction.metadata": "true"}, **plain))
    assert (record["key"], record["value"]) == (
        b'{"id":"g:1"}',
        b'{"status":"END","id":"g:1","event_count":2,"data_collections":[{"data_collection":"d.t","event_count":2}],'
        b'"ts_ms":1795248239121}',
    )
    (beat,) = bytes_of(encode(Decoded(control=[Heartbeat(PLACE, time)]), **plain))
    assert (beat["key"], beat["value"]) == (b'{"serverName":"changefeed"}', b'{"ts_ms":1795248239121}')
    (beat,) = bytes_of(encode(Decoded(control=[Heartbeat(PLACE, time)])))
    assert json.loads(beat["value"])["schema"]["name"] == "io.debezium.connector.common.Heartbeat"


@pytest.mark.parametrize(
    "known, block",
    [
        ({"id": "g:1", "order": 2, "table_order": 1}, {"id": "g:1", "total_order": 2, "data_collection_order": 1}),
        ({"id": "g:1"}, None),  # TiDB and Tencent DTS have the id alone
        ({"id": "g:1", "order": 2}, None),
        (None, None),
    ],
)
def test_a_transaction_block_is_complete_or_absent(known: dict[str, Any] | None, block: dict[str, Any] | None) -> None:
    row = one_insert(transaction=known)
    (record,) = bytes_of(encode(row, **{"provide.transaction.metadata": "true", "schemas.enable": "false"}))
    assert json.loads(record["value"])["transaction"] == block


@pytest.mark.parametrize("kernel", ["on", "off"])
@pytest.mark.parametrize(
    "known, own, gtid",
    [
        ("3E11fa47-71ca-11e1-9e33-c80aa9429562:23", {}, "3E11fa47-71ca-11e1-9e33-c80aa9429562:23"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23", {}, "3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23"),
        ("0-1-23", {}, "0-1-23"),
        ("0-1-23", {"gtid": "0-1-24"}, "0-1-24"),
        ("0-1-23\n", {}, None),
        ("file=mysql-bin.000003,pos=154", {}, None),
        ("463267587983154926", {}, None),
    ],
)
def test_a_transaction_named_by_its_gtid_is_written_with_it(
    known: str, own: dict[str, Any], gtid: str | None, kernel: Literal["on", "off"]
) -> None:
    row = one_insert(transaction={"id": known}, origin=own)
    (record,) = bytes_of(encoder("debezium-mysql", {"schemas.enable": "false"}, kernel=kernel).encode(row))
    assert json.loads(record["value"])["source"]["gtid"] == gtid


def test_foreign_schema_changes() -> None:
    event = SchemaChange("add_column", "d", "t", "ALTER TABLE t ADD c INT", PLACE, instant=Instant(TIME_US, 6))
    (record,) = bytes_of(encode(Decoded(control=[event]), **{"schemas.enable": "false", "topic.prefix": "p"}))
    assert record["topic"] == "p"
    assert json.loads(record["value"]) | {"source": None} == {
        "source": None,
        "ts_ms": 1795248239121,
        "databaseName": "d",
        "schemaName": None,
        "ddl": "ALTER TABLE t ADD c INT",
        "tableChanges": [],
    }
    assert encode(Decoded(control=[event]), **{"include.schema.changes": "false"}).num_rows == 0


def described(statement: str, **more: Any) -> dict[str, Any]:
    """The record that a connector writes of the table `a"b` after a statement."""
    created = parse(statement, "d")[0]
    assert isinstance(created, CreateTable)
    assert created.definition is not None
    origin = {"definition": {"type": "ALTER", "keys": [], "charset": "utf8mb4", "comment": None, **more}}
    columns = created.definition.columns
    event = SchemaChange(
        "add_column", "d", 'a"b', statement, PLACE, columns, instant=Instant(TIME_US, 6), origin=origin
    )
    (record,) = bytes_of(encode(Decoded(control=[event]), **{"schemas.enable": "false", "topic.prefix": "p"}))
    value: dict[str, Any] = json.loads(record["value"])
    return value


def test_a_described_table_has_types_and_defaults_as_they_are_written() -> None:
    value = described(
        "CREATE TABLE `a\"b` (a INTEGER UNSIGNED, b NUMERIC(5,2), c DOUBLE PRECISION, d BINARY(2) DEFAULT X'61', "
        'e DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, f INT COMMENT "it\'s")'
    )
    (change,) = value["tableChanges"]
    assert change["id"] == '"d"."a""b"'
    assert [(c["typeName"], c["jdbcType"]) for c in change["table"]["columns"]] == [
        ("INTEGER UNSIGNED", 4), ("NUMERIC", 2), ("DOUBLE PRECISION", 8), ("BINARY", -2), ("DATETIME", 93), ("INT", 4),
    ]  # fmt: skip
    assert change["table"]["columns"][3]["defaultValueExpression"] == "61"
    assert [c["autoIncremented"] for c in change["table"]["columns"]] == [False, False, False, False, True, False]
    assert value["ddl"].endswith("f INT COMMENT 'it's')")


def test_a_statement_that_the_connector_passes_over_belongs_to_the_database_of_its_session() -> None:
    value = described("CREATE TABLE t (a INT)", passed_over_in="other")
    assert (value["databaseName"], value["source"]["db"], value["source"]["table"]) == ("other", "other", "")
    assert value["tableChanges"] == []


def test_a_transaction_names_its_tables_without_quotes() -> None:
    mark = TransactionMark("end", "g:1", PLACE, 2, {"d.`a.b`": 2}, Instant(TIME_US, 6), {})
    options = {"schemas.enable": "false", "provide.transaction.metadata": "true"}
    (record,) = bytes_of(encode(Decoded(control=[mark]), **options))
    assert json.loads(record["value"])["data_collections"] == [{"data_collection": "d.a.b", "event_count": 2}]


@pytest.mark.parametrize("kernel", ["on", "off"])
@pytest.mark.parametrize(
    "op, connector, file, expected",
    [
        ("insert", "mysql", "binlog.1", '{"a":[1,2],"b: ":"x, \\"y: "}'),
        ("insert", "mysql", "", '{"a": [1, 2], "b: ": "x, \\"y: "}'),
        ("read", "mysql", "binlog.1", '{"a": [1, 2], "b: ": "x, \\"y: "}'),
        ("insert", "mariadb", "binlog.1", '{"a": [1, 2], "b: ": "x, \\"y: "}'),
    ],
)
def test_json_of_the_log_of_mysql_has_no_spaces(
    op: str, connector: str, file: str, expected: str, kernel: Literal["on", "off"]
) -> None:
    columns = (
        Column("id", ColumnType("int"), False, True),
        Column("doc", ColumnType("json")),
        Column("no", ColumnType("json")),
    )
    builder = BatchBuilder("us")
    origin = canonical({"file": file, "pos": 4} if file else {})
    for doc in ('{"a": [1, 2], "b: ": "x, \\"y: "}', '"𐀀, \x01"'):
        after = {"id": 1, "doc": doc, "no": None}
        shape = TableShape("d", "t", columns)
        builder.add(shape, PLACE, op, before=None, after=after, commit_time=TIME_US, origin=origin)
    encoding = encoder("debezium-mysql", {"schemas.enable": "false", "connector": connector}, kernel=kernel)
    records = bytes_of(encoding.encode(Decoded(builder.build())))
    assert [json.loads(record["value"])["after"]["doc"] for record in records] == [expected, '"𐀀, \x01"']
    assert b"\\uD800\\uDC00" in records[1]["value"]


def test_a_default_of_a_float_is_the_nearest_float() -> None:
    columns = (Column("id", ColumnType("int"), False, True), Column("f", ColumnType("float"), True, False, "3.14159"))
    builder = BatchBuilder("us")
    builder.add(
        TableShape("d", "t", columns), PLACE, "insert", before=None, after={"id": 1, "f": 1.5}, commit_time=TIME_US
    )
    (record,) = bytes_of(encode(Decoded(builder.build())))
    fields = json.loads(record["value"])["schema"]["fields"][1]["fields"]
    assert fields[-1]["default"] == 3.14159


def test_a_row_without_a_time_is_refused() -> None:
    columns = (Column("v", ColumnType("int"), True, False),)
    builder = BatchBuilder()
    builder.add(TableShape("d", "t", columns), PLACE, "insert", before=None, after={"v": 1})
    with pytest.raises(UnsupportedError) as caught:
        encode(Decoded(builder.build()))
    assert str(caught.value) == "debezium-mysql: insert of d.t at e:0:7 needs a commit time"


def test_a_schema_change_of_another_connector_is_foreign() -> None:
    origin = {"connector": "TiCDC", "version": "2.4.0.Final", "tableChanges": [], "envelope": {"ts_ms": 5}}
    change = SchemaChange("drop_table", "shop", "t", "DROP TABLE t", PLACE, instant=Instant(TIME_US, 3), origin=origin)
    decoded = decode(*encode(Decoded(control=[change])).to_pylist())
    assert decoded.dead == []
    (again,) = decoded.control
    assert isinstance(again, SchemaChange)
    assert (again.ddl, again.origin["connector"]) == ("DROP TABLE t", "mysql")
