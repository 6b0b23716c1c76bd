"""The program of `bench/kills.py`, for a dozen kills."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from bench.kills import Campaign, campaign
from tests.pipeline.kit.in_bucket import disturbed_server

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes"), pytest.mark.timeout(3600)]


@pytest.mark.parametrize("sink", ["delta", "iceberg"])
def test_runs_that_are_killed_at_random_lose_nothing(
    sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seed = int(os.environ.get("CHANGEFEED_SEED") or random.randrange(2**32))
    done = campaign(seed, 12, 30, tmp_path, sys.stdout, sink=sink)
    _check(done)


def test_runs_into_a_bucket_that_are_killed_at_random_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seed = int(os.environ.get("CHANGEFEED_SEED") or random.randrange(2**32))
    with disturbed_server(tmp_path, random.Random(seed), 0.01) as (s3, proxy):
        for name, value in s3.environ.items():
            monkeypatch.setenv(name, value)
        done = campaign(seed, 12, 30, tmp_path, sys.stdout, storage=s3.storage(proxy.url))
    _check(done)


def _check(done: Campaign) -> None:
    print(done.summary())
    assert (done.errors, [faults.words for _, faults in done.faults if faults.words]) == ([], [])
    assert len(done.kills) == 12
