"""Changes of other protocols: the records written for them, and the changes refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from tests.protocols.ticdc_debezium.messages import (
    TS,
    decode,
    document,
    encode,
    insert,
    record,
    rows,
    shape,
    values,
)

AT = Place("shop", 0, 7)


def one(table: TableShape, op: str = "insert", **fields: Any) -> Decoded:
    """One change of a table; by default an insert of NULLs."""
    if op == "insert" and "after" not in fields:
        fields["after"] = {"id": 1, **{c.name: None for c in table.columns[1:]}}
    built = BatchBuilder()
    built.add(table, AT, op, **{"before": None, "after": None, "commit_ts": TS, "commit_time": TS >> 18} | fields)
    return Decoded(built.build())


def defaulted(kind: str, default: str, *, nullable: bool = True) -> TableShape:
    return shape(Column("v", ColumnType.parse(kind), nullable, False, default))


def test_an_old_row_that_is_not_sent_may_hold_anything() -> None:
    table = shape(Column("v", ColumnType.parse("double"), True, False))
    changes = one(table, "update", before={"id": 1, "v": float("inf")}, after={"id": 1, "v": 1.5})
    with pytest.raises(UnsupportedError, match="cannot carry inf"):
        encode(changes)
    (value,) = values(encode(changes, output_old_value=False))
    assert value["payload"]["after"] == {"id": 1, "v": 1.5}
    assert "before" not in value["payload"]


# type, default -> the field's `default`, the value for NULL, and the same with bug-compat in classic and newarch.
DEFAULTS = [
    ("int", "7", 7, 7, 7, 7),
    ("bigint unsigned", "18446744073709551615", 18446744073709552000, -1, -1, 0),
    ("double", "'1.5'", 1.5, 1.5, 1.5, 1.5),
    ("decimal(12,2)", "1.50", 1.5, 1.5, 1.5, 1.5),
    ("year", "2021", 2021, 2021, "2021", 2021),
    ("varchar(9)", "'it''s'", "it's", "it's", "it's", "it's"),
    ("varbinary(9)", "'abc'", "abc", "YWJj", "YWJj", "YWJj"),
    ("bit(1)", "b'1'", True, True, True, True),
    ("bit(10)", "b'1'", "AQA=", "AQA=", "AQA=", "AQA="),
    ("enum('a','b')", "'b'", "b", "b", "b", "b"),
    ("date", "'1970-01-03'", 2, 2, 2, 2),
    ("datetime(3)", "'1970-01-01 00:00:01.5'", 1500, 1500, 1500, 1500),
    ("datetime(6)", "CURRENT_TIMESTAMP(6)", 0, 0, 0, 0),
    ("time", "'00:00:01'", 1000000, 1000000, 1000000, 0),
    ("timestamp(2)", "'2020-01-01 00:00:01'", "2020-01-01T00:00:01.00Z", *["2020-01-01T00:00:01.00Z"] * 3),
    ("timestamp", "CURRENT_TIMESTAMP", None, None, None, None),
    ("int", "(uuid())", None, None, "uuid()", "uuid()"),
]


@pytest.mark.parametrize("kind, default, field, null, classic, newarch", DEFAULTS)
def test_a_null_in_a_column_with_a_default(
    kind: str, default: str, field: Any, null: Any, classic: Any, newarch: Any
) -> None:
    changes = one(defaulted(kind, default))

    def written(**settings: Any) -> tuple[Any, Any]:
        (value,) = values(encode(changes, **settings))
        return value["schema"]["fields"][1]["fields"][1].get("default"), value["payload"]["after"]["v"]

    assert written() == (field, null)
    assert written(null_with_default="null") == (field, None)
    assert [written(bug_compat=True, profile=p)[1] for p in ("classic", "newarch")] == [classic, newarch]


def test_a_timestamp_that_defaults_to_now_and_takes_no_null_is_the_first_moment() -> None:
    (value,) = values(encode(one(defaulted("timestamp(3)", "CURRENT_TIMESTAMP(3)", nullable=False))))
    assert value["schema"]["fields"][1]["fields"][1]["default"] == "1970-01-01T00:00:00Z"
    assert value["payload"]["after"]["v"] == "1970-01-01T00:00:00Z"


def test_a_row_that_was_read_keeps_its_null_and_its_blocks() -> None:
    text = '{"type":"struct","x":1,"fields":[%s,%s]}'
    field = '{"type":"int32","optional":true,"field":"id","default":7}'
    images = [f'{{"type":"struct","field":"{name}","fields":[{field}]}}' for name in ("before", "after")]
    value = document(insert('{"id":null}'), text % tuple(images))
    (written,) = encode(decode(record(value, '{"payload":{}}'))).to_pylist()
    assert written["value"].decode() == value


@pytest.mark.parametrize(
    "kind, value, text",
    [
        ("date", -719162, "11323"),  # 0001-01-01 is 2001-01-01
        ("date", -683004, "10956"),  # 0099-12-31 is 1999-12-31
        ("datetime", -62135596800000000, "978307200000"),
        ("timestamp(3)", 999_999, '"1970-01-01T00:00:00Z"'),
        ("timestamp(3)", 1_000_000, '"1970-01-01T00:00:01.000Z"'),
        ("bigint unsigned", 2**63, "-9223372036854775808"),
        ("float", 5.61, "5.61"),
        ("float(7,2)", 5.61, "5.61"),
        ("double", 1e-7, "1e-07"),
        ("bit(60)", 16, '"EAAAAAAAAAA="'),
        ("boolean", True, "1"),
        ("vector(2)", [1.0, 1e21], '"[1,1000000000000000000000]"'),
    ],
)
def test_a_value_as_the_producer_writes_it(kind: str, value: Any, text: str) -> None:
    table = shape(("v", kind))
    (written,) = encode(one(table, after={"id": 1, "v": value}), debezium_disable_schema=True).to_pylist()
    assert f'"after":{{"id":1,"v":{text}}}' in written["value"].decode()


@pytest.mark.parametrize(
    "kind, kept, nullable, text",
    [
        ("date", b"0000-00-00", True, "null"),
        ("date", b"0000-00-00", False, "0"),
        ("date", b"0000-02-29", False, "11016"),
        ("datetime(3)", b"0000-01-01 00:00:00.500", True, "946684800500"),
        ("datetime(3)", b"2024-01-00 00:00:00.000", False, "0"),
        ("timestamp", b"0000-00-00 00:00:00", True, '"1970-01-01T00:00:00Z"'),
        ("decimal(3,2)", b"-0.00", True, "-0"),
    ],
)
def test_values_that_a_type_cannot_hold(kind: str, kept: bytes, nullable: bool, text: str) -> None:
    table = shape(Column("v", ColumnType.parse(kind), nullable, False))
    changes = one(table, irregular={"v": kept})
    (written,) = encode(changes, debezium_disable_schema=True).to_pylist()
    assert f'"after":{{"id":1,"v":{text}}}' in written["value"].decode()


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            one(shape(("v", "enum"))),
            "ticdc-debezium cannot carry a column of type enum: its members are not known - in `v` "
            "(insert of shop.t at shop:0:7)",
        ),
        (
            one(shape(("v", "bit"))),
            "ticdc-debezium cannot carry a column of type bit - in `v` (insert of shop.t at shop:0:7)",
        ),
        (
            one(shape(("v", "point"))),
            "ticdc-debezium cannot carry a column of type point - in `v` (insert of shop.t at shop:0:7)",
        ),
        (
            one(shape(("v", "double")), after={"id": 1, "v": float("inf")}),
            "ticdc-debezium cannot carry inf - in `v` (insert of shop.t at shop:0:7)",
        ),
        (
            one(shape(("v", "int")), irregular={"v": b"x"}),
            "ticdc-debezium cannot carry 'x' in a column of type int - in `v` (insert of shop.t at shop:0:7)",
        ),
        (
            one(shape(), "update", before={"id": 1}),
            "ticdc-debezium cannot represent an update with these images (update of shop.t at shop:0:7)",
        ),
        (
            one(shape(), commit_ts=None, commit_time=None),
            "insert of shop.t at shop:0:7: ticdc-debezium needs a commit_ts or a commit time",
        ),
        (
            Decoded(control=[SchemaChange("drop_table", "shop", "t", None, AT, commit_ts=TS)]),
            "ticdc-debezium: drop_table at shop:0:7 has no statement to send",
        ),
        (
            Decoded(control=[SchemaChange("drop_table", "shop", "t", "DROP TABLE t", AT)]),
            "drop_table at shop:0:7: ticdc-debezium needs a commit_ts or a commit time",
        ),
    ],
    ids=str,
)
def test_changes_that_the_protocol_cannot_carry_are_refused(changes: Decoded, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(changes)
    assert str(caught.value) == message


def test_a_row_without_a_commit_ts_is_sent_at_its_commit_time() -> None:
    (value,) = values(
        encode(one(shape(), commit_ts=None, commit_time=5, transaction={"id": "5-1"}), debezium_include_start_ts=True)
    )
    source = value["payload"]["source"]
    assert (source["commit_ts"], source["ts_ms"], value["payload"]["ts_ms"]) == (5 << 18, 5, 5)
    assert "start_ts" not in source


def test_members_are_escaped_as_the_producer_escapes_them() -> None:
    t = ColumnType("enum", members=("a,b", "it''s", "c\\'d"))
    (value,) = values(encode(one(shape(Column("v", t)))))
    assert value["schema"]["fields"][1]["fields"][1]["parameters"] == {"allowed": "a\\,b,it's,c'd"}


@pytest.mark.parametrize(
    "extension, profile, last",
    [(True, "newarch", "cluster_id"), (True, "classic", "query"), (False, "newarch", "query")],
)
def test_fields_of_the_source(extension: bool, profile: str, last: str) -> None:
    settings: dict[str, Any] = {"enable_tidb_extension": extension, "profile": profile}
    (value,) = values(encode(one(shape()), **settings))
    assert value["schema"]["fields"][2]["fields"][-1]["field"] == last
    field = value["schema"]["fields"][0]["fields"][0]
    assert ("tidb_type" in field) == extension
    assert next(iter(field)) == ("tidb_type" if extension else "type")


def test_a_foreign_schema_change_describes_its_known_columns() -> None:
    columns = (Column("id", ColumnType("bigint", True), False, True), Column("d", ColumnType.parse("decimal(12,2)")))
    change = SchemaChange("add_column", "shop", "t", "ALTER TABLE t ADD d", AT, columns, None, Instant(5000, 3))
    (value,) = values(encode(Decoded(control=[change])))
    (changed,) = value["payload"]["tableChanges"]
    assert (changed["type"], changed["id"]) == ("ALTER", '"shop"."t"')
    assert changed["table"]["primaryKeyColumnNames"] == ["id"]
    shown = [(c["name"], c["jdbcType"], c["typeName"], c["length"], c["scale"]) for c in changed["table"]["columns"]]
    assert shown == [("id", -5, "BIGINT UNSIGNED", None, None), ("d", 3, "DECIMAL", 12, 2)]
    (again,) = decode(*encode(Decoded(control=[change])).to_pylist()).control
    assert isinstance(again, SchemaChange)
    assert [c.type for c in again.columns or ()] == [c.type for c in columns]


def test_members_in_a_schema_change_have_quotes_around_them_and_are_not_escaped() -> None:
    members = ("it's", "it''s", "", "a,b", "x\\y")
    columns = (Column("e", ColumnType("enum", members=members)),)
    change = Decoded(control=[SchemaChange("add_column", "shop", "t", "ALTER TABLE t ADD e", AT, columns, TS)])
    (value,) = values(encode(change))
    (column,) = value["payload"]["tableChanges"][0]["table"]["columns"]
    assert column["enumValues"] == ["'it's'", "'it''s'", "''", "'a,b'", "'x\\y'"]
    (again,) = decode(*encode(change).to_pylist()).control
    assert isinstance(again, SchemaChange)
    assert [c.type.members for c in again.columns or ()] == [members]


def test_a_schema_change_that_ticdc_sends_no_message_of_is_left_out() -> None:
    change = SchemaChange("recover_table", "shop", "t", "RECOVER TABLE t", AT, commit_ts=TS)
    assert encode(Decoded(control=[change])).num_rows == 0


def test_marks_are_sent_with_the_extension_only() -> None:
    mark = Decoded(control=[Resolved(TS, AT)])
    assert encode(mark).num_rows == 0
    (written,) = encode(mark, enable_tidb_extension=True, debezium_disable_schema=True).to_pylist()
    assert written["key"] == b'{"payload":{}}'
    assert json.loads(written["value"])["payload"]["op"] == "m"


def test_rows_are_dispatched_as_the_open_protocol_dispatches_them() -> None:
    table = TableShape("test", "t1", (Column("a", ColumnType("int"), False, True),))
    written = [
        encode(one(table, after={"a": a}), partition_num=16, partition=rule, topic="x_{table}").to_pylist()[0]
        for a, rule in ((11, "table"), (11, "index-value"), (22, "index-value"))
    ]
    assert [(r["topic"], r["partition"], r["offset"]) for r in written] == [
        ("x_t1", 15, 0),
        ("x_t1", 2, 0),
        ("x_t1", 11, 0),
    ]


def test_an_upsert_is_an_update_without_the_old_row() -> None:
    (again,) = rows(decode(*encode(one(shape(), "upsert", after={"id": 1})).to_pylist()))
    assert (again.op, again.before, again.after) == ("update", None, {"id": 1})


def test_a_foreign_create_table_is_described_from_its_statement() -> None:
    statement = "CREATE TABLE `shop`.`t` (`id` BIGINT UNSIGNED NOT NULL,`v` VARCHAR(5),PRIMARY KEY(`id`))"
    (value,) = values(encode(Decoded(control=[SchemaChange("create_table", "shop", "t", statement, AT, commit_ts=TS)])))
    (changed,) = value["payload"]["tableChanges"]
    assert (changed["type"], changed["table"]["primaryKeyColumnNames"]) == ("CREATE", ["id"])
    shown = [(c["name"], c["typeName"], c["length"], c["optional"]) for c in changed["table"]["columns"]]
    assert shown == [("id", "BIGINT UNSIGNED", None, False), ("v", "VARCHAR", None, True)]


def test_a_foreign_rename_names_both_tables() -> None:
    statement = "RENAME TABLE `shop`.`a` TO `shop`.`b`"
    (value,) = values(encode(Decoded(control=[SchemaChange("rename_table", "shop", "b", statement, AT, commit_ts=TS)])))
    assert value["payload"]["tableChanges"][0]["id"] == '"shop"."a","shop"."b"'


def test_a_row_that_lacks_its_key_has_an_empty_key() -> None:
    table = TableShape("shop", "t", shape(("v", "int")).columns, before=("v",), after=("v",))
    (written,) = encode(one(table, after={"v": 1})).to_pylist()
    key = json.loads(written["key"])
    assert (key["payload"], key["schema"]["fields"]) == ({}, [])


def test_a_timestamp_default_is_shifted_by_the_producers_zone_under_bug_compat() -> None:
    changes = one(defaulted("timestamp", "'2020-06-01 04:00:00'"))
    (value,) = values(encode(changes, bug_compat=True, time_zone="+08:00"))
    assert value["payload"]["after"]["v"] == "2020-05-31T20:00:00Z"
    assert value["schema"]["fields"][1]["fields"][1]["default"] == "2020-06-01T04:00:00Z"


def test_a_schema_change_with_another_protocols_name_is_sent() -> None:
    ddl = "ALTER TABLE `shop`.`t` RENAME COLUMN `a` TO `b`"
    (value,) = values(encode(Decoded(control=[SchemaChange("rename_column", "shop", "t", ddl, AT, commit_ts=TS)])))
    assert value["payload"]["ddl"] == ddl
