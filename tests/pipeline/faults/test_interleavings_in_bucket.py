"""Two or three runs at once into a bucket whose server loses, refuses and cuts off requests; more by `bench/s3_runs.py`.

`CHANGEFEED_SEED` repeats the logs and the order of the runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random, randrange
from typing import TYPE_CHECKING

import pytest

from changefeed import telemetry
from tests.pipeline.kit.in_bucket import BucketPipeline, disturbed_server
from tests.pipeline.kit.random_crashes import interleave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEDULES = 8


@pytest.mark.nightly
def test_runs_in_a_random_order_whose_requests_fail(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("CHANGEFEED_SEED") or randrange(2**32))
    print("seed", seed)
    with disturbed_server(tmp_path, Random(seed), 0.02) as (s3, proxy):
        for name, value in s3.environ.items():
            monkeypatch.setenv(name, value)
        for number in range(SCHEDULES):
            random = Random(f"{seed} {number}")
            pipeline = BucketPipeline.random(random, tmp_path / f"schedule-{number}", s3, proxy.url, spark)
            interleave(pipeline, random, lambda function: monkeypatch.setattr(telemetry, "on_pass", function))
            assert pipeline.cuts
