"""The same definition on YARN, by spark-submit in both modes; in cluster mode a second attempt finishes the step of the first."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from changefeed.pipeline.ledger import read_ledger
from changefeed.spark_runtime import package
from tests.cluster.running import OnCluster
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts
from tests.services.yarn_cluster import SPARK_HOME, YarnCluster

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.nightly]
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
SUBMITTED = {
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.yarn.maxAppAttempts": "2",
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "640m",
    "spark.executor.instances": "2",
    "spark.ui.enabled": "false",
}
# Both attempts run it, in containers of one machine.
KILLED_ONCE = """
import os

if not os.path.exists({0!r}):
    os.environ["CHANGEFEED_FAILPOINT"] = "upsert.before:3"
    open({0!r}, "x").close()
from changefeed.cli import main

main()
"""


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[YarnCluster]:
    """A node with room for a driver and two executors."""
    with YarnCluster(tmp_path / "yarn") as cluster:
        yield cluster


def _submit(
    packed: package.Made, yarn: YarnCluster, folder: Path, mode: str, file: str
) -> subprocess.CompletedProcess[str]:
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--properties-file",
        str(packed.properties),
        "--load-spark-defaults",
    ]
    command += ["--master", "yarn", "--deploy-mode", mode]
    staging = {"spark.yarn.stagingDir": yarn.staging.as_uri()}
    for name, value in (SUBMITTED | staging).items():
        command += ["--conf", f"{name}={value}"]
    if mode == "cluster":
        command += ["--files", file]
        file = Path(file).name
    command += [str(packed.program), "run", file, "--once", "--json"]
    return subprocess.run(command, cwd=folder, env=yarn.environ, capture_output=True, text=True)


def test_in_cluster_mode_the_next_attempt_finishes_what_a_killed_driver_began(
    packed: package.Made, yarn: YarnCluster, tmp_path: Path
) -> None:
    """The definition goes along as a file, and the driver runs in a container, in the archive's Python."""
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = OnCluster(tmp_path, log, SMALL, limit=25)
    program = tmp_path / "killed_once.py"
    program.write_text(KILLED_ONCE.format(str(tmp_path / "begun")))
    ran = _submit(replace(packed, program=program), yarn, tmp_path, "cluster", str(pipeline.file))
    assert ran.returncode == 0, f"{ran.stderr}\n{yarn.errors()}"
    latest = read_ledger(pipeline.beside).latest()
    assert latest is not None
    assert latest.epoch == 2
    check_cuts(pipeline.beside, History(log))


def test_in_client_mode_the_driver_runs_on_this_machine(
    packed: package.Made, environment: Path, yarn: YarnCluster, tmp_path: Path
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = OnCluster(tmp_path, log, SMALL, limit=25)
    ran = _submit(packed, yarn, environment, "client", str(pipeline.file))
    assert ran.returncode == 0, f"{ran.stderr}\n{yarn.errors()}"
    check_cuts(pipeline.beside, History(log))
