"""Logs that users' reports have led to: types and keys of tables whose DDL was refused, or is not all there."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from changefeed.errors import UnsupportedError
from tests.pipeline.kit.debezium_made import MadeLog, Pipeline, Row

DATA = Path(__file__).parents[2] / "data" / "field"


def of_file(name: str) -> tuple[MadeLog, Pipeline]:
    """The log and the pipeline of a case."""
    options = yaml.safe_load((DATA / f"{name}.yaml").read_text())["pipeline"]
    records = [_record(json.loads(line)) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
    return MadeLog(records), Pipeline({key: value for key, value in options.items() if key != "name"})


def _record(line: dict[str, Any]) -> dict[str, Any]:
    parts = {part: None if line[part] is None else base64.b64decode(line[part]) for part in ("key", "value")}
    return {name: line[name] for name in ("topic", "partition", "offset")} | parts


def bill(number: int, day: int, amount: str, raw: bytes, **others: Any) -> Row:
    return {"id": number, "due": dt.date(2024, 10, day), "amount": Decimal(amount), "raw": raw, **others}


@pytest.mark.parametrize(
    "name, table, rows",
    [
        ("add-column-default-now-try-evolve", "shop.bills",
         [bill(1, 4, "12.34", b"\0\1\2", at=dt.datetime(2025, 11, 24, 16, 0, 0, 123000), made=None),
          bill(2, 5, "12.35", b"\3\4\5", at=dt.datetime(2025, 11, 24, 16, 0, 0, 124000),
               made=dt.datetime(2025, 11, 24, 16, 0, 1))]),
        ("log-without-create-then-alter-adds-typed-columns", "shop.bills",
         [{"id": 1, "t": "a", "due": None, "amount": None, "raw": None}, bill(2, 5, "12.35", b"\3\4\5", t="b")]),
        ("table-charset-binary-then-add-column", "shop.wiki",
         [{"id": 1, "title": b"\0\1\2", "lang": None}, {"id": 2, "title": b"\3\4\5", "lang": b"en"}]),
        ("primary-key-if-not-exists-try-evolve-dates", "shop.bills",
         [bill(1, 4, "12.34", b"\0\1\2"), bill(2, 5, "12.35", b"\3\4\5")]),
    ],
)  # fmt: skip
def test_columns_have_the_types_that_are_declared_for_them(name: str, table: str, rows: list[Row]) -> None:
    log, pipe = of_file(name)
    assert pipe.run(log).rows(table) == rows


def test_a_new_key_without_values_is_refused_whatever_the_definition_allows() -> None:
    log, pipe = of_file("keyless-table-gets-auto-increment-key-try-evolve")
    with pytest.raises(
        UnsupportedError, match="column id is in the row key, and the rows that are there have no value in it"
    ):
        pipe.run(log)
