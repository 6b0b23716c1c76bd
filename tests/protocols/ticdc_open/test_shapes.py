"""Shapes: rows that share one, and rows that do not."""

from __future__ import annotations

import pytest

from changefeed.columnar import families
from tests.protocols.ticdc_open.messages import ID, decode, errors, insert, key, record, rows


def stamped(*texts: str) -> list[str]:
    """Types of a column sent with these texts, one row each."""
    values = (text if text == "null" else f'"{text}"' for text in texts)
    changes = decode(*(record((key(), insert(f'"a":{{"t":12,"f":65,"v":{value}}}'))) for value in values))
    assert errors(changes) == []
    return [str(row.shape.by_name["a"].type) for row in rows(changes)]


DAY = "2026-01-01 00:00:00"


def test_fraction_digits_are_the_types_length() -> None:
    assert stamped(DAY, DAY + ".1", DAY + ".123456") == ["datetime", "datetime(1)", "datetime(6)"]


def test_a_null_joins_the_first_shape_that_was_made() -> None:
    assert stamped(DAY + ".000", DAY + ".0", "null") == ["datetime(3)", "datetime(1)", "datetime(3)"]


def test_a_null_alone_makes_the_shape_without_digits() -> None:
    assert stamped("null", DAY, DAY + ".000", "null") == ["datetime", "datetime", "datetime(3)", "datetime"]


def test_an_irregular_value_has_no_digits() -> None:
    assert stamped("0000-00-00 00:00:00.000", DAY) == ["datetime", "datetime"]


def test_images_of_one_row_have_the_same_digits() -> None:
    image = "{" + ID + ',"a":{"t":12,"f":65,"v":"%s"}}'
    value = f'{{"u":{image % DAY},"p":{image % (DAY + ".5")}}}'.encode()
    assert errors(decode(record((key(), value)))) == [
        "ticdc-open: a has 0 fraction digits in `u`, but 1 in `p` at byte 8 (orders:3:118204)"
    ]


def test_inserts_updates_and_deletes_of_a_table_share_a_shape() -> None:
    image = "{" + ID + "}"
    values = (f'{{"u":{image}}}', f'{{"u":{image},"p":{image}}}', f'{{"d":{image}}}')
    changes = decode(*(record((key(), value.encode())) for value in values))
    assert [row.op for row in rows(changes)] == ["insert", "update", "delete"]
    assert len(changes.tables) == 1


def test_columns_described_otherwise_are_another_shape() -> None:
    changes = decode(*(record((key(), insert(f'"a":{{"t":3,"f":{flags},"v":1}}'))) for flags in (65, 1, 193)))
    assert [str(t.shape.columns[1].type) for t in changes.tables] == ["int", "int", "int unsigned"]
    assert [t.shape.columns[1].nullable for t in changes.tables] == [True, False, True]
    assert changes.tables[0].shape.wire == '{"columns":[{"t":3,"h":true,"f":11},{"t":3,"f":65}]}'


def test_the_table_of_shapes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "LIMIT", 2)
    assert stamped(DAY + ".1", DAY + ".12", DAY + ".123", "null", DAY + ".1") == [
        "datetime(1)",
        "datetime(2)",
        "datetime(3)",
        "datetime(1)",  # the first two are kept, the third is not kept
        "datetime(1)",
    ]


def test_an_update_whose_columns_change_type_is_refused() -> None:
    value = b'{"u":{"a":{"t":3,"f":65,"v":1}},"p":{"a":{"t":15,"f":64,"v":"x"}}}'
    assert errors(decode(record((key(), value)))) == [
        "ticdc-open: a is int in `u`, but varchar in `p` at byte 8 (orders:3:118204)"
    ]
