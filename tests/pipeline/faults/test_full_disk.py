"""A full disk: the sink's, or that of the temporary folder."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import ResourceError
from changefeed.pipeline.run import run
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Disk = Callable[[str, str], Path]

# with the folder
_MESSAGE = (
    r"the disk is full \({}: [\d.]+ (?:bytes?|kB) free\): make room there and run again\. What was begun is finished first, "
    r"nothing is lost"
)


def _make_room(full: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=100m", str(full)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Mounts a disk of a given size."""
    mounted: list[Path] = []

    def mount(name: str, size: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("a small disk can be mounted by root alone")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("size", ["4k", "40k", "80k"])
def test_the_disk_of_the_sink(
    spark: SparkSession, tmp_path: Path, disk: Disk, size: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The ledger, the pending store or a table does not fit on the disk."""
    log, _ = small_history(tmp_path / "app.jsonl")
    full = disk("full", size)
    pipeline = definition(log, full / "lake")
    with pytest.raises(ResourceError) as error:
        run(pipeline, spark, once=True)
    assert re.fullmatch(_MESSAGE.format(re.escape(str(full / "lake"))), str(error.value))
    assert not error.value.transient
    assert capfd.readouterr().err == ""
    if size == "80k":
        _make_room(full)
        run(pipeline, spark, once=True)
        check_cuts(pipeline, History(log))


@pytest.mark.parametrize("size", ["4k", "20k"])
def test_the_disk_of_the_pipelines_folder(spark: SparkSession, tmp_path: Path, disk: Disk, size: str) -> None:
    """The tables have room; the ledger or the pending store does not."""
    log, _ = small_history(tmp_path / "app.jsonl")
    full = disk("full", size)
    pipeline = definition(log, tmp_path / "lake", folder=str(full / "home"))
    with pytest.raises(ResourceError) as error:
        run(pipeline, spark, once=True)
    assert re.fullmatch(_MESSAGE.format(re.escape(str(full / "home"))), str(error.value))
    _make_room(full)
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log))


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_the_disk_of_sparks_scratch_folder(tmp_path: Path, disk: Disk) -> None:
    """A shuffle of Spark does not fit."""
    log, _ = small_history(tmp_path / "app.jsonl")
    full = disk("scratch", "64k")
    (full / "other").write_bytes(bytes(60 * 1024))
    sections = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open"},
        "sink": {"type": "delta", "path": str(tmp_path / "lake"), "writer": "spark"},
        "pipeline": {"name": "test"},
        "spark": {"spark.driver.memory": "1g", "spark.local.dir": str(full)},
    }
    (tmp_path / "pipeline.yaml").write_text(json.dumps(sections))  # JSON is YAML
    command = [sys.executable, "-m", "changefeed.cli", "run", str(tmp_path / "pipeline.yaml"), "--once"]
    stopped = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert stopped.returncode == 1
    [error] = [line for line in stopped.stderr.splitlines() if line.startswith("error: ")]
    assert re.fullmatch("error: " + _MESSAGE.format(re.escape(str(full))), error)
    assert " ERROR " not in stopped.stderr
    _make_room(full)
    assert subprocess.run(command, capture_output=True, timeout=600).returncode == 0
    check_cuts(definition(log, tmp_path / "lake", writer="spark"), History(log))


def test_the_temporary_folder(
    spark: SparkSession,
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Copies of a compressed log do not fit."""
    log, _ = small_history(tmp_path / "app.jsonl")
    packed = tmp_path / "app.jsonl.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    full = disk("tmp", "4k")
    monkeypatch.setattr(tempfile, "tempdir", str(full))
    pipeline = definition(packed, tmp_path / "lake", limit=20)
    with pytest.raises(ResourceError) as error:
        run(pipeline, spark, once=True)
    assert str(error.value).startswith(f"the disk is full ({full}")
    assert capfd.readouterr().err == ""
    monkeypatch.undo()
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(packed))
