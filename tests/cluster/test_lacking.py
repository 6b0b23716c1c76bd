"""A worker that lacks something ends the run with one sentence, before anything is written."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from changefeed.spark_runtime import workers
from tests.cluster.running import OnCluster, properties
from tests.pipeline.kit.history import small_history
from tests.services.processes import reported_error
from tests.services.spark_cluster import SparkCluster

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.nightly]
FIX = "Ship this installation: `changefeed package` makes the archive that spark.archives names"


def _without(name: str) -> Callable[[Path], None]:
    return lambda packages: shutil.rmtree(packages / name)


def _other_version(packages: Path) -> None:
    file = packages / "changefeed" / "__init__.py"
    text = file.read_text().replace("0.1.0", "0.0.9")
    file.unlink()
    file.write_text(text)


def _other_build(packages: Path) -> None:
    (packages / "changefeed" / "more.py").write_text("")


@pytest.mark.parametrize(
    "spoil, what",
    [
        (_without("changefeed"), "has no package changefeed"),
        (_other_version, "has changefeed 0.0.9, the driver 0.1.0"),
        (_other_build, "has another build of changefeed 0.1.0 than the driver"),
        (_without("pyarrow"), "has no package pyarrow"),
        (_without("changefeed_kernel"), "has no Rust kernel, the driver has one"),
        (None, "has no Python at /nowhere/python"),
    ],
)
def test_it_is_named_within_seconds(
    spoil: Callable[[Path], None] | None, what: str, unpacked: Path, cluster: SparkCluster, tmp_path: Path
) -> None:
    if "kernel" in what and workers.expected()["kernel"] is None:
        pytest.skip("no kernel here")
    python = Path("/nowhere/python")
    if spoil is not None:
        spoiled = tmp_path / "environment"
        shutil.copytree(unpacked, spoiled, symlinks=True)
        spoil(spoiled / "packages")
        python = spoiled / "bin" / "python"
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = OnCluster(tmp_path, log, cluster.properties | {"spark.pyspark.python": str(python)})
    began = time.monotonic()
    ran = pipeline.run()
    print(f"{time.monotonic() - began:.1f} s")
    assert ran.returncode == 2, ran.stderr
    error = reported_error(ran.stderr)
    assert error["type"] == "ConfigError"
    assert error["message"].startswith("the worker on "), error
    assert f" {what}" in error["message"], error
    assert FIX in error["message"]
    assert list((tmp_path / "lake").iterdir()) == []


_PRIVATE = 'mount -t tmpfs none "$0" && exec "$@"'  # a disk of its own, like that of another machine


def test_a_sink_that_is_another_folder_on_the_workers_is_refused(archive: Path, tmp_path: Path) -> None:
    lake = tmp_path / "here" / "lake"
    lake.mkdir(parents=True)
    around = ("unshare", "--mount", "sh", "-c", _PRIVATE, str(lake))
    if subprocess.run([*around, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    log, _ = small_history(tmp_path / "app.jsonl")
    with SparkCluster(tmp_path / "cluster", count=1, around=around) as cluster:
        pipeline = OnCluster(tmp_path, log, properties(cluster, archive))
        sections = json.loads(pipeline.file.read_text())
        sections["sink"]["path"] = str(lake)
        pipeline.file.write_text(json.dumps(sections))
        ran = pipeline.run()
    assert ran.returncode == 2, ran.stderr
    assert reported_error(ran.stderr)["message"].endswith(
        "does not see the folder of sink.path as the driver does: name one on a file system that all machines share"
    )
    assert list(lake.iterdir()) == []
