"""Rows of one table with different keys, types or texts in one batch: the kernel gives them the reference's shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kernel.agreement import Both, framed, made
from tests.kernel.examples import DEBEZIUM

SOURCE = (
    b'"source":{"version":"2.4.0.Final","connector":"TiCDC","name":"default","ts_ms":1767225675798,"snapshot":"false",'
    b'"db":"shop","table":"t","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,'
    b'"commit_ts":463267607556460549,"cluster_id":"default"},"ts_ms":1701326309000,"transaction":null'
)
TICDC = b'{"payload":{%b,"op":"c","before":null,"after":%%b}}' % SOURCE


def keys(decoded: Any) -> list[list[str]]:
    """The handle keys of the rows, in their order."""
    by_record: dict[int, list[str]] = {}
    for table in decoded.tables:
        by_record |= {key: list(table.shape.keys) for key in table.rows.column("record").to_pylist()}
    return [by_record[row] for row in sorted(by_record)]


@pytest.mark.parametrize(
    "protocol, value, key",
    [("ticdc-debezium", TICDC, b'{"payload":%b}'), ("debezium-mysql", DEBEZIUM, b"%b")],
)
def test_a_table_that_gets_a_key_in_mid_batch(protocol: str, value: bytes, key: bytes) -> None:
    both = Both(protocol)
    bare, keyed = key % b"{}", key % b'{"id":1}'
    image = b'{"id":1,"note":%b,"n":%b}'
    rows = [(keyed, b'"x"', b"2"), (bare, b'"x"', b"2.5"), (keyed, b'"y"', b"1.5"), (bare, b"null", b"null")]
    changes = both.decode(made([(k, value % (image % tuple(rest))) for k, *rest in rows for _ in range(3)]))
    assert keys(changes) == [names for names in (["id"], [], ["id"], []) for _ in range(3)]
    both.decode(made([(k, value % (image % tuple(rest))) for k, *rest in reversed(rows)]))


def test_keys_of_a_schema_without_members_are_those_of_the_shape() -> None:
    both = Both("debezium-mysql")
    key = b'{"schema":{"type":"map"},"payload":%b}'
    value = DEBEZIUM % b'{"id":1,"n":%b}'
    changes = both.decode(made([(key % k, value % n) for k in (b'{"id":1}', b"{}", b'{"n":2}') for n in (b"2", b"2")]))
    assert keys(changes)[:3] == [["id"], ["id"], []]


SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "type": "struct",
            "optional": True,
            "field": side,
            "fields": [{"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "field": "at"}],
        }
        for side in ("before", "after")
    ]
    + [
        {
            "type": "struct",
            "fields": [{"type": "string", "field": name} for name in ("db", "table")],
            "field": "source",
        },
        {"type": "string", "field": "op"},
    ],
}


def test_schema_blocks_that_differ_in_white_space_are_one_family() -> None:
    both = Both("debezium-mysql")
    block = json.dumps(SCHEMA, separators=(",", ":")).encode()
    broken = block.replace(b'"op"', b'"op"\n')
    value = b'{"schema":%b,"payload":{"before":null,"after":{"at":%b},"source":{"db":"d","table":"t"},"op":"c"}}'
    stamps = (b'"2026-01-02T03:04:05.123456Z"', b"null", b'"2026-01-02T03:04:05.1Z"', b"null")
    rows = [(broken, stamps[0]), (block, b"null"), *((b, at) for b in (broken, block) for at in stamps)]
    changes = both.decode(made([(None, value % row) for row in rows]))
    assert [str(table.shape.columns[0].type) for table in changes.tables] == ["timestamp(6)", "timestamp(1)"]
    assert [len(table) for table in changes.tables] == [8, 2]


def test_a_byte_that_is_not_utf8_differs_from_its_replacement_character() -> None:
    both = Both("ticdc-open")
    key = b'{"ts":463267607556460549,"scm":"shop","tbl":"t","t":1}'
    texts = (b'"a"', b'"\\ufffd"', b'"\\"\\ufffd\xef\xbf\xbd"', b'"\\\\ufffd"', b'"\xef\xbf\xbd\\n"')
    values = [b'{"u":{"v":{"t":15,"f":0,"v":%b}}}' % text for text in texts]
    changes = both.decode(made([framed([(key, value)]) for value in values * 2]))
    origins = changes.tables[0].rows.column("origin").to_pylist()
    assert origins[:5] == [None, '{"replaced":{"u":{"v":[0]}}}', '{"replaced":{"u":{"v":[0]}}}', None, None]


def test_a_column_whose_name_has_a_nul_is_read_by_the_reference() -> None:
    both = Both("ticdc-open")
    key = b'{"ts":463267607556460549,"scm":"shop","tbl":"t","t":1}'
    value = b'{"u":{"a\\u0000b":{"t":3,"f":0,"v":%d}}}'
    changes = both.decode(made([framed([(key, value % n)]) for n in range(20)]))
    assert len(changes.tables[0]) == both.unmatched == 20


def test_shapes_are_forgotten_with_the_kernel_when_they_are_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changefeed.codec.defects.MAX_SHAPES", 8)
    both, image = Both("debezium-mysql"), b'{"id":1,"c%d":%b}'
    for turn in range(40):
        texts = (b"1", b"null", b'"x"', b"true", b"null") if turn % 3 else (b"null", b"null", b"1.5")
        both.decode(made([(b'{"id":1}', DEBEZIUM % (image % (turn % 7, text))) for text in texts]))


@pytest.mark.heavy
def test_of_many_shapes_of_a_family_the_first_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Both("debezium-mysql")
    kinds = (b"1", b"1.5", b'"x"', b"true")
    rows = []
    for number in range(4**5):
        values = [kinds[number >> 2 * at & 3] for at in range(5)]
        rows.append(b"{" + b",".join(b'"c%d":%b' % (at, text) for at, text in enumerate(values)) + b"}")
        rows.append(b'{"c0":null,"c1":null,"c2":null,"c3":%b,"c4":%b}' % tuple(values[3:]))
    for start in range(0, len(rows), 500):
        both.decode(made([(None, DEBEZIUM % row) for row in rows[start : start + 500]]))
