"""Histories on a standalone cluster: a worker is killed in the middle of a step, then the driver, and all is exact.

Workers have Java and the Python of `changefeed package`, and nothing else. The tables are on viewfs://, which only Hadoop reads.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cluster.running import OnCluster, properties
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import SHOP, check_cuts, check_expected, published
from tests.services.spark_cluster import SparkCluster

pytestmark = pytest.mark.xdist_group("processes")


def _survives(pipeline: OnCluster, cluster: SparkCluster, write: int) -> None:
    """A worker dies in the middle of the first merge, the driver before a later one; the next run ends it."""
    ended = pipeline.run(kill=("upsert.before", [cluster.pid(0)]), failpoint=f"upsert.before:{write}")
    assert "killed by the test" in ended.stderr
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert cluster.state()["aliveworkers"] == 1
    done = pipeline.run()
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["event"], summary["epoch"]) == ("summary", 2)
    check_cuts(pipeline.beside, History(pipeline.log))


@pytest.mark.heavy
def test_a_worker_and_then_the_driver_die_in_the_middle_of_a_step(
    cluster: SparkCluster, unpacked: Path, tmp_path: Path
) -> None:
    """The archive is unpacked where both workers find it, which is quicker than shipping it to each of them twice."""
    log, _ = small_history(tmp_path / "app.jsonl")
    python = {"spark.pyspark.python": str(unpacked / "bin" / "python")}
    _survives(OnCluster(tmp_path, log, cluster.properties | python), cluster, 2)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_same_in_the_shops_history(cluster: SparkCluster, archive: Path, tmp_path: Path) -> None:
    log = SHOP / "ticdc-open" / "open-1.classic.jsonl.gz"
    pipeline = OnCluster(tmp_path, log, properties(cluster, archive), limit=300)
    _survives(pipeline, cluster, 6)
    check_expected(pipeline.beside, "final")
    status = pipeline.changefeed("status", str(pipeline.file), "--json")  # through Spark, as nothing else reads viewfs
    assert status.returncode == 0, status.stderr
    shown = json.loads(status.stdout)
    assert (shown["counts"]["applied"], shown["pending"]) == (4629, 0)
    assert shown["cuts"][-1]["tables"] == published(pipeline.beside)[-1].state.versions()
