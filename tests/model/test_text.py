from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changefeed.errors import SchemaError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import DeadLetter, Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.text import lines, parse
from changefeed.model.types import NAMES, ColumnType
from tests.model.strategies import column_types, decoded, values

ORDERS = TableShape(
    "shop",
    "orders",
    (
        Column("id", ColumnType("bigint", unsigned=True), False, True),
        Column("note", ColumnType("varchar"), True, False),
    ),
    wire='{"columns":[1.50]}',
)
SHAPE_LINE = (
    f'{{"kind":"shape","shape":"{ORDERS.id}","database":"shop","table":"orders","columns":['
    '{"name":"id","type":"bigint unsigned","nullable":false,"key":true},'
    '{"name":"note","type":"varchar","nullable":true,"key":false}],"wire":{"columns":[1.50]}}'
)
ROW_HEAD = f'"database":"shop","table":"orders","shape":"{ORDERS.id}","keys":["id"]'


def _batch(shape: TableShape, place: Place, op: str, unit: str = "ms", **row: Any) -> Decoded:
    builder = BatchBuilder(unit)
    builder.add(shape, place, op, **{"before": None, "after": None, **row})
    return Decoded(builder.build())


def test_a_row_in_full() -> None:
    events = _batch(
        ORDERS,
        Place("orders", 3, 118204, 1),
        "update",
        before={"id": 2**64 - 1, "note": "naïve\n"},
        after={"id": 2**64 - 1, "note": None},
        commit_ts=2**64 - 1,
        commit_time=1767225600123,
        transaction={"id": "gtid:1", "order": 2, "table_order": None},
        origin='{"rid":-1}',
        irregular={"note": b"\xff%s"},
    )
    row = (
        f'{{"kind":"row","op":"update",{ROW_HEAD},"before":{{"id":18446744073709551615,"note":"naïve\\n"}},'
        '"after":{"id":18446744073709551615,"note":null},"commit_ts":18446744073709551615,'
        '"commit_time":"2026-01-01T00:00:00.123Z","transaction":{"id":"gtid:1","order":2},"origin":{"rid":-1},'
        '"position":"orders:3:118204:1","irregular":{"note":"\\udcff%s"}}'
    )
    assert list(lines(events)) == [SHAPE_LINE, row]


def test_a_row_with_few_values_has_every_key() -> None:
    events = _batch(ORDERS, Place("orders", 0, 0), "delete", before={"id": 1, "note": ""})
    assert list(lines(events))[1] == (
        f'{{"kind":"row","op":"delete",{ROW_HEAD},"before":{{"id":1,"note":""}},"after":null,"commit_ts":null,'
        '"commit_time":null,"transaction":null,"origin":null,"position":"orders:0:0","irregular":{}}'
    )


# MySQL type, ready value, canonical text of the value: the examples of every kind of type.
VALUES: list[tuple[str, Any, str]] = [
    ("bigint unsigned", 2**64 - 1, "18446744073709551615"),
    ("tinyint(1)", 1, "1"),
    ("year", 2155, "2155"),
    ("bit(10)", 5, "5"),
    ("boolean", True, "true"),
    ("decimal(12,2)", Decimal("-12.50"), '"-12.50"'),
    ("decimal(65,30)", Decimal("1e-30"), '"0.000000000000000000000000000001"'),
    ("decimal", "129012.1230000", '"129012.1230000"'),
    ("float", 3.140000104904175, "3.14"),
    ("double", 3.14, "3.14"),
    ("double", -0.0, "-0.0"),
    ("double", 1e-10, "1e-10"),
    ("double", float("-inf"), '"-Infinity"'),
    ("varchar(20)", 'é"\\\x00\x7f\u2028😀', '"é\\"\\\\\\u0000\x7f\u2028😀"'),
    ("blob", b"\x00\x01\x02", '{"base64":"AAEC"}'),
    ("binary(3)", b"a\x00\x00", '{"base64":"YQAA"}'),
    ("date", 20455, '"2026-01-02"'),
    ("datetime", 1767323045000000, '"2026-01-02 03:04:05"'),
    ("datetime(3)", 1767323045100000, '"2026-01-02 03:04:05.100"'),
    ("timestamp(6)", 1767323045100000, '"2026-01-02T03:04:05.100000Z"'),
    ("timestamp(3)", -1000, '"1969-12-31T23:59:59.999Z"'),
    ("time(6)", "-838:59:59.000000", '"-838:59:59.000000"'),
    ("enum('red','blue')", "red", '"red"'),
    ("enum", 2, '{"index":2}'),
    ("set('a','b','c')", "a,c", '"a,c"'),
    ("set", 5, '{"bits":5}'),
    ("json", '{"a": 1}', '"{\\"a\\": 1}"'),
    ("point", {"srid": 4326, "wkb": b"\x01"}, '{"srid":4326,"wkb":"AQ=="}'),
    ("vector(2)", [1.5, 0.10000000149011612], "[1.5,0.1]"),
]


@pytest.mark.parametrize("type_text, ready, text", VALUES)
def test_a_value_of_each_type_both_ways(type_text: str, ready: Any, text: str) -> None:
    shape = TableShape("d", "t", (Column("v", ColumnType.parse(type_text)),))
    events = _batch(shape, Place("t", 0, 0), "insert", after={"v": ready})
    written = list(lines(events))
    assert f'"after":{{"v":{text}}}' in written[1]
    [read] = parse(written)
    assert read.tables[0].rows.column("after").to_pylist() == events.tables[0].rows.column("after").to_pylist()


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(NAMES))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_type_survives_the_text(name: str, data: st.DataObject) -> None:
    t = data.draw(column_types(name))
    shape = TableShape("d", "t", (Column("v", t),))
    events = _batch(shape, Place("t", 0, 0), "insert", after={"v": data.draw(values(t))})
    [read] = parse(lines(events))
    assert read.tables[0].shape == shape
    assert read.tables[0].rows == events.tables[0].rows


@pytest.mark.heavy
@settings(max_examples=100, deadline=None)
@given(decoded())
def test_text_to_events_to_text_is_the_identity(events: Decoded) -> None:
    text = list(lines(events))
    [read] = parse(text)
    assert list(lines(read)) == text
    assert (read.control, read.dead) == (events.control, events.dead)
    assert _rows(read) == _rows(events)


def _rows(events: Decoded) -> dict[tuple[int, int | None], dict[str, object]]:
    rows = [row for batch in events.tables for row in batch.rows.to_pylist()]
    return {(row["record"], row["index"]): row for row in rows}


def test_events_come_in_the_order_of_their_records() -> None:
    audit = TableShape("shop", "audit", (Column("n", ColumnType("int")),))
    builder = BatchBuilder()
    builder.add(ORDERS, Place("a", 0, 5, 0, record=0), "insert", before=None, after={"id": 1, "note": ""})
    builder.add(ORDERS, Place("b", 0, 1, None, record=2), "insert", before=None, after={"id": 2, "note": ""})
    builder.add(audit, Place("a", 0, 5, 1, record=0), "insert", before=None, after={"n": 1})
    resolved = Resolved(7, Place("a", 1, 9, None, record=1))
    dead = DeadLetter("truncated", "short", "p", Place("a", 0, 6, None, record=3), None, b"x")
    text = list(lines(Decoded(builder.build(), [resolved], [dead])))
    positions = [(e["kind"], e.get("position")) for e in map(json.loads, text)]
    assert positions == [
        ("shape", None),
        ("row", "a:0:5:0"),
        ("shape", None),
        ("row", "a:0:5:1"),
        ("resolved", "a:1:9"),
        ("row", "b:0:1"),
        ("dead_letter", "a:0:6"),
    ]


def test_a_shape_is_printed_once_over_several_calls() -> None:
    events = _batch(ORDERS, Place("orders", 0, 0), "delete", before={"id": 1, "note": ""})
    seen: set[str] = set()
    kinds = [json.loads(line)["kind"] for _ in range(2) for line in lines(events, shapes_seen=seen)]
    assert kinds == ["shape", "row", "row"]


def test_keys_keep_the_order_of_the_key() -> None:
    columns = tuple(Column(name, ColumnType("int"), False, True) for name in ("id", "line"))
    texts: list[str] = []
    for keys in ((), ("line", "id")):  # the two have one shape line
        shape = TableShape("shop", "items", columns, key_order=keys)
        texts += list(
            lines(_batch(shape, Place("items", 0, len(texts), None, len(texts)), "insert", after={"id": 1, "line": 2}))
        )
    (events,) = parse(texts)
    assert [table.shape.keys for table in events.tables] == [("id", "line"), ("line", "id")]
    assert list(lines(events)) == [texts[0], texts[1], texts[3]]


def test_images_show_which_columns_they_carry() -> None:
    partial = TableShape("shop", "orders", ORDERS.columns, ("note",), ("note", "id"), ORDERS.wire)
    builder = BatchBuilder()
    builder.add(partial, Place("o", 0, 0), "update", before={"note": "a"}, after={"note": "b", "id": 1})
    builder.add(ORDERS, Place("o", 0, 1, record=1), "insert", before=None, after={"id": 1, "note": None})
    text = list(lines(Decoded(builder.build())))
    assert [json.loads(line)["kind"] for line in text] == ["shape", "row", "row"]
    [read] = parse(text)
    assert [batch.shape for batch in read.tables] == [partial, ORDERS]
    assert list(lines(read)) == text


@pytest.mark.parametrize("unit, text", [("s", "05Z"), ("ms", "05.000Z"), ("us", "05.000000Z")])
def test_commit_time_keeps_the_digits_that_are_known(unit: str, text: str) -> None:
    time = 1767323045 * {"s": 1, "ms": 1000, "us": 1000000}[unit]
    events = _batch(ORDERS, Place("o", 0, 0), "insert", unit, after={"id": 1, "note": ""}, commit_time=time)
    written = list(lines(events))
    assert f'"commit_time":"2026-01-02T03:04:{text}"' in written[1]
    assert next(iter(parse(written))).tables[0].rows == events.tables[0].rows


def test_irregular_values_of_both_images_are_distinguished() -> None:
    images: dict[str, Any] = {"before": {"id": 1, "note": None}, "after": {"id": None, "note": None}}
    kept = {"before.note": b"\xc3\xa9", "note": b"\xe9", "id": b""}
    text = list(lines(_batch(ORDERS, Place("o", 0, 0), "update", **images, irregular=kept)))
    assert text[1].endswith('"irregular":{"before.note":"é","note":"\\udce9","id":""}}')
    [read] = parse(text)
    assert read.tables[0].rows.column("irregular").to_pylist() == [list(kept.items())]


def test_control_events_verbatim() -> None:
    place = Place("shop", 2, 7)
    columns = (Column("x", ColumnType("int"), True, None, "0"), Column("y", ColumnType("int")))
    ddl = SchemaChange("add_column", "shop", "t", "ALTER …", place, columns, 5, Instant(0, 0), {"t": 5})
    dead = DeadLetter("bad-json", "no", "ticdc-open", place, b"\x00", None, (("h", None),), 3, 9)
    assert list(lines(Decoded([], [ddl, Resolved(6, place)], [dead]))) == [
        '{"kind":"schema","type":"add_column","database":"shop","table":"t","ddl":"ALTER …","columns":['
        '{"name":"x","type":"int","nullable":true,"key":null,"default":"0"},'
        '{"name":"y","type":"int","nullable":null,"key":null}],"commit_ts":5,'
        '"commit_time":"1970-01-01T00:00:00Z","origin":{"t":5},"position":"shop:2:7"}',
        '{"kind":"resolved","commit_ts":6,"commit_time":null,"partition":2,"position":"shop:2:7","origin":null}',
        '{"kind":"dead_letter","reason":"bad-json","error":"no","protocol":"ticdc-open","position":"shop:2:7","byte":3,'
        '"index":null,"schema_id":9,"sha256":null,"key":"AA==","value":null,"headers":[["h",null]]}',
    ]


def test_a_batch_ends_with_a_record_never_inside_one() -> None:
    builder = BatchBuilder()
    for record, events in enumerate((1, 5, 1, 1)):
        for index in range(events):
            place = Place("o", 0, record, index if events > 1 else None, record)
            builder.add(ORDERS, place, "insert", before=None, after={"id": record, "note": ""})
    text = list(lines(Decoded(builder.build())))
    batches = list(parse(text, batch_events=3))
    assert [sum(map(len, batch.tables)) for batch in batches] == [6, 2]
    seen: set[str] = set()
    assert [line for batch in batches for line in lines(batch, shapes_seen=seen)] == text


def _row(after: str, more: str = "") -> str:
    return f'{{"kind":"row","op":"insert","database":"d","table":"t","after":{after}{more}}}'


# lines -> MySQL types of the columns
INFERRED: list[tuple[list[str], dict[str, str]]] = [
    (['{"a":1}'], {"a": "bigint"}),
    (['{"a":9223372036854775807}', '{"a":9223372036854775808}'], {"a": "bigint unsigned"}),
    (['{"a":1}', '{"a":1.5}'], {"a": "double"}),
    (['{"a":null}', '{"a":"x","b":true}'], {"a": "varchar", "b": "boolean"}),
    (['{"a":{"base64":"AA=="}}'], {"a": "varbinary"}),
    (['{"a":{"srid":0,"wkb":"AA=="}}'], {"a": "geometry"}),
    (['{"a":{"index":1},"b":{"bits":3}}'], {"a": "enum", "b": "set"}),
    (['{"a":[1,2.5]}'], {"a": "vector"}),
]


@pytest.mark.parametrize("images, types", INFERRED)
def test_rows_written_by_hand_get_their_types_from_their_values(images: list[str], types: dict[str, str]) -> None:
    [read] = parse([_row(image) for image in images])
    assert {c.name: str(c.type) for c in read.tables[0].shape.columns} == types
    text = list(lines(read))
    assert list(lines(next(iter(parse(text))))) == text


def test_rows_written_by_hand_get_their_place_from_their_line() -> None:
    [read] = parse([_row('{"a":1}', ',"keys":["a"]'), _row('{"a":2}', ',"keys":["a"]')], topic="orders")
    assert [json.loads(line).get("position") for line in lines(read)] == [None, "orders:0:0", "orders:0:1"]
    assert read.tables[0].shape.keys == ("a",)


ORDERS_ROW = '{"kind":"row","op":"insert",' + ROW_HEAD + ',"after":%s}'
# lines -> the message for the last of them
ERRORS: list[tuple[list[str], str]] = [
    (["{"], "e:1: not a line of JSON: Input data was truncated"),
    ([""], "e:1: not a line of JSON: Input data was truncated"),
    (["[]"], "e:1: Expected `object`, got `array`"),
    (['{"op":"insert"}'], "e:1: Object missing required field `kind`"),
    (
        ['{"kind":"rwo"}'],
        "e:1: Invalid value 'rwo' - at `$.kind`. Known kinds: shape, row, schema, resolved, transaction, heartbeat, "
        "dead_letter",
    ),
    ([_row("{}", ',"comit_ts":1')], "e:1: Object contains unknown field `comit_ts`; did you mean `commit_ts`?"),
    (
        [_row("{}", ',"transaction":{"xid":1}')],
        "e:1: Object contains unknown field `xid` - at `$.transaction`; did you mean `id`?",
    ),
    ([_row("{}", ',"commit_ts":-1')], "e:1: Expected `int` >= 0 - at `$.commit_ts`"),
    ([_row("{}", f',"commit_ts":{2**64}')], f"e:1: {2**64} has more than 64 bits - at `$.commit_ts`"),
    (
        [_row("{}", ',"commit_time":"2026-01-02 03:04:05"')],
        "e:1: '2026-01-02 03:04:05' is not of the form 2026-01-02T03:04:05Z with 0, 3 or 6 digits - at `$.commit_time`",
    ),
    (
        [_row("{}", ',"position":"t:0"')],
        "e:1: 't:0' is not a position: expected topic:partition:offset, with or without :index - at `$.position`",
    ),
    (
        [_row("{}", ',"position":"t:4294967296:0"')],
        "e:1: 't:4294967296:0' has a number that is too large - at `$.position`",
    ),
    ([_row("{}", ',"shape":"ab"')], "e:1: no line of kind \"shape\" before it describes 'ab' - at `$.shape`"),
    (
        [SHAPE_LINE, (ORDERS_ROW % "{}").replace('["id"]', '["note"]')],
        "e:2: ['note'] differs from ['id'], which its shape has - at `$.keys`",
    ),
    ([SHAPE_LINE, ORDERS_ROW % '{"ID":1}'], "e:2: its shape has no column 'ID'; it has id, note - at `$.after`"),
    (
        [SHAPE_LINE, ORDERS_ROW % '{"notes":1}'],
        "e:2: its shape has no column 'notes'; did you mean 'note'? - at `$.after`",
    ),
    ([SHAPE_LINE, ORDERS_ROW % '{"id":-1}'], "e:2: -1 is not a bigint unsigned - at `$.after.id`"),
    ([SHAPE_LINE, ORDERS_ROW % '{"note":5}'], "e:2: 5 is not a varchar - at `$.after.note`"),
    (
        [SHAPE_LINE.replace('"varchar"', '"varchr"')],
        "e:1: 'varchr' is not a MySQL type - at `$.columns[1].type`",
    ),
    (
        [SHAPE_LINE.replace('"varchar"', '"date"'), ORDERS_ROW % '{"note":"0000-00-00"}'],
        "e:2: '0000-00-00' is not a valid date: it is null here and its text goes to \"irregular\" - at `$.after.note`",
    ),
    (
        [SHAPE_LINE.replace('"varchar"', '"datetime(3)"'), ORDERS_ROW % '{"note":"2026-01-02 03:04:05.1234"}'],
        "e:2: '2026-01-02 03:04:05.1234' is not a datetime(3): expected the form '2026-01-02 03:04:05.000'"
        " - at `$.after.note`",
    ),
    (
        [SHAPE_LINE.replace('"varchar"', '"timestamp"'), ORDERS_ROW % '{"note":"2026-01-02 03:04:05"}'],
        "e:2: '2026-01-02 03:04:05' is not a timestamp: expected the form '2026-01-02T03:04:05Z' - at `$.after.note`",
    ),
    (
        [SHAPE_LINE.replace('"varchar"', '"float"'), ORDERS_ROW % '{"note":1e300}'],
        'e:2: 1e+300 does not fit float: it is null here and its text goes to "irregular" - at `$.after.note`',
    ),
    (
        [SHAPE_LINE, ORDERS_ROW % '{"note":"x"},"irregular":{"note":"y"}'],
        "e:2: the image must have 'note' with the value null, because only `irregular` has its text - at `$.irregular.note`",
    ),
    (
        [_row('{"a":null}')],
        "e:1: column 'a' is NULL in every row: a shape line before the row declares its type - at `$.after.a`",
    ),
    (
        [_row('{"a":1}'), _row('{"a":"x"}')],
        "e:2: type varchar here, bigint in line 1: a shape line before the row declares its type - at `$.after.a`",
    ),
    (
        [_row('{"a":{"x":1}}')],
        "e:1: no type has values with the keys x; known objects: {base64}, {srid, wkb}, {index}, {bits} - at `$.after.a`",
    ),
    ([_row("{}", ',"x":1,"kind":"y"')], "e:1: Object contains unknown field `x`"),
    ([_row("{}", f',"x":{"7" * 5000}')], "e:1: Object contains unknown field `x`"),
    ([_row("{}", ',"opp":"\\udc80"')], "e:1: Object contains unknown field `opp`; did you mean `op`?"),
    ([_row(f'{{"a":{"[" * 5000}')], "e:1: the JSON is nested too deeply"),
    ([_row("{}", ',"origin":[]')], "e:1: Expected `object | null` - at `$.origin`"),
    (
        ['{"kind":"resolved","commit_ts":1,"partition":1,"position":"t:0:0"}'],
        "e:1: 1 differs from the position t:0:0 - at `$.partition`",
    ),
]


@pytest.mark.parametrize("text, message", ERRORS)
def test_an_error_names_line_and_path(text: list[str], message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        list(parse(text, name="e"))
    assert str(raised.value) == message


def test_a_value_that_arrow_refuses_is_an_error_of_its_line() -> None:
    text = [SHAPE_LINE, ORDERS_ROW % '{"id":1,"note":"a"}', ORDERS_ROW % '{"id":1,"note":"\\udc80"}']
    with pytest.raises(SchemaError, match=r"^e:3: '\\udc80' does not fit string: .* - at `\$\.after\.note`$"):
        list(parse(text, name="e"))


@pytest.mark.heavy
@settings(max_examples=100, deadline=None)
@given(decoded(), st.data())
def test_a_damaged_line_is_refused_or_read_never_a_crash(events: Decoded, data: st.DataObject) -> None:
    text = [line.encode() for line in lines(events)]
    row = data.draw(st.integers(0, len(text) - 1))
    at = data.draw(st.integers(0, len(text[row]) - 1))
    byte = data.draw(st.sampled_from(b'"{}[]:,019-.\\eu \xff'))
    text[row] = text[row][:at] + bytes([byte]) + text[row][at + 1 :]
    with suppress(SchemaError):
        list(parse(text))


@pytest.mark.parametrize("key", ["origin", "wire"])
def test_bytes_that_are_not_utf8_in_verbatim_members_are_refused(key: str) -> None:
    shape = b'{"kind":"shape","shape":"s","database":"d","table":"t","columns":[],"wire":{"a":"\xff"}}'
    row = b'{"kind":"row","op":"insert","database":"d","table":"t","after":{"id":1},"origin":{"a":"\xff"}}'
    with pytest.raises(SchemaError) as caught:
        list(parse([shape if key == "wire" else row], name="e"))
    assert str(caught.value) == (
        f"e:1: not a line of JSON: 'utf-8' codec can't decode byte 0xff in position 6: invalid start byte - at `$.{key}`"
    )
