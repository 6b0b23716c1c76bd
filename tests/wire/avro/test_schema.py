"""Schema texts that are accepted, and texts that are refused before they cost anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.errors import SchemaError
from changefeed.wire.avro import parse
from tests import cost


def record(*fields: Any, name: str = "t", namespace: str = "default.shop") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


def test_a_record_keeps_names_order_and_attributes() -> None:
    text = record(
        {"name": "id", "type": {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}},
        {"name": "v", "default": None, "type": ["null", {"type": "bytes", "logicalType": "decimal", "scale": 2}]},
    )
    schema = parse(text)
    assert (schema.kind, schema.name, schema.namespace) == ("record", "default.shop.t", "default.shop")
    assert [field.name for field in schema.fields] == ["id", "v"]
    assert schema.fields[0].type.attributes == {"connect.parameters": {"tidb_type": "BIGINT"}}
    assert schema.fields[1].attributes == {"default": None}
    assert schema.fields[1].type.other.attributes == {"logicalType": "decimal", "scale": "2"}


def test_a_name_stands_for_the_type_it_was_given_to() -> None:
    inner = {"type": "record", "name": "Value", "fields": [{"name": "a", "type": "int"}]}
    schema = parse(record({"name": "before", "type": ["null", inner]}, {"name": "after", "type": ["null", "Value"]}))
    assert schema.fields[0].type.other is schema.fields[1].type.other
    assert schema.fields[0].type.other.name == "default.shop.Value"


@pytest.mark.parametrize("name", ["列名", "é", "_٣", "ß_1"])
def test_letters_and_digits_of_any_script_make_a_name(name: str) -> None:
    assert parse(record({"name": name, "type": "int"})).fields[0].name == name


def test_a_namespace_may_be_any_text() -> None:
    assert parse(record(namespace="my-server.1.we ird")).name == "my-server.1.we ird.t"


@pytest.mark.parametrize(
    "text, error",
    [
        ("{", "schema is not JSON: expecting property name enclosed in double quotes"),
        ('"decimal"', "'decimal' is not a type"),
        ("7", "7 is not a type"),
        ('["null","int","long"]', "['null', 'int', 'long'] is not a union of null and one other type"),
        ('{"type":"array","items":"null"}', "array has items that take no bytes"),
        ('{"type":"fixed","name":"f","size":9999999}', "f has the size 9999999"),
        ('{"type":"enum","name":"e","symbols":["A","A"]}', "e has no list of distinct symbols"),
        (record({"name": "a b", "type": "int"}), "default.shop.t has a field without a valid, unique name: 'a b'"),
        (
            record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
            "default.shop.t has a field without a valid, unique name: 'a'",
        ),
        (record({"name": "a", "type": ["null", "t"]}), "default.shop.t contains itself"),
        (record(name="1"), "'default.shop.1' is not the name of a type"),
        (
            '{"type":' * 40 + '"int"' + "}" * 40,
            "{'type': {'type': {'type': {'type': {'type': {'type': {'t… is not a type",
        ),
        ('{"type":"array","items":' * 40 + '"int"' + "}" * 40, "schema is nested deeper than 32"),
        ("[" * 70_000, "schema is nested too deeply"),
        ("[" * 300_000, "schema is larger than 4194304 characters or 120000 parts"),
        ('["a"' + ',"a"' * 900_000 + "]", "schema is larger than 4194304 characters or 120000 parts"),
        (" " * 5_000_000, "schema is larger than 4194304 characters or 120000 parts"),
    ],
    ids=lambda text: text[:40],
)
def test_other_texts_than_schemas_are_refused(text: str, error: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(text)
    assert (str(caught.value), caught.value.reason) == (error, "bad-schema")


def test_records_that_name_each_other_do_not_explode() -> None:
    fields: list[Any] = [
        {"name": "a0", "type": {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}}
    ]
    for level in range(1, 40):
        inner = [{"name": f"f{i}", "type": f"R{level - 1}"} for i in range(10)]
        fields.append({"name": f"a{level}", "type": {"type": "record", "name": f"R{level}", "fields": inner}})

    def refuse() -> None:
        with pytest.raises(SchemaError) as caught:
            parse(record(*fields))
        assert str(caught.value) == "default.shop.t has more than 10000 fields in total"

    assert cost.seconds(refuse) < 0.1
    assert cost.peak_bytes(refuse) < 64 * 2**20


def test_commas_in_a_string_do_not_separate() -> None:
    members = ",".join(map(str, range(65_535)))
    attributes = {"type": "string", "connect.parameters": {"allowed": members}}
    schema = parse(record({"name": "a", "type": attributes}, {"name": "b", "type": attributes}))
    assert schema.fields[1].type.attributes == {"connect.parameters": {"allowed": members}}
