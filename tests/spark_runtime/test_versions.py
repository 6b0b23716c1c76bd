"""Pipelines on the other versions of Spark, for which no jars are locked: the tests of pipelines, run again with each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# All protocols, every crash point, cuts at each commit_ts; Kafka, read by librdkafka; tables in a bucket; PySpark alone.
TESTS = (
    "pipeline/runs/test_shop.py",
    "pipeline/protocols/test_protocols.py",
    "pipeline/faults/test_crashes.py",
    "pipeline/frontier/test_by_key.py",
    "pipeline/letters/test_bad_input.py",
    "pipeline/runs/test_kafka.py",
    "pipeline/runs/test_own_folder.py",
    "pipeline/runs/test_in_object_store.py",
    "spark/test_batch.py",
)


@pytest.mark.parametrize("name", TESTS)
def test_a_named_test_is_there(name: str) -> None:
    assert (ROOT / "tests" / name).is_file()


@pytest.mark.nightly
@pytest.mark.timeout(3000)
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("version", ["4.0.5", "4.2.1", "4.3.0"])
def test_pipelines_run_on_other_versions_of_spark(version: str, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    subprocess.run([*install, f"pyspark=={version}"], check=True)
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CHANGEFEED_TURN"))}
    environ = outer | {"PYTHONPATH": os.pathsep.join([str(packages), str(ROOT / "src"), str(ROOT)])}
    shown = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.run(shown, env=environ, capture_output=True, text=True, check=True).stdout.strip() == version
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-m", "not nightly"]
    command += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]  # PySpark 4.0 leaves sockets open
    tests = [str(ROOT / "tests" / name) for name in TESTS]
    ran = subprocess.run(
        [*command, "--basetemp", str(tmp_path / "tests"), *tests],
        cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-8000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None
    assert int(passed[1]) > 20
