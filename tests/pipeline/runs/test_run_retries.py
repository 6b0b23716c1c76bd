"""A run goes on after transient errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import telemetry
from changefeed.errors import ResourceError, SinkError, SourceError
from changefeed.pipeline.config.load import read
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.pipeline.retry import Retry
from changefeed.pipeline.run import run
from changefeed.pipeline.state import State
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition
from tests.services.processes import stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_run_goes_on_from_the_ledger_after_a_transient_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error may come before or after the step has begun, and on any thread."""
    log, marks = small_history(tmp_path / "app.jsonl")
    failing = ["begun.before", "stage.after", "load.after", "done.before"]
    retries: list[Retry] = []

    def fail(name: str) -> None:
        if failing and name == failing[0]:
            raise SinkError(f"conflict {failing.pop(0)}", transient=True)

    monkeypatch.setattr(telemetry, "on_pass", fail)
    pipeline = definition(log, tmp_path / "lake", limit=20, **{"retry-backoff": "1 millisecond"})
    done = run(pipeline, spark, once=True, retrying=retries.append)
    assert [str(retry.error).split()[1] for retry in retries] == [
        "begun.before",
        "stage.after",
        "load.after",
        "done.before",
    ]
    assert (done.epoch, done.state.barrier, done.before.barrier) == (5, marks[-1], None)
    check_cuts(pipeline, History(log))


def test_an_error_that_stays_ends_the_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    retries: list[Retry] = []

    def fail(name: str) -> None:
        if name == "stage.after":
            raise ResourceError("overloaded", transient=True)

    monkeypatch.setattr(telemetry, "on_pass", fail)
    pipeline = definition(log, tmp_path / "lake", retry_backoff="1 millisecond", max_retries=2)
    with pytest.raises(ResourceError, match="overloaded"):
        run(pipeline, spark, once=True, retrying=retries.append)
    assert [(retry.number, retry.limit, retry.seconds) for retry in retries] == [(1, 2, 0.001), (2, 2, 0.002)]


@pytest.mark.heavy
def test_brokers_that_are_away_when_a_run_begins(spark: SparkSession, tmp_path: Path) -> None:
    from tests.pipeline.kit.open_records import mark, row
    from tests.services.kafka import KafkaBroker

    with KafkaBroker() as broker:
        broker.create_topic("a")
        broker.produce("a", [row(10, 1), *mark(11)])
        assert broker._process is not None
        stop(broker._process)
        source = {"type": "kafka", "servers": broker.bootstrap, "topics": ["a"], "protocol": "ticdc-open"}
        pipeline = read(
            {
                "source": source,
                "sink": {"type": "delta", "path": str(tmp_path / "lake")},
                "pipeline": {"name": "away", "max-retries": 1, "retry-backoff": "1 millisecond"},
            }
        )
        with pytest.raises(SourceError, match="does not answer") as error:
            run(pipeline, spark, once=True)
        assert error.value.transient
        done = run(pipeline, spark, once=True, retrying=lambda _: broker._start())
        assert done.state.barrier == 11


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("trouble", ["stopped", "hanging"])
def test_a_run_waits_for_brokers_that_are_away(spark: SparkSession, tmp_path: Path, trouble: str) -> None:
    from tests.pipeline.kit.open_records import mark, row
    from tests.services.kafka import KafkaBroker

    with KafkaBroker() as broker:
        broker.create_topic("a")
        broker.produce("a", [row(10, 1), *mark(11)])
        source = {"type": "kafka", "servers": broker.bootstrap, "topics": ["a"], "protocol": "ticdc-open"}
        pipeline = read(
            {
                "source": source,
                "sink": {"type": "delta", "path": str(tmp_path / "lake")},
                "pipeline": {"name": "away", "max-retries": 1, "retry-backoff": "1 second"},
            }
        )
        barriers, retries, errors, over = [0], list[Retry](), list[BaseException](), threading.Event()

        def applied(state: State, _: RunNow) -> None:
            barriers.append(state.barrier or 0)

        def follow() -> None:
            try:
                run(pipeline, spark, stopping=over.is_set, retrying=retries.append, progress=applied)
            except BaseException as error:
                errors.append(error)

        def until(condition: Callable[[], bool]) -> None:
            while not condition():
                assert thread.is_alive(), errors
                time.sleep(0.2)

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            until(lambda: barriers[-1] == 11)
            with getattr(broker, trouble)():
                until(lambda: bool(retries) and retries[-1].limit is None)
            broker.produce("a", [row(20, 2), *mark(21)])
            until(lambda: barriers[-1] == 21)
        finally:
            over.set()
            thread.join(120)
        assert errors == []
