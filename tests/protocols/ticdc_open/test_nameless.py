"""Old values that lost their columns' names: they may be of any column, but must be values of their type."""

from __future__ import annotations

import json

import pytest

from tests.protocols.ticdc_open.messages import ID, decode, encode, errors, key, messages, record, rows

NEW = "{" + ID + ',"a":{"t":%s,"f":65,"v":null},"b":{"t":%s,"f":65,"v":null}}'
AT = "at byte 8 (orders:3:118204)"


def update(code: int, nameless: str) -> bytes:
    return f'{{"u":{NEW % (code, code)},"p":{nameless}}}'.encode()


@pytest.mark.parametrize("value", ["-5", "null"])
def test_a_value_of_one_of_two_columns_is_kept_and_written_again(value: str) -> None:
    sent = update(3, f'{{"t":3,"f":65,"v":{value}}}')
    changes = decode(record((key(), sent)))
    (row,) = rows(changes)
    assert (row.before, row.origin["p"]) == ({"id": 1}, [{"t": 3, "f": 65, "v": json.loads(value)}])
    assert messages(encode(changes, bug_compat="true")) == [[(key().decode(), sent.decode())]]


@pytest.mark.parametrize(
    "code, nameless, message",
    [
        (3, '{"t":3,"f":61e4005,"v":-5}', "61e4005 is not a valid f of a column - at `nameless`"),
        (3, '{"t":3.5,"f":65,"v":-5}', "3.5 is not a valid t of a column - at `nameless`"),
        (3, '{"t":3,"f":65,"v":1e400}', "1e400 is not an int - at `p.nameless.v`"),  # prose: the decoder's message
        (3, '{"t":3,"f":65,"v":[1]}', "['1'] is not an int - at `p.nameless.v`"),  # prose: the decoder's message
        (5, '{"t":5,"f":65,"v":1e400}', "1e400 is not a double - at `p.nameless.v`"),
        (4, '{"t":4,"f":65,"v":1e39}', "1e39 is not a float - at `p.nameless.v`"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_dead(code: int, nameless: str, message: str) -> None:
    changes = decode(record((key(), update(code, nameless))))
    assert not changes.tables
    assert errors(changes) == [f"ticdc-open: {message} {AT}"]
