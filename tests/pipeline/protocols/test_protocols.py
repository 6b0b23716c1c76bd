"""The same history in every protocol becomes the same tables: at the end, at each named cut, in batches of any size."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from tests.pipeline.kit.running import SHOP, check_expected, definition
from tests.pipeline.kit.uneven import uneven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Log:
    """A recorded history; `only`: the tables that it contains; `doubles`: decimal columns that it sends as doubles."""

    protocol: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    doubles: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def pipeline(self, lake: Path, **options: Any) -> Definition:
        named = {"name": self.protocol, **self.options}
        return definition(self.path, lake, protocol=named, **options)

    @property
    def path(self) -> Path:
        return SHOP / self.protocol / f"{self.name}.jsonl.gz"

    @property
    def cuts(self) -> dict[str, int | str]:
        cuts: dict[str, int | str] = json.loads((SHOP / self.protocol / f"{self.name}.cuts.json").read_text())
        return cuts


def avro(name: str) -> dict[str, str]:
    return {"schema-registry": str(SHOP / "ticdc-avro" / f"{name}.schemas.json")}


# TiCDC's Avro protocol has no tables without a key, so `audit` is in neither of its logs.
WATERMARKS = Log(
    "ticdc-avro",
    "avro-watermark.classic",
    avro("avro-watermark.classic"),
    only=("customers", "orders", "items", "order_items", "refunds"),
)
EXTENSION = Log(
    "ticdc-avro",
    "avro-ext.newarch",
    {**avro("avro-ext.newarch"), "avro-bigint-unsigned-handling-mode": "string"},
    only=("customers", "refunds"),
)
OPEN = Log("ticdc-open", "open-3.newarch")
DECIMALS = ("balance", "total", "price", "amount")
LOGS = [
    WATERMARKS,
    Log("ticdc-debezium", "dbz-schema.classic", doubles=DECIMALS),
    Log("ticdc-debezium", "dbz-noschema.newarch", doubles=DECIMALS),
    Log("debezium-mysql", "mariadb-10.11-schema"),
    Log(
        "debezium-mysql",
        "mysql-8.0.33-noschema",
        {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise"},
    ),
    Log("tencent-dts", "one-partition"),
    Log("tencent-dts", "four-partitions-split"),
]
# One log for each kind of frontier, and one with rows without commit_ts, at every second of its cuts. With
# CHANGEFEED_CUTS=all: every log at all of its cuts. Each run reads one log of each protocol, the nightly run all.
_ALL = os.environ.get("CHANGEFEED_CUTS") == "all"
_TELLING = {"avro-watermark.classic", "mysql-8.0.33-noschema", "four-partitions-split"}
TELLING = [log for log in LOGS if _ALL or log.name in _TELLING]
WHOLE, CUT, BY_KEY = (
    {"dbz-noschema.newarch"},
    {"avro-watermark.classic", "four-partitions-split"},
    {"mysql-8.0.33-noschema"},
)


def _in_each_run(logs: list[Log], names: set[str]) -> list[Any]:
    return [log if log.name in names else pytest.param(log, marks=pytest.mark.nightly) for log in logs]


@pytest.mark.parametrize("log", _in_each_run(LOGS, WHOLE), ids=str)
def test_the_whole_history_in_one_batch(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    pipeline = log.pipeline(tmp_path)
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final", log.only, log.doubles)
    counts = status(pipeline).to_dict()["counts"]
    assert (counts["dead"], counts["rows"]) == (0, counts["applied"] + counts["repeated"])


@pytest.mark.heavy
@pytest.mark.parametrize("log", _in_each_run(TELLING, CUT), ids=str)
def test_until_each_named_cut_then_on_to_the_end(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    pipeline = log.pipeline(tmp_path, limit=4000)
    for cut, until in list(log.cuts.items())[:: 1 if _ALL else 2]:
        assert run(pipeline, spark, once=True, until=until).reached, cut
        check_expected(pipeline, cut, log.only, log.doubles)
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final", log.only, log.doubles)


@pytest.mark.parametrize("log", _in_each_run([OPEN, *TELLING], BY_KEY), ids=str)
def test_by_key_partitions_that_lag_end_equal(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    records = uneven(log.path, tmp_path / "log.jsonl", seed=7, stretch=600)
    named = {"name": log.protocol, **log.options}
    pipeline = definition(records, tmp_path / "lake", protocol=named, limit=2500, consistency="key")
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final", log.only, log.doubles)
    counts = status(pipeline).to_dict()["counts"]
    assert (counts["dead"], counts["rows"]) == (0, counts["applied"] + counts["repeated"])


def test_rows_without_schema_changes_and_marks_give_the_columns_that_they_carry(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = EXTENSION.pipeline(tmp_path, consistency="key")
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final", EXTENSION.only)
