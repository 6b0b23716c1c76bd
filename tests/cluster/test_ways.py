"""The same definition by spark-submit, and with a session that the user's own job has started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from changefeed.spark_runtime import java, package
from tests.cluster.running import OnCluster
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts
from tests.services.spark_cluster import SPARK_HOME, SparkCluster

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.nightly]
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.mark.parametrize("master", ["cluster", "local[2]"])
def test_spark_submit_in_client_mode(
    master: str, packed: package.Made, environment: Path, cluster: SparkCluster, tmp_path: Path
) -> None:
    """No path contains this installation: the driver runs in the archive's Python too."""
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = OnCluster(tmp_path, log, SMALL, limit=25)
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "JAVA_HOME": str(java.find().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"), "--properties-file", str(packed.properties), "--load-spark-defaults",
        "--master", cluster.url if master == "cluster" else master, "--driver-memory", "700m", "--executor-memory", "640m",
        str(packed.program), "run", str(pipeline.file), "--once", "--json",
    ]  # fmt: skip
    ran = subprocess.run(command, cwd=environment, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert '"event": "summary"' in ran.stdout or '"event":"summary"' in ran.stdout
    check_cuts(pipeline.beside, History(log))
    command[-4:] = ["run", str(tmp_path / "no-such-file.yaml"), "--once", "--json"]
    failed = subprocess.run(command, cwd=environment, env=environ, capture_output=True, text=True)
    assert failed.returncode == 2, "spark-submit ends with the command's exit code"


JOB = """
import sys
from pyspark.sql import SparkSession
from changefeed.pipeline.config.load import load
from changefeed.pipeline.run import run

definition = load(sys.argv[1])
builder = SparkSession.builder.appName("a job").master(sys.argv[2])
theirs = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "true"}
spark = builder.config(map={**definition.spark, **theirs}).getOrCreate()
done = run(definition, spark, once=True)
print(done.steps, spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.ansi.enabled"))
spark.stop()
"""


def test_a_session_that_was_handed_over_keeps_its_settings(
    packed: package.Made, environment: Path, cluster: SparkCluster, tmp_path: Path
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    python = str(environment / "environment" / "bin" / "python")
    delta = {
        "spark.jars": ",".join(str(jar) for jar in packed.jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    pipeline = OnCluster(tmp_path, log, cluster.properties | delta, limit=25)
    environ = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    command = [sys.executable, "-c", JOB, str(pipeline.file), cluster.url]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    steps, *settings = ran.stdout.split()
    assert (int(steps) > 0, settings) == (True, ["America/New_York", "false"])
    check_cuts(pipeline.beside, History(log))


@pytest.mark.parametrize("sink", ["local", "viewfs", "by Spark"])
def test_a_session_without_deltas_jars_writes_natively_where_it_can(
    sink: str, environment: Path, cluster: SparkCluster, tmp_path: Path
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = OnCluster(tmp_path, log, cluster.properties, limit=25)
    sections = json.loads(pipeline.file.read_text())
    if sink != "viewfs":
        sections["sink"]["path"] = str(tmp_path / "lake")
    if sink == "by Spark":
        sections["sink"]["writer"] = "spark"
    pipeline.file.write_text(json.dumps(sections))
    python = str(environment / "environment" / "bin" / "python")
    environ = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    command = [sys.executable, "-c", JOB, str(pipeline.file), cluster.url]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    if sink == "local":
        assert ran.returncode == 0, ran.stderr
        check_cuts(pipeline.beside, History(log))
        return
    assert ran.returncode == 1
    no_delta = (
        "Spark would have to write the tables, and has no Delta Lake, whose jars changefeed has for Spark 4.1: pip install "
        "'pyspark~=4.1.0', or on a cluster the jars of `changefeed package`"
    )
    reported = [line for line in ran.stderr.splitlines() if line.startswith("changefeed.errors.")]
    message = (
        f"viewfs://lake/tables: {no_delta}. Or use a local folder, s3://, abfss:// or gs://"
        if sink == "viewfs"
        else f"sink.writer is `spark`. {no_delta}. Or leave out sink.writer"
    )
    assert reported == [f"changefeed.errors.ConfigError: {message}"]
