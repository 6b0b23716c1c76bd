"""Temporary folders, and those of runs that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from changefeed.spark_runtime.scratch import Scratch, sweep

MAKE = """
import sys
from changefeed.spark_runtime.scratch import Scratch
print(Scratch('x', sys.argv[1]).path, flush=True)
input()
"""


def test_a_folder_is_deleted_with_its_owner(tmp_path: Path) -> None:
    scratch = Scratch("x", str(tmp_path))
    (scratch.path / "file").write_text("x")
    assert sweep(str(tmp_path)) == []
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_processes_that_have_ended_are_deleted(tmp_path: Path) -> None:
    alive, dead = (
        subprocess.Popen(
            [sys.executable, "-c", MAKE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    )
    with alive, dead:
        assert alive.stdout is not None
        assert dead.stdout is not None
        living, left = (Path(process.stdout.readline().strip()) for process in (alive, dead) if process.stdout)
        (left / "lines.jsonl").write_text("x")
        os.kill(dead.pid, signal.SIGKILL)
        dead.wait()
        (tmp_path / "changefeed-being-made").mkdir()
        (tmp_path / "changefeed-link").symlink_to(left)
        (tmp_path / "others").mkdir()
        assert sweep(str(tmp_path)) == [left]
        names = {"changefeed-being-made", "changefeed-link", "others", living.name}
        assert {path.name for path in tmp_path.iterdir()} == names
        alive.kill()
