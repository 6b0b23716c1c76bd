"""Rows that share a record, and rows that are too large for one: the specification's figures, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from tests.protocols.ticdc_open.messages import decode, encode, insert, key, messages, record

TINY = TableShape(
    "test", "t", (Column("a", ColumnType("tinyint"), False, True), Column("b", ColumnType("int"), True, False))
)
TEXT = TableShape(
    "test", "t", (Column("a", ColumnType("varchar"), False, True), Column("b", ColumnType("varchar"), True, False))
)


def inserts(shape: TableShape, *images: tuple[object, object], ts: int = 1) -> Decoded:
    rows = BatchBuilder()
    for record_number, (a, b) in enumerate(images):
        place = Place("t", 0, record_number, None, record_number)
        rows.add(shape, place, "insert", before=None, after={"a": a, "b": b}, commit_ts=ts)
    return Decoded(rows.build())


def sizes(decoded: Decoded, **options: Any) -> list[int]:
    return [len(record) for record in messages(encode(decoded, **options))]


def test_rows_share_a_record_while_it_stays_within_max_message_bytes() -> None:
    rows = inserts(TINY, (1, 123), (2, 223), (3, 333))
    assert sizes(rows, max_message_bytes=400) == [2, 1]
    assert sizes(rows, max_message_bytes=407) == [3]
    assert sizes(rows, max_message_bytes=406) == [2, 1]


def test_rows_share_a_record_up_to_max_batch_size() -> None:
    rows = inserts(TINY, *((n, n) for n in range(35)))
    assert sizes(rows) == [16, 16, 3]
    assert sizes(rows, max_batch_size=35) == [35]


def test_188_bytes_hold_exactly_the_rows_that_the_producer_puts_there() -> None:
    rows = inserts(TEXT, ("aa", "bb"), ts=463267587983154927)
    ((message,),) = messages(encode(rows, max_message_bytes=188))
    assert message == (
        '{"ts":463267587983154927,"scm":"test","tbl":"t","t":1}',
        '{"u":{"a":{"t":15,"h":true,"f":10,"v":"aa"},"b":{"t":15,"f":64,"v":"bb"}}}',
    )
    with pytest.raises(UnsupportedError) as caught:
        encode(rows, max_message_bytes=187)
    assert str(caught.value) == (
        "ticdc-open: insert of test.t at t:0:0 needs a message of 188 bytes, max-message-bytes is 187 "
        "(ErrMessageTooLarge): raise it or set large-message-handle-option"
    )


def test_a_large_row_is_reduced_to_its_handle_key() -> None:
    rows = inserts(TINY, (1, 123))
    ((message,),) = messages(encode(rows, max_message_bytes=150, large_message_handle_option="handle-key-only"))
    assert message == (
        '{"ts":1,"scm":"test","tbl":"t","t":1,"ohk":true}',
        '{"u":{"a":{"t":1,"h":true,"f":11,"v":1}}}',
    )


def test_the_reduced_row_is_measured_again() -> None:
    rows = inserts(TINY, (1, 123))
    with pytest.raises(UnsupportedError) as caught:
        encode(rows, max_message_bytes=148, large_message_handle_option="handle-key-only")
    assert "needs a message of 149 bytes, max-message-bytes is 148" in str(caught.value)


def test_a_large_row_without_a_handle_key_cannot_be_reduced() -> None:
    bare = TableShape("test", "t", tuple(Column(c.name, c.type, True, False) for c in TINY.columns))
    with pytest.raises(UnsupportedError) as caught:
        encode(inserts(bare, (1, 123)), max_message_bytes=150, large_message_handle_option="handle-key-only")
    assert str(caught.value) == (
        "insert of test.t at t:0:0: only handle-key columns are to be sent, but the table has none "
        "(ErrOpenProtocolCodecInvalidData)"
    )


def test_rows_that_came_in_one_record_stay_in_one_and_apart_from_others() -> None:
    two, one = record((key(), insert()), (key(), insert())), record((key(), insert()), offset=118205)
    assert sizes(decode(two, one)) == [2, 1]
    assert sizes(decode(two, one), max_batch_size=1) == [1, 1, 1]


def test_a_schema_change_closes_the_record_before_it() -> None:
    ddl = record((b'{"ts":1,"scm":"shop","tbl":"t","t":2}', b'{"q":"x","t":0}'))
    changes = decode(record((key(), insert())), ddl, record((key(), insert())))
    assert [[value for _, value in group] for group in messages(encode(changes))] == [
        [insert().decode()],
        ['{"q":"x","t":0}'],
        [insert().decode()],
    ]
