"""The main job: the shop's recorded history, from both producers, becomes exactly the expected tables.

The tables are read without Spark. Every cut of the ledger is compared with the history, replayed event by event in plain
dicts, and the named cuts with the tables that were recorded with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from changefeed.sinks.delta import sink
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import SHOP, check_cuts, check_expected, definition, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS = ("open-1.classic", "open-3.newarch")


def _log(name: str) -> Path:
    return SHOP / "ticdc-open" / f"{name}.jsonl.gz"


def _named_cuts(name: str) -> dict[str, int]:
    cuts: dict[str, int] = json.loads((SHOP / "ticdc-open" / f"{name}.cuts.json").read_text())
    return cuts


@pytest.mark.heavy
@pytest.mark.parametrize("name", LOGS)
def test_the_whole_history_in_one_batch(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = definition(_log(name), tmp_path)
    if name == "open-1.classic":  # its plans are compiled, as those of large writes are
        monkeypatch.setattr(sink, "_MANY_ROWS", 1)
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final")
    check_cuts(pipeline, History(_log(name)))
    counts = status(pipeline).to_dict()["counts"]
    assert counts == {
        "records": 509 if name == "open-1.classic" else 4332, "rows": 4629, "applied": 4629, "repeated": 0,
        "schema_changes": 13, "dead": 0,
    }  # fmt: skip


@pytest.mark.heavy
@pytest.mark.timeout(1800)  # thirteen steps, each of some seconds, and much longer on a busy machine
def test_in_batches_of_500_records_until_each_named_cut_then_on_to_the_end(spark: SparkSession, tmp_path: Path) -> None:
    """One pipeline, stopped at each cut and run again; partitions lag, so many changes that were read stay pending each time."""
    pipeline = definition(_log("open-3.newarch"), tmp_path, limit=500)
    steps = 0
    for cut, commit_ts in _named_cuts("open-3.newarch").items():
        done = run(pipeline, spark, once=True, until=commit_ts)
        assert done.reached
        steps += done.steps
        assert published(pipeline)[-1].state.barrier == commit_ts
        check_expected(pipeline, cut)
    with pytest.raises(ConfigError, match="the tables are at"):
        run(pipeline, spark, once=True, until=commit_ts - 1)
    steps += run(pipeline, spark, once=True).steps
    assert steps == 13
    check_expected(pipeline, "final")
    check_cuts(pipeline, History(_log("open-3.newarch")))
