"""Schema texts compared with the producers': those of their tests, and those of the recorded histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from changefeed import record_log
from changefeed.errors import UnsupportedError
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.type_codes import BINARY, UNSIGNED, column_type
from changefeed.protocols.ticdc_avro.names import TopicRule, full_namespace, sanitise, subject
from changefeed.protocols.ticdc_avro.schema_text import allowed, field_text, key_text, members_of, value_text
from tests.mysql.ddl.following import follow
from tests.protocols.conformance.cases import Schemas
from tests.protocols.ticdc_avro.messages import CHECKSUMS, EXTENSION, column, decode, read

DATA = Path(__file__).parents[2] / "data"
RECORDED = json.loads((DATA / "ticdc/avro/columns_and_names.json").read_text())
SHOP = DATA / "shop/ticdc-avro"


def recorded_columns() -> list[Column]:
    """The 73 columns, in the order of the table."""
    columns = [Column("id", ColumnType("int"), False, True)]
    for c in RECORDED["columns"]:
        t = column_type(c["mysql_type"], BINARY * c["binary"] | UNSIGNED * c["unsigned"])
        if t.name in ("enum", "set"):
            t = ColumnType(t.name, members=tuple(c["elems"]))
        elif t.name == "bit":
            t = ColumnType("bit", length=1)
        elif t.name == "decimal":
            t = ColumnType("decimal", length=10, scale=0)
        columns += [Column(c["name"], t, False, False), Column(c["name"] + "nullable", t, True, False)]
    return columns


def by_id(columns: list[Column]) -> list[Column]:
    """The columns in the order of row checksums."""
    return [*columns[1::2], *columns[2::2], columns[0]]


@pytest.mark.parametrize(
    "file, options, ordered",
    [
        ("schema_value_without_extension", {}, list),
        ("schema_value_with_extension", EXTENSION, list),
        ("schema_value_with_extension_checksum", CHECKSUMS, by_id),
    ],
)
def test_73_columns_are_as_the_producer_writes_them(file: str, options: dict[str, Any], ordered: Any) -> None:
    expected = (DATA / f"ticdc/avro/{file}.compact.avsc").read_text().rstrip("\n")
    namespace = full_namespace("default", "testdb")
    assert value_text("avroencode", namespace, ordered(recorded_columns()), read(options)) == expected


def test_the_ddl_of_a_history_gives_the_schemas_that_its_producer_registered() -> None:
    listed = json.loads((SHOP / "avro-watermark.classic.schemas.json").read_text())
    log = record_log.read(SHOP / "avro-watermark.classic.jsonl.gz")
    schemas = Schemas(str(SHOP / "avro-watermark.classic.schemas.json"))
    control = [c for batch in log for c in decode(schemas, *batch.to_pylist(), **EXTENSION).control]
    statements = {c.commit_ts or 0: c.ddl for c in control if isinstance(c, SchemaChange) and c.ddl}
    tables: dict[tuple[str, str], Table] = {}
    texts = set()
    for _, ddl in sorted(statements.items()):
        for statement in parse(ddl, "shop", restored=True):
            follow(tables, statement)
        for (database, name), table in tables.items():
            columns = [Column(c.name, c.type, c.nullable, c.name in table.keys, c.default) for c in table.columns]
            keys, namespace = [c for c in columns if c.key], full_namespace("default", database)
            texts |= {(f"shop_{name}-value", value_text(name, namespace, columns, read(EXTENSION)))}
            texts |= {(f"shop_{name}-key", key_text(name, namespace, keys, read(EXTENSION)))} if keys else set()
    assert {(entry["subject"], entry["schema"]) for entry in listed} <= texts


@pytest.mark.parametrize(
    "source, field",
    [
        (column("b", "int"), '{"default":null,"name":"b","type":["null",{"type":"int","connect.parameters":{"tidb_type":"INT"}}]}'),
        (column("c", "bit(64)", nullable=False), '{"name":"c","type":{"type":"bytes","connect.parameters":{"length":"64","tidb_type":"BIT"}}}'),
        (column("e", "enum('a','b','c')", nullable=False), '{"name":"e","type":{"type":"string","connect.parameters":{"allowed":"a,b,c","tidb_type":"ENUM"}}}'),
        (column("d", "decimal(10,4)", nullable=False), '{"name":"d","type":{"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},"logicalType":"decimal","precision":10,"scale":4}}'),
        (column("d", "decimal(10,4)", default="1.5"), '{"default":null,"name":"d","type":["null",{"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},"logicalType":"decimal","precision":10,"scale":4}]}'),
        (column("i", "int", default="5"), '{"default":5,"name":"i","type":[{"type":"int","connect.parameters":{"tidb_type":"INT"}},"null"]}'),
        (column("u", "bigint unsigned", nullable=False, default="18446744073709551615"), '{"default":-1,"name":"u","type":{"type":"long","connect.parameters":{"tidb_type":"BIGINT UNSIGNED"}}}'),
        (column("f", "float", nullable=False, default="3.14"), '{"default":3.140000104904175,"name":"f","type":{"type":"float","connect.parameters":{"tidb_type":"FLOAT"}}}'),
        (column("s", "text", nullable=False, default="'a<b'"), '{"default":"a\\u003cb","name":"s","type":{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}}'),
        (column("t", "timestamp", default="CURRENT_TIMESTAMP"), '{"default":"CURRENT_TIMESTAMP","name":"t","type":[{"type":"string","connect.parameters":{"tidb_type":"TIMESTAMP"}},"null"]}'),
        (column("y", "blob", nullable=False, default="'ab'"), '{"default":"YWI=","name":"y","type":{"type":"bytes","connect.parameters":{"tidb_type":"BLOB"}}}'),
        (column("z", "bit(10)", nullable=False, default="b'101'"), '{"default":"AAU=","name":"z","type":{"type":"bytes","connect.parameters":{"length":"10","tidb_type":"BIT"}}}'),
        (column("n", "int", default="NULL"), '{"default":null,"name":"n","type":["null",{"type":"int","connect.parameters":{"tidb_type":"INT"}}]}'),
        (column("1.2", "vector", nullable=False), '{"name":"_1_2","type":{"type":"string","connect.parameters":{"tidb_type":"TiDBVECTORFloat32"}}}'),
    ],
    ids=lambda source: source.name if isinstance(source, Column) else "",
)  # fmt: skip
def test_a_field_has_its_members_in_order(source: Column, field: str) -> None:
    assert field_text(source, read({})) == field


@pytest.mark.parametrize(
    "source, error",
    [
        (column("d", "decimal"), "column d: its precision is not known; set avro-decimal-handling-mode to string"),
        (column("e", "enum"), "column e of type enum: its members are not known"),
        (column("g", "point"), "the protocol has no type for column g of type point"),
        (column("b", "bit(3)", default="'x'"), "'x' is not a default of bit(3)"),
    ],
    ids=lambda source: source.name if isinstance(source, Column) else "",
)
def test_a_type_that_needs_more_than_is_known_is_refused(source: Column, error: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        field_text(source, read({}))
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "members, text", [(("a", "b"), "a,b"), (("a,b", "c"), "a\\,b,c"), (("it''s", "\\'"), "it's,'"), (("",), "")]
)
def test_members_are_joined_as_the_producer_does(members: tuple[str, ...], text: str) -> None:
    assert allowed(members) == text
    if "'" not in text:
        assert members_of(text) == members


@pytest.mark.parametrize("case", RECORDED["names"], ids=lambda c: str(c["input"]))
def test_names_are_sanitised(case: dict[str, Any]) -> None:
    name = case["input"]
    assert (sanitise(name) if case["fn"] == "sanitize_name" else full_namespace(*name)) == case["output"]


def test_a_namespace_without_a_schema() -> None:
    assert full_namespace("default", "") == "default"


def test_subjects_have_no_dots() -> None:
    assert subject("shop.a-b", "key") == "shop_a-b-key"


@pytest.mark.parametrize(
    "rule, topic, names",
    [
        ("{schema}_{table}", "shop_order_items", ("shop", "order_items")),
        ("{schema}_{table}", "shop_order-items.v2", ("shop", "order-items.v2")),
        ("cdc.{schema}.{table}.v1", "cdc.shop.items.v1", ("shop", "items")),
        ("cdc.{schema}.{table}.v1", "cdc.shop.items", ("shop", "old")),
        ("{schema}_{table}", "other_items", ("shop", "old")),
        ("{schema}_{table}", "shop_", ("shop", "old")),
        ("{schema}_{table}", "shop_" + "x" * 244, ("shop", "old")),
        ("fixed", "fixed", ("shop", "old")),
    ],
)
def test_a_topic_rule_applied_backwards(rule: str, topic: str, names: tuple[str, str]) -> None:
    assert TopicRule(rule).names(topic, "shop", "old") == names


def test_a_schema_with_two_spellings_leaves_the_records_names() -> None:
    assert TopicRule("{schema}{table}").names("1a1a1", "_1a", "t") == ("1a", "1a1")
    assert TopicRule("{schema}_{table}").names("_1a_t", "_1a", "r") == ("_1a", "t")
