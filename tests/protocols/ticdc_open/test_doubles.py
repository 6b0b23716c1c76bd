"""Members that occur twice are refused, except those that producers write twice."""

from __future__ import annotations

import pytest

from changefeed.codec.decoding import decoder
from changefeed.model.batch import record_batch
from tests.protocols.ticdc_open.messages import ID, TS, decode, insert, key, record

INT = '"a":{"t":3,"f":65,"v":%d}'


@pytest.mark.parametrize("kernel", ["on", "off"])
def test_a_column_that_occurs_twice_is_a_dead_letter(kernel: str) -> None:
    both = decoder("ticdc-open", kernel=kernel)  # type: ignore[arg-type]
    good, bad = record((key(), insert(INT % 1))), record((key(), insert(INT % 1, INT % 1)))
    changes = both.decode(record_batch([good, good, good, bad, good]))
    assert [letter.error for letter in changes.dead] == [
        "ticdc-open: 'a' occurs twice - at `u` at byte 8 (orders:3:118204)"
    ]
    assert sum(map(len, changes.tables)) == 4


@pytest.mark.parametrize(
    "value, where",
    [
        (f'{{"u":{{{ID},{ID}}}}}', "'id' occurs twice - at `u`"),
        (f'{{"d":{{{ID},{ID}}}}}', "'id' occurs twice - at `d`"),
        (f'{{"u":{{{ID}}},"p":{{{ID},{ID}}}}}', "'id' occurs twice - at `p`"),
        (f'{{"u":{{{ID}}},"u":{{{ID}}}}}', "'u' occurs twice in the row"),
        ('{"u":{"id":{"t":3,"t":3,"h":true,"f":11,"v":1}}}', "'t' occurs twice - at `u.id`"),
        ('{"u":{"id":{"t":3,"h":true,"f":11,"v":1,"v":2}}}', "'v' occurs twice - at `u.id`"),
    ],
)
def test_a_double_is_named(value: str, where: str) -> None:
    changes = decode(record((key(), value.encode())))
    assert [letter.error for letter in changes.dead] == [f"ticdc-open: {where} at byte 8 (orders:3:118204)"]


def test_a_key_may_have_ohk_twice_and_nothing_else() -> None:
    twice = f'{{"ts":{TS},"scm":"shop","tbl":"t","t":1,"ohk":true,"ohk":false}}'.encode()
    assert decode(record((twice, insert()))).dead == []
    other = f'{{"ts":{TS},"scm":"shop","tbl":"t","tbl":"u","t":1}}'.encode()
    (letter,) = decode(record((other, insert()))).dead
    assert letter.error == "ticdc-open: 'tbl' occurs twice in the event key at byte 16 (orders:3:118204)"
