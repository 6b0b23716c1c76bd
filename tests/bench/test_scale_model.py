"""The fit of `bench/scale_model.py`, and the arithmetic of its predictions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.scale_model import Cluster, Model, capacity, chunk_count, fitted, predicted, total

MODEL = Model({"step": 0.5, "tables": 0.001}, {"changes": 1e-5, "tables": 0.01})


def test_a_fit_finds_the_coefficients_of_its_steps() -> None:
    rows = [{"tables": t, "chunks": c, "driver": 0.2 + 0.001 * t + 2e-5 * c} for t in (1, 100, 900) for c in (5, 7000)]
    found = fitted(rows, ("step", "tables", "chunks"), "driver")
    assert found == pytest.approx({"step": 0.2, "tables": 0.001, "chunks": 2e-5})


def test_no_coefficient_is_negative() -> None:
    rows = [{"tables": t, "chunks": c, "driver": 0.01 * t - 1e-4 * c} for t in (100, 200) for c in (10, 50)]
    found = fitted(rows, ("tables", "chunks"), "driver")
    assert found["chunks"] == 0
    assert found["tables"] == pytest.approx(0.01, rel=0.1)


def test_a_term_without_a_quantity_counts_once() -> None:
    assert total({"step": 0.5, "tables": 0.1}, {"tables": 10}) == 1.5


def test_a_step_lasts_the_drivers_seconds_and_those_of_all_cores() -> None:
    cluster = Cluster(cores=10, tables=100, partitions=10, interval=10, latency=0)
    step = predicted(MODEL, cluster, 100_000)
    assert step.driver == pytest.approx(0.5 + 0.1)
    assert step.seconds == pytest.approx(0.6 + (10 + 1) / 10)
    assert step.first == "cores"


def test_the_driver_waits_for_requests_in_parallel() -> None:
    cluster = Cluster(cores=10, tables=1_000, partitions=10, parallelism=10, latency=0.1)
    driver = predicted(MODEL, cluster, 1_000).driver
    assert driver > 0.1 * 1_000 * 11 / 10
    assert predicted(MODEL, replace(cluster, parallelism=20), 1_000).driver < driver


def test_the_capacity_is_the_rate_whose_step_fills_the_interval() -> None:
    cluster = Cluster(cores=16, tables=100, partitions=10)
    assert predicted(MODEL, cluster, capacity(MODEL, cluster)).seconds == pytest.approx(cluster.interval, rel=1e-3)
    assert capacity(MODEL, replace(cluster, tables=1_000_000)) < 1_000_000 / cluster.interval


@pytest.mark.parametrize(
    "readers, tables, changes, chunks",
    [(1, 10, 8_000, 10), (1, 10, 80_000, 100), (4, 100, 4_000, 400), (4, 100, 100, 100), (1, 100, 102_400, 200)],
)
def test_each_batch_of_a_task_has_a_chunk_for_each_table(readers: int, tables: int, changes: int, chunks: int) -> None:
    assert chunk_count(readers, tables, changes) == chunks
