"""A clock that is set back between two runs: rows and cuts are right, and no cut is older than the one before it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.run import run
from changefeed.pipeline.state import State
from changefeed.pipeline.store.files import FileStore
from changefeed.sinks.delta.native import log_file
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = timedelta(days=1)


@pytest.mark.heavy
def test_a_clock_set_back_by_a_day_between_two_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline, steps = definition(log, tmp_path / "lake", limit=4), list[State]()
    run(
        pipeline,
        spark,
        once=True,
        progress=lambda state, _: steps.append(state),
        stopping=lambda: sum(map(bool, map(State.versions, steps))) >= 3,
    )
    before = published(pipeline)
    monkeypatch.setattr(log_file, "_now", lambda: int((time.time() - DAY.total_seconds()) * 1000))
    store = FileStore.__init__

    def late(self: FileStore, *arguments: object, **named: object) -> None:
        store(self, *arguments, **(named | {"now": lambda: datetime.now(UTC) - DAY}))  # type: ignore[arg-type]

    monkeypatch.setattr(FileStore, "__init__", late)
    run(pipeline, spark, once=True)
    cuts = published(pipeline)
    assert len(cuts) > len(before) >= 3
    check_cuts(pipeline, History(log))
    times = [cut.at for cut in read_ledger(pipeline).history()]
    assert times == sorted(times)
    logs = (folder for folder in Path(pipeline.sink.path).glob("*/*/_delta_log"))
    stamps = [[_time(commit) for commit in sorted(log.glob("*.json"))] for log in logs]
    assert any(of != sorted(of) for of in stamps), "no commit was made by the clock that was set back"


def _time(commit: Path) -> int:
    """The time that a commit has, in milliseconds."""
    actions = map(json.loads, commit.read_text().splitlines())
    return next(int(action["commitInfo"]["timestamp"]) for action in actions if "commitInfo" in action)
