"""The counts of `bench/bad_input.py`, on a smaller log of the same kind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.bad_input import DAMAGE, measure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.heavy
@pytest.mark.slow
def test_a_hundred_bad_records_among_ten_thousand(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    result = measure(spark, tmp_path, 10_000, 100, seed, batches=4)
    assert result["faults"] == []
    assert result["counts"]["dead"] == 100
    assert len(result["damage"]) > len(DAMAGE) // 2
