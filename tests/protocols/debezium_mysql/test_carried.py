"""Losses of foreign rows and schema changes that options of the connector cause, and that `loss` declares them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.model.text import lines
from changefeed.protocols import protocol
from changefeed.protocols.loss import loss
from tests.protocols.conformance.carried import Trip

DEBEZIUM = protocol("debezium-mysql")
PRECISE = {"bigint.unsigned.handling.mode": "precise"}
SHAPE: dict[str, Any] = {"kind": "shape", "shape": "made", "database": "shop", "table": "made", "wire": None}
COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "bigint", "nullable": False, "key": True},
    {"name": "at", "type": "datetime(6)", "nullable": True, "key": False},
    {"name": "total", "type": "decimal(20,4)", "nullable": True, "key": False},
]
AFTER = {"id": 1, "at": "2026-01-02 03:04:05.123456", "total": "1234567890123456.7891"}
ROW: dict[str, Any] = {
    "kind": "row",
    "op": "insert",
    "database": "shop",
    "table": "made",
    "shape": "made",
    "keys": ["id"],
}
ROW |= {"before": None, "after": AFTER, "commit_ts": None, "commit_time": "2026-01-01T00:00:01.132Z"}
ROW |= {"transaction": None, "origin": None, "position": "made:0:0", "irregular": {}}


@pytest.mark.parametrize(
    "options, column, value",
    [
        ({"decimal.handling.mode": "double"}, "total", 1234567890123456.8),
        ({"time.precision.mode": "connect"}, "at", "2026-01-02 03:04:05.123"),
    ],
)
def test_modes_that_lose_digits_lose_values(options: dict[str, str], column: str, value: Any) -> None:
    (decoded,) = Trip(DEBEZIUM, PRECISE | options)([json.dumps(SHAPE | {"columns": COLUMNS}), json.dumps(ROW)])
    (row,) = (event for event in map(json.loads, lines(decoded)) if event["kind"] == "row")
    assert row["after"] == AFTER | {column: value}
    assert _lost(options) == {"values"}


@pytest.mark.parametrize(
    "skipped, lost",
    [
        ("c", {"op.insert"}),
        ("u", {"op.update", "before"}),
        ("d,t", {"op.delete", "delete.keys", "delete.before", "delete.commit_time"}),
        ("t", set()),
        ("none", set()),
    ],
)
def test_ops_that_are_skipped_are_lost(skipped: str, lost: set[str]) -> None:
    assert _lost({"skipped.operations": skipped}) == lost


def test_adjusted_names_are_lost() -> None:
    assert _lost({"field.name.adjustment.mode": "avro"}) == {"names"}


def _lost(options: dict[str, str]) -> set[str]:
    """The keys of Open Protocol that are lost with these options and not without them."""
    source = protocol("ticdc-open")
    plain, chosen = (
        loss(source, source.read_options({}), DEBEZIUM, DEBEZIUM.read_options(PRECISE | settings))
        for settings in ({}, options)
    )
    assert set(plain.keys) <= set(chosen.keys)
    return set(chosen.keys) - set(plain.keys)


def test_changes_of_the_connector_lose_nothing_when_written_for_it() -> None:
    options = DEBEZIUM.read_options({"include.schema.changes": "false", "skipped.operations": "c", **PRECISE})
    assert loss(DEBEZIUM, DEBEZIUM.read_options({}), DEBEZIUM, options).keys == ()
