"""Records that the decoder refuses, and its messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.model.batch import Decoded
from changefeed.model.text import lines
from changefeed.protocols.ticdc_debezium import schema
from tests import cost
from tests.protocols.ticdc_debezium.messages import (
    ID,
    KEY,
    SOURCE,
    TS,
    decode,
    document,
    encode,
    errors,
    field,
    insert,
    record,
    row_schema,
    rows,
)

HINT = '. Is "protocol" right for this topic?'
WHOLE = document(insert('{"id":1}'))


def described(text: str, image: str) -> dict[str, Any]:
    return record(document(insert(f'{{"id":1,{image}}}'), row_schema(ID, text)))


@pytest.mark.parametrize(
    "bad, error",
    [
        (record(None), "record has no value (shop:0:7)"),
        (record(b"\x00"), "value is not JSON: expecting value at byte 0 (shop:0:7)" + HINT),
        (record(WHOLE, ""), "key is not JSON: expecting value at byte 0 (shop:0:7)" + HINT),
        (record("[]"), "value is [], expected an object (shop:0:7)"),
        (record("{}"), "value has no payload (shop:0:7)"),
        (record('{"payload":7}'), "payload of the value is 7, expected an object - at `payload` (shop:0:7)"),
        (record('{"payload":{},"x":1}'), "value has an unknown member 'x' (shop:0:7)"),
        (record('{"payload":{}}'), "source is null, expected an object - at `payload.source` (shop:0:7)"),
        (
            record(WHOLE.replace("TiCDC", "mysql")),
            "'mysql' is not the connector TiCDC - at `payload.source.connector` (shop:0:7)" + HINT,
        ),
        (
            record(WHOLE.replace('"pos":0', '"poz":0')),
            "source has an unknown member 'poz' - at `payload.source` (shop:0:7)",
        ),
        (record(WHOLE.replace('"pos":0,', "")), "source lacks pos - at `payload.source` (shop:0:7)"),
        (
            record(WHOLE.replace('"pos":0', '"pos":true')),
            "true is neither text nor number - at `payload.source.pos` (shop:0:7)",
        ),
        (
            record(WHOLE.replace(f'"commit_ts":{TS}', '"commit_ts":1.5')),
            "1.5 is not an integer from 0 to 18446744073709551615 - at `payload.source.commit_ts` (shop:0:7)",
        ),
        (
            record(WHOLE.replace(f'"commit_ts":{TS}', '"commit_ts":1')),
            f"{TS >> 18} is not the millisecond of commit_ts 1 - at `payload.source.ts_ms` (shop:0:7)",
        ),
        (
            record(WHOLE.replace('"table":"t"', '"table":""')),
            "row does not name its database and table - at `payload.source` (shop:0:7)",
        ),
        (record(WHOLE.replace('"op":"c"', '"op":"r"')), "op 'r' is unknown, expected c, u, d or m (shop:0:7)" + HINT),
        (
            record(WHOLE.replace('"op":"c",', "")),
            "payload has an unknown member 'transaction' - at `payload` (shop:0:7)",
        ),
        (
            record(document(f'{{"source":{SOURCE},"ts_ms":7}}')),
            "payload has no op and no databaseName, ddl, schemaName, tableChanges - at `payload` (shop:0:7)",
        ),
        (
            record(WHOLE.replace('"transaction":null', '"transaction":{}')),
            "{} is not null - at `payload.transaction` (shop:0:7)",
        ),
        (
            record(WHOLE.replace('"before":null', '"before":{"id":1}')),
            "{'id': '1'} is not null in op c - at `payload.before` (shop:0:7)",
        ),
        (record(WHOLE.replace('"before":null,', "")), "payload of op c has no before - at `payload` (shop:0:7)"),
        (
            record(WHOLE.replace('{"id":1}', "null")),
            "after is null, expected an object - at `payload.after` (shop:0:7)",
        ),
        (record(WHOLE.replace('{"id":1}', "{}")), "row has no columns - at `payload.after` (shop:0:7)"),
        (record(WHOLE, '{"payload":{"id":2}}'), "key has 2, but the row has 1 - at `key.id` (shop:0:7)"),
        (
            record(document(insert('{"id":1}'), row_schema(ID)), document('{"id":1}', '{"type":"struct","fields":[]}')),
            "key has the columns 'id', but its schema has none (shop:0:7)",
        ),
        (
            record(document(insert('{"id":1,"b":2}'), row_schema(ID))),
            "the schema has no column 'b' - at `after` (shop:0:7)",
        ),
        (
            record(document(insert('{"id":1}'), '{"type":"struct","fields":[]}')),
            "schema lacks the fields before and after - at `schema.fields` (shop:0:7)",
        ),
        (
            record(document(insert('{"id":1}'), '{"type":"map"}')),
            "'map' is not a struct with fields - at `schema` (shop:0:7)",
        ),
        (
            record(document(insert('{"id":1}'), row_schema(ID.replace("false", "1")))),
            "1 is not a boolean - at `schema.fields[0].fields[0].optional` (shop:0:7)",
        ),
        (
            described(field("b", "bytes"), '"b":1'),
            "type 'bytes' named null is unknown - at `schema.fields[0].fields[1]` (shop:0:7)",
        ),
        (
            described(field("b", "string", name="io.debezium.data.Uuid"), '"b":1'),
            "type 'string' named 'io.debezium.data.Uuid' is unknown - at `schema.fields[0].fields[1]` (shop:0:7)",
        ),
        (
            described(field("b", "string", tidb_type="int"), '"b":1'),
            "tidb_type 'int' contradicts the type text - at `schema.fields[0].fields[1]` (shop:0:7)",
        ),
        (
            described(field("b", "bytes", name="io.debezium.data.Bits", parameters={"length": "65"}), '"b":1'),
            "'65' is not a number of bits - at `schema.fields[0].fields[1]` (shop:0:7)",
        ),
        (described(field("b", "int16"), '"b":32768'), "32768 is not a smallint - at `after.b` (shop:0:7)"),
        (described(field("b", "int16"), '"b":"1"'), "'1' is not a smallint - at `after.b` (shop:0:7)"),
        (described(field("b", "int16"), '"b":1.0'), "1.0 is not a smallint - at `after.b` (shop:0:7)"),
        (described(field("b", "boolean"), '"b":1'), "1 is not a bit(1) - at `after.b` (shop:0:7)"),
        (described(field("b", "double"), '"b":1e400'), "1e400 is not a double - at `after.b` (shop:0:7)"),
        (described(field("b", "float"), '"b":1e39'), "1e39 is not a float - at `after.b` (shop:0:7)"),
        (
            described(field("b", "bytes", name="io.debezium.data.Bits", parameters={"length": "2"}), '"b":"BA=="'),
            "'BA==' is not a bit(2) - at `after.b` (shop:0:7)",
        ),
        (
            described(field("b", "string", tidb_type="blob"), '"b":"A"'),
            "'A' is not base64 - at `after.b` (shop:0:7)",
        ),
        (
            described(field("b", "int32", name="io.debezium.time.Date"), '"b":2932897'),
            "2932897 is not a date - at `after.b` (shop:0:7)",
        ),
        (
            described(field("b", "int64", name="io.debezium.time.MicroTime"), '"b":-3020400000000'),
            "-3020400000000 is not a time(6) - at `after.b` (shop:0:7)",
        ),
        (
            described(field("b", "string", name="io.debezium.time.ZonedTimestamp"), '"b":"2026-01-02 03:04:05Z"'),
            "'2026-01-02 03:04:05Z' is not a timestamp - at `after.b` (shop:0:7)",
        ),
        (record(document(insert('{"id":1,"b":[]}'))), "[] is not a value of a column - at `after.b` (shop:0:7)"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_bad_record_is_refused_with_the_fault(bad: dict[str, Any], error: str) -> None:
    assert errors(decode(bad)) == [f"ticdc-debezium: {error}"]


@pytest.mark.parametrize(
    "text, error",
    [
        ('"a":null', ""),
        ('"ddl":7', "7 is not a string - at `payload.ddl` (shop:0:7)"),
        ('"databaseName":null', "null is not a string - at `payload.databaseName` (shop:0:7)"),
        (
            '"tableChanges":[{"x":1.5}]',
            "1.5 is not an integer from -9223372036854775808 to 9223372036854775807 - at `payload.tableChanges` (shop:0:7)",
        ),
    ],
)
def test_a_bad_schema_change_is_refused_with_the_fault(text: str, error: str) -> None:
    members = {"databaseName": '"shop"', "schemaName": "null", "ddl": '"DROP TABLE t"', "tableChanges": "[]"}
    name, _, value = text.partition(":")
    members[name.strip('"')] = value
    rest = ",".join(f'"{n}":{v}' for n, v in members.items())
    changes = decode(record(document(f'{{"source":{SOURCE},"ts_ms":7,{rest}}}'), '{"payload":{"databaseName":"shop"}}'))
    expected = error or "payload has an unknown member 'a' - at `payload` (shop:0:7)"
    assert errors(changes) == [f"ticdc-debezium: {expected}"]


BOMBS = {
    "a large decimal": document(insert('{"id":1e300}'), row_schema(field("id", "double", tidb_type="decimal"))),
    "many fields twice": document(insert('{"id":1}'), row_schema(*[ID, ID.replace("int32", "int16")] * 50)),
}


@pytest.mark.parametrize("bomb", BOMBS, ids=str)
def test_bombs_are_refused_at_once(bomb: str) -> None:
    value = BOMBS[bomb].encode()
    decode(record(value[:100], KEY))
    changes = decode(record(value))
    assert len(changes.dead) == 1
    assert not changes.tables
    assert cost.seconds(lambda: decode(record(value))) < 0.1
    assert cost.peak_bytes(lambda: decode(record(value))) < 64 << 20


def test_a_payload_may_hold_a_column_called_schema() -> None:
    (row,) = rows(decode(record(document(insert('{"id":1,"schema":",\\"schema\\":{"}')))))
    assert row.after == {"id": 1, "schema": ',"schema":{'}


def test_unusual_members_of_source_are_kept() -> None:
    source = (
        SOURCE.replace('"pos":0', '"pos":5')
        .replace('"gtid":null', '"gtid":"g"')
        .replace('"name":"default"', '"name":"n"')
    )
    (row,) = rows(decode(record(document(insert('{"id":1}', source)))))
    assert row.origin == {"ts_ms": 7, "cluster_id": "default", "gtid": "g", "pos": 5, "name": "n"}


def test_a_schema_text_is_decoded_once() -> None:
    text = row_schema(ID, field("x", "string"))
    assert schema.row_schema(text) is schema.row_schema(json.loads(json.dumps(text)))


def test_a_dead_letter_names_its_table_where_that_can_be_read() -> None:
    changes = decode(record(document(insert('{"id":[]}'))), record("x"), record(WHOLE.replace('"pos":0,', "")))
    assert [(letter.database, letter.table) for letter in changes.dead] == [("shop", "t"), (None, None), (None, None)]


def encoded_again(changes: Decoded) -> Decoded:
    return decode(*encode(changes).to_pylist()) if not changes.dead else changes


@pytest.mark.parametrize("wild", ["\\ufffd", "\\udc00", "\\u0000", "\udcff", "\\ud83d\\udc1f"])
def test_unusual_characters_anywhere_are_read_or_refused(wild: str) -> None:
    fields = [
        ID,
        field("v", "string", name="io.debezium.data.TiDBVectorFloat32"),
        field("s", "string"),
        field("e", "string", name="io.debezium.data.Enum", parameters={"allowed": "a,b"}),
        field("d", "int32", default="x"),
        field("z", "string", name="io.debezium.time.ZonedTimestamp"),
        field("b", "string", tidb_type="blob"),
    ]
    image = '{"id":1,"v":"[1]","s":"x","e":"a","d":"x","z":"2026-01-02T03:04:05Z","b":"AA=="}'
    change = '"databaseName":"shop","schemaName":null,"ddl":"DROP TABLE t","tableChanges":[{"a":"b"}]'
    records = [
        (document(insert(image), row_schema(*fields)), KEY),
        (document(f'{{"source":{SOURCE},"ts_ms":7,{change}}}'), '{"payload":{"databaseName":"shop"}}'),
    ]
    for text, key in records:
        for at in range(len(wild), len(text), 5):
            if text[at].isalnum() or text[at] == '"':
                data = (text[:at] + wild + text[at + (text[at] != '"') :]).encode("utf-8", "surrogateescape")
                changes = decode(record(data, key))
                assert list(lines(changes))
                assert list(lines(encoded_again(changes)))
