"""The fit of `bench/scale_model.py`, and the arithmetic of its predictions."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from bench.scale_model import Cluster, Model, chunk_count, fitted, predicted, shortest_interval, total

MODEL = Model({"step": 0.5, "tables": 0.001}, {"changes": 1e-5, "tables": 0.01})


def test_a_fit_finds_the_coefficients_of_its_steps() -> None:
    rows = [{"tables": t, "chunks": c, "driver": 0.2 + 0.001 * t + 2e-5 * c} for t in (1, 100, 900) for c in (5, 7000)]
    coefficients = fitted(rows, ("step", "tables", "chunks"), "driver")
    assert coefficients == pytest.approx({"step": 0.2, "tables": 0.001, "chunks": 2e-5})


def test_no_coefficient_is_negative() -> None:
    rows = [{"tables": t, "chunks": c, "driver": 0.01 * t - 1e-4 * c} for t in (100, 200) for c in (10, 50)]
    coefficients = fitted(rows, ("tables", "chunks"), "driver")
    assert coefficients["chunks"] == 0
    assert coefficients["tables"] == pytest.approx(0.01, rel=0.1)


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
    assert driver > 0.1 * 1_000 * 6 / 10
    assert predicted(MODEL, replace(cluster, parallelism=20), 1_000).driver < driver


def test_the_shortest_interval_is_that_of_a_step() -> None:
    cluster = Cluster(cores=16, tables=100, partitions=10)
    interval = shortest_interval(MODEL, cluster, 100_000)
    assert predicted(MODEL, replace(cluster, interval=interval), 100_000).seconds == pytest.approx(interval, rel=0.05)
    tenth = predicted(MODEL, cluster, 100_000).driver / 0.1
    assert shortest_interval(MODEL, cluster, 100_000, 0.1) == pytest.approx(tenth, rel=0.05)


def test_no_interval_suffices_for_more_changes_than_the_cores_apply() -> None:
    assert shortest_interval(MODEL, Cluster(cores=1, tables=1, partitions=1), 200_000) == inf


@pytest.mark.parametrize(
    "readers, tables, partitions, changes, chunks",
    [
        (1, 10, 0, 8_000, 10),
        (1, 10, 0, 80_000, 100),
        (4, 100, 0, 100, 100),
        (1, 100, 0, 102_400, 200),
        (4, 100, 2, 4_000, 416),
    ],
)
def test_a_batch_has_a_chunk_of_each_table_and_two_of_each_partition(
    readers: int, tables: int, partitions: int, changes: int, chunks: int
) -> None:
    assert chunk_count(readers, tables, partitions, changes) == chunks
