"""Random histories of whole pipelines, their rows written natively to Delta tables on disk, without Spark.

The pipelines are those of `test_crashes_in_memory.py`: tables that are created, changed and dropped, partial images, tables
without a key; runs that end anywhere, and runs of one pipeline at the same time. Every published cut is compared with the
upstream's tables.

`CHANGEFEED_NATIVE_HISTORIES` is their number; `CHANGEFEED_SEED` repeats a seed, which every failure prints.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from changefeed import telemetry
from tests.pipeline.kit import in_memory
from tests.pipeline.kit.in_memory import Storage
from tests.pipeline.kit.random_crashes import end_anywhere, interleave
from tests.pipeline.kit.random_runs import Pipeline, history, logs_of
from tests.sinks.delta_native.on_disk import Disk, DiskSink

HISTORIES = int(os.environ.get("CHANGEFEED_NATIVE_HISTORIES", "6"))
Make = Callable[[int], tuple[Pipeline, Random]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("consistency", ["transaction", "key"]),
    pytest.mark.parametrize("merges_on_read", [False, True], ids=["copy-on-write", "merge-on-read"]),
]


@pytest.fixture
def make(consistency: str, merges_on_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """The pipeline of a history by its number, on a folder of its own."""
    seed = int(os.environ.get("CHANGEFEED_SEED") or (1 if os.environ.get("CI") else secrets.randbelow(2**40)))
    print("seed", seed)
    monkeypatch.setattr(in_memory, "MemorySink", DiskSink)

    def pipeline(number: int) -> tuple[Pipeline, Random]:
        random = Random(f"{seed} {consistency} {merges_on_read} {number}")
        upstream = history(random, random.randint(10, 50), partial=number % 2 == 0, moves=consistency != "key")
        disk: Any = Disk(tmp_path / str(number), merges_on_read)
        logs = logs_of(upstream, random.randint(1, 3), random)
        return Pipeline(upstream, logs, consistency, storage=Storage(tables=disk)), random

    return pipeline


def _made(pipeline: Pipeline) -> list[str]:
    disk: Any = pipeline.storage.tables
    made: list[str] = disk.made
    return made


@pytest.mark.heavy
def test_runs_that_end_anywhere(
    make: Make, merges_on_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Counter[str]()
    for number in range(HISTORIES):
        pipeline, random = make(number)
        end_anywhere(pipeline, random, partial(monkeypatch.setattr, telemetry, "on_pass"))
        made.update(_made(pipeline))
    print(made)
    assert {"Load", "Upsert", "Touch"} <= set(made), made
    log = "".join(file.read_text() for file in tmp_path.rglob("_delta_log/*.json"))
    assert ('"deletionVector"' in log) == merges_on_read
    assert merges_on_read or '"OPTIMIZE"' not in log
    assert not merges_on_read or '"OPTIMIZE"' in log or HISTORIES < 10  # a few histories may need no compaction


@pytest.mark.heavy
def test_two_or_three_runs_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs move from failpoint to failpoint in random order, some are killed; one of them reaches the end."""
    fenced = 0
    for number in range(HISTORIES):
        pipeline, random = make(number)
        fenced += interleave(pipeline, random, partial(monkeypatch.setattr, telemetry, "on_pass"))
    print("fenced", fenced)
    assert fenced or HISTORIES < 10
