"""The option `dispatchers` has the same meaning in every protocol of TiCDC."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from changefeed.errors import ConfigError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols import ticdc_names
from changefeed.protocols.base import Protocol, Stores
from tests.protocols.conformance.cases import Schemas, all_protocols

TICDC = [
    pytest.param(p, id=p.name)
    for p in all_protocols()
    if "dispatchers" in {field.encode_name for field in msgspec.structs.fields(p.options)}
]
RULES = [
    {"matcher": ["Shop.log_?"], "topic": "logs", "partition": "ts"},
    {"matcher": ["shop.*", "!shop.rest"], "topic": "x_{schema}_{table}", "dispatcher": "columns", "columns": ["A"]},
]
TS = 463267587983154927


def _places(chosen: Protocol, table: str, **options_by_name: Any) -> list[tuple[str, int]]:
    options = chosen.read_options({name.replace("_", "-"): value for name, value in options_by_name.items()})
    schemas = Schemas()
    stores = Stores(get_schema=schemas.get, register_schema=schemas.register)
    rows = BatchBuilder()
    shape = TableShape("shop", table, (Column("a", ColumnType("bigint"), False, True),))
    rows.add(shape, Place("up", 1, 0), "insert", before=None, after={"a": 11}, commit_ts=TS)
    records = chosen.encoder(options, stores).encode(Decoded(rows.build()))
    return [(row["topic"], row["partition"]) for row in records.to_pylist()]


def test_all_protocols_of_ticdc_have_dispatchers() -> None:
    assert sorted(str(param.id) for param in TICDC) == sorted(set(ticdc_names().values()))


@pytest.mark.parametrize("chosen", TICDC)
def test_the_first_rule_that_matches_gives_topic_and_partition(chosen: Protocol) -> None:
    def places(table: str, **more: Any) -> list[tuple[str, int]]:
        return _places(chosen, table, dispatchers=RULES, partition_num=16, **more)

    assert places("log_1") == [("logs", TS % 16)]
    assert places("t") == [("x_shop_t", _places(chosen, "t", partition="index-value", partition_num=16)[0][1])]
    assert places("rest") == [("up", _places(chosen, "rest", partition_num=16)[0][1])]
    assert places("log_1", case_sensitive=True)[0][0] == "x_shop_log_1"
    assert places("log_1", case_sensitive=True, bug_compat=True, profile="newarch")[0][0] == "logs"


@pytest.mark.parametrize("chosen", TICDC)
def test_wrong_rules_are_refused_before_anything_is_written(chosen: Protocol) -> None:
    with pytest.raises(ConfigError, match=r"^pattern 'shop': expected a dot and the table at character 4$"):
        chosen.read_options({"dispatchers": [{"matcher": ["shop"]}]})
    with pytest.raises(ConfigError, match=r"^invalid topic expression: {table}{schema}"):
        chosen.read_options({"dispatchers": [{"matcher": ["*.*"], "topic": "{table}{schema}"}]})
