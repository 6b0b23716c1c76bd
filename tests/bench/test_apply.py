"""`changefeed bench apply`: whole runs of a pipeline, whose tables are compared with their logs."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.bench import apply
from changefeed.errors import SinkError
from changefeed.model.change import RowChange
from changefeed.pipeline.monitoring.phases import Phases
from tests.cli.command import invoke

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def in_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command in the session of the tests, with its folders below `tmp_path`."""
    monkeypatch.setattr("changefeed.spark_runtime.session.session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize("mode", ["copy-on-write", pytest.param("merge-on-read", marks=pytest.mark.nightly)])
def test_every_job_is_applied_and_compared(tmp_path: Path, mode: str) -> None:
    done = invoke("bench", "apply", "--rows", 60, "--tables", 2, "--write-mode", mode, "--json")
    jobs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(job["job"], job["tables"], job["rows"]) for job in jobs] == [
        ("inserts", 1, 60),
        ("changes", 1, 60),
        ("tables", 2, 60),
    ]
    for job in jobs:
        assert job["compared"] > 0
        assert sum(job["phases"].values()) == pytest.approx(job["seconds"], rel=0.2, abs=0.3)
        assert all(job["phases"][name] > 0 for name in ("decode, stage", "plan", "commit", "ledger"))
    assert list(tmp_path.glob("changefeed-bench-*")) == []


@pytest.mark.usefixtures("in_session")
def test_the_tables_for_people_say_what_was_compared() -> None:
    shown = invoke("bench", "apply", "--rows", 20, "--tables", 2).stdout
    assert "every row compared with the logs: " in shown
    assert all(f"\n{job} " in shown for job in ("inserts", "changes", "tables"))


def test_a_row_that_differs_from_the_log_is_an_error(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2], "note": ["a", "b"]}))
    assert apply._compared(str(tmp_path / "t"), None, {1: "a", 2: "b"}) == 2
    with pytest.raises(SinkError, match=r"1 rows are not those of the log, the first with id 2\. This is a defect"):
        apply._compared(str(tmp_path / "t"), None, {1: "a", 2: "c"})


def test_the_log_comes_to_the_rows_that_are_expected(tmp_path: Path) -> None:
    from changefeed.api.logs import read

    log = apply._Log(tmp_path / "logs", 1, random.Random(3), 10)
    log.insert(50)
    log.change(200)
    log.write()
    rows: dict[int, str] = {}
    for event in read(tmp_path / "logs" / "0000.parquet", "ticdc-open"):
        if not isinstance(event, RowChange):
            continue
        if event.after is None:
            assert event.before is not None
            del rows[event.before["id"]]
        else:
            rows[event.after["id"]] = event.after["note"]
    assert rows == log.tables[0]


def test_phases_divide_a_step() -> None:
    now = iter(range(100))
    phases = Phases(lambda: float(next(now)))
    points = "stage.before stage.after begun.before begun.after load.before upsert.before upsert.after load.after"
    for point in [*points.split(), "done.before", "pack.before", "pack.after", "done.after", "cleanup.before"]:
        phases(point, {})
    assert phases.seconds == {
        "read": 2, "idle": 0, "decode, stage": 1, "plan": 1, "write": 2, "commit": 3, "ledger": 4, "clean up": 0,
    }  # fmt: skip
