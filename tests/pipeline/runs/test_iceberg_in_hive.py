"""Pipelines into Iceberg tables whose names are in a real Hive metastore: exact cuts, through kills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import telemetry
from changefeed.pipeline.run import run
from tests.killed import Killed
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.hive_metastore import HiveMetastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.nightly
def test_every_cut_is_exact_through_kills(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    with HiveMetastore(tmp_path / "metastore", locks=True) as metastore:
        options = {"catalog-properties": {"type": "hive", "uri": metastore.uri}}
        pipeline = definition(log, tmp_path / "lake", limit=20, sink="iceberg", options=options)
        points = ["begun.after", "load.after", "upsert.after", "rewrite.after", "done.before"]
        for point in points:

            def kill(name: str, point: str = point) -> None:
                if name == point:
                    raise Killed(name)

            with monkeypatch.context() as patch:
                patch.setattr(telemetry, "on_pass", kill)
                with pytest.raises(Killed, match=point):
                    run(pipeline, spark, once=True)
        assert run(pipeline, spark, once=True).epoch == len(points) + 1
        check_cuts(pipeline, History(log))
        counts = published(pipeline)[-1].state.counts
        assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)
