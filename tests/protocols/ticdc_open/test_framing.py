"""Lengths and versions, which must match the record's bytes."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import ProtocolError
from changefeed.protocols.ticdc_open.framing import join, split
from tests.protocols.ticdc_open.messages import decode, errors, insert, key, record, rows

WHOLE = record((key(), insert()), (key(), insert()), (key(), insert()))
HINT = 'Is "protocol" right for this topic?'


def test_join_is_what_split_reads() -> None:
    parts = [(b"a", b"1"), (b"", b""), (b"bc", b"234")]
    assert [(m.key, m.value) for m in split(*join(parts))] == parts
    assert [(m.key_at, m.value_at) for m in split(*join(parts))] == [(16, 8), (25, 17), (33, 25)]


def test_a_resolved_mark_of_the_specification() -> None:
    framed = bytes.fromhex("000000000000000100000000000000157b227473223a31323334353637382c2274223a337d")
    assert join([(b'{"ts":12345678,"t":3}', b"")]) == (framed, bytes(8))


def test_a_short_value_names_message_byte_and_record() -> None:
    (error,) = errors(decode({**WHOLE, "value": WHOLE["value"][: 2 * (8 + len(insert())) - 7]}))
    at = 2 * 8 + len(insert())
    assert error == f"ticdc-open: value ends 7 bytes early in message 2 of 3 at byte {at} (orders:3:118204). {HINT}"


@pytest.mark.parametrize(
    "framed_key, value, message, reason, byte",
    [
        (None, b"", "record has no key", "truncated", None),
        (bytes(3), b"", "key ends 5 bytes early", "truncated", 0),
        (b"\0\0\0\0\0\0\0\2", b"", "version 2 is unknown, expected 1", "version", 0),
        (join([(b"a", b"")])[0][:-1], b"", "key ends 1 byte early in message 1", "truncated", 16),
        (join([])[0] + b"\xff" * 8, b"", "key has a length of -1 in message 1", "bad-length", 8),
        (
            join([(b"a", b"")])[0],
            b"\x80" + bytes(7),
            "value has a length of -9223372036854775808 in message 1 of 1",
            "bad-length",
            0,
        ),
        (
            join([(b"a", b"")])[0],
            bytes(8) + b"x",
            "value continues after its end for 1 byte after message 1 of 1",
            "trailing-bytes",
            8,
        ),
        (join([])[0], b"xy", "value continues after its end for 2 bytes with message 0 of 0", "trailing-bytes", 0),
    ],
)
def test_lengths_that_do_not_add_up(
    framed_key: bytes | None, value: bytes, message: str, reason: str, byte: int | None
) -> None:
    with pytest.raises(ProtocolError) as caught:
        split(framed_key, value)
    assert (str(caught.value), caught.value.reason, caught.value.byte) == (message, reason, byte)


def test_a_length_above_all_bytes_allocates_nothing() -> None:
    with pytest.raises(ProtocolError) as caught:
        split(join([])[0] + (2**62).to_bytes(8, "big"), b"")
    assert str(caught.value) == f"key ends {2**62} bytes early in message 1"


def test_one_bad_message_leaves_the_others() -> None:
    changes = decode(record((key(), insert()), (key(), b'{"u":{"id":{"t":3,"f":11,"v":"x"}}}'), (key(), insert())))
    assert [row.place.index for row in rows(changes)] == [0, 2]
    (letter,) = changes.dead
    at = 8 + len(insert()) + 8
    assert letter.error == (
        "ticdc-open: 'x' is not an int - at `u.id.v` in message 2 of 3 "  # prose: the decoder's message
        f"at byte {at} (orders:3:118204)"
    )
    assert (letter.place.index, letter.byte, letter.reason) == (1, at, "schema")


def test_a_record_of_one_message_has_no_index() -> None:
    (row,) = rows(decode(record((key(), insert()))))
    assert str(row.place) == "orders:3:118204"


@pytest.mark.parametrize("value", [None, b""])
def test_a_record_without_messages_has_no_event(value: Any) -> None:
    changes = decode({**record(), "value": value})
    assert (changes.tables, changes.control, changes.dead) == ([], [], [])
