"""Names of columns and tables that records carry adjusted to Avro."""

from __future__ import annotations

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.adjusted_names import adjusted, columns_of, in_avro, in_avro_unicode, table_of
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols.debezium_mysql.names import adjusted as debezium
from changefeed.protocols.ticdc_avro.names import sanitise

NAMES = ["bill-no", "1st", "a_b", "we ird $t", "größe", "__", "9", "a1", "订单", "-"]


def columns(*names: str) -> list[Column]:
    return [Column(name, ColumnType("int")) for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_the_adjustments_are_those_of_the_producers(name: str) -> None:
    assert in_avro(name) == debezium(name, "avro") == sanitise(name)
    assert in_avro_unicode(name) == debezium(name, "avro_unicode")


@pytest.mark.parametrize(
    "sent, defined, renamed",
    [
        (["id", "bill_no"], ["id", "bill-no"], {"bill_no": "bill-no"}),
        (["ID", "BILL_NO"], ["id", "Bill-No"], {"BILL_NO": "Bill-No"}),
        (["bill_u002dno", "a_u005fb"], ["bill-no", "a_b"], {"bill_u002dno": "bill-no", "a_u005fb": "a_b"}),
        (["_1st", "_u0031st"], ["1st", "x"], None),
        (["bill_no", "bill-no"], ["bill-no"], {}),
        (["bill_no"], ["bill_no", "bill-no"], {}),
        (["new"], ["id"], {}),
        (["a_b"], ["a-b", "a b"], None),
    ],
)
def test_a_name_is_the_one_column_that_is_adjusted_to_it(
    sent: list[str], defined: list[str], renamed: dict[str, str] | None
) -> None:
    if renamed is None:
        with pytest.raises(UnsupportedError, match=r"pipeline\.exclude"):
            columns_of(sent, columns(*defined), "shop.t")
    else:
        assert columns_of(sent, columns(*defined), "shop.t") == renamed


def test_shapes_get_the_names_of_the_table() -> None:
    shape = TableShape("shop", "t", tuple(columns("id", "bill_no")), before=("bill_no",), after=None)
    named = adjusted(shape, columns("id", "bill-no"))
    assert ([c.name for c in named.columns], named.before, named.after) == (["id", "bill-no"], ("bill-no",), None)
    assert adjusted(shape, columns("id", "bill_no")) is shape


def test_rows_belong_to_the_one_table_that_is_adjusted_to_their_name() -> None:
    assert table_of("shop.bill_s", ["shop.bill-s", "shop.other"]) == "shop.bill-s"
    assert table_of("shop.bill_s", ["shop.bill_s", "shop.bill-s"]) == "shop.bill_s"
    assert table_of("shop.new", ["shop.bill-s"]) == "shop.new"
    with pytest.raises(UnsupportedError, match=r"rows of shop\.bill_s may belong to shop\.bill s or shop\.bill-s"):
        table_of("shop.bill_s", ["shop.bill-s", "shop.bill s"])
