"""A full disk: the sink's, or that of the temporary folder."""

from __future__ import annotations

import gzip
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import ResourceError
from changefeed.pipeline.run import run
from tests.pipeline.history import small_history
from tests.pipeline.oracle import History
from tests.pipeline.running import check_cuts, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Disk = Callable[[str, str], Path]


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
    assert str(error.value) == (
        f"the disk is full ({full / 'lake'}): make room there and run again. What was begun is finished first, nothing is lost"
    )
    assert not error.value.transient
    assert capfd.readouterr().err == ""
    if size == "80k":
        subprocess.run(["mount", "-o", "remount,size=100m", str(full)], check=True)
        run(pipeline, spark, once=True)
        check_cuts(pipeline, History(log))


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
