"""Native writes by a cluster's workers, into a folder that all machines see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition
from tests.services.spark_cluster import SparkCluster

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_workers_write_the_files_and_the_driver_commits(cluster: SparkCluster, unpacked: Path, tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    properties = cluster.properties | {"spark.pyspark.python": str(unpacked / "bin" / "python")}
    command = [sys.executable, "-m", "tests.cluster.native", json.dumps(properties), str(log), str(tmp_path / "lake")]
    environ = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_cuts(definition(log, tmp_path / "lake"), History(log))
    logs = (tmp_path / "lake" / "app").glob("*/_delta_log/*.json")
    assert any('"engineInfo":"changefeed"' in commit.read_text() for commit in logs)
