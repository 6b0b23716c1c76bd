"""The heartbeat: the newest one of the newest run is read, whatever the runs do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changefeed.errors import SinkError
from changefeed.pipeline.monitoring.heartbeat import Heartbeat, read_heartbeat
from changefeed.pipeline.monitoring.texts import run_dict, run_text
from changefeed.pipeline.monitoring.view import Failure, RunNow
from changefeed.storage.local import LocalFolder

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _now(epoch: int, **more: Any) -> RunNow:
    times: dict[str, Any] = {"started": NOON, "at": NOON, "stage_since": NOON}
    known: dict[str, Any] = {"pipeline": "p", "host": "h", "pid": 7, "every": 5.0, "stage": "planning"}
    return RunNow(epoch=epoch, **{**known, **times, **more})


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(str(tmp_path / "heartbeat"))


def test_one_file_is_left_of_each_run_and_the_newest_is_read(folder: LocalFolder) -> None:
    beats = Heartbeat(folder)
    for number in range(12):
        beats.write(_now(3, steps=number, behind={"a": {0: 5}}))
    assert len(folder.names()) == 1
    assert read_heartbeat(folder) == _now(3, steps=11, behind={"a": {0: 5}})


def test_a_run_that_was_replaced_is_not_taken_for_the_one_that_replaced_it(folder: LocalFolder) -> None:
    old, new = Heartbeat(folder), Heartbeat(folder)
    old.write(_now(3))
    new.write(_now(4))
    assert len(folder.names()) == 1
    old.write(_now(3, steps=9))
    read = read_heartbeat(folder)
    assert read is not None
    assert read.epoch == 4
    new.write(_now(4, steps=1))
    read = read_heartbeat(folder)
    assert read is not None
    assert (read.epoch, read.steps) == (4, 1)


def test_a_retry_takes_a_new_epoch_and_leaves_one_file(folder: LocalFolder) -> None:
    beats = Heartbeat(folder)
    beats.write(_now(3))
    beats.write(_now(4))
    assert len(folder.names()) == 1


def test_before_the_ledger_is_claimed_there_is_none(folder: LocalFolder) -> None:
    Heartbeat(folder).write(_now(0))
    assert folder.names() == []
    assert read_heartbeat(folder) is None


def test_a_heartbeat_that_cannot_be_read_is_as_none(folder: LocalFolder) -> None:
    for data in (b"{", b"[]", b'{"format": 1}', b'{"format": 99}'):
        folder.put("00000000000000000009-00000000000000000001.json", data)
        assert read_heartbeat(folder) is None


def test_a_run_whose_heartbeat_cannot_be_written_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    class Full(LocalFolder):
        def create(self, name: str, data: bytes) -> bool:
            raise SinkError("full")

    beats = Heartbeat(Full("/nowhere"))
    with caplog.at_level("INFO"):
        beats.write(_now(3))
        beats.write(_now(3))
    assert " ".join(caplog.messages).count("the heartbeat cannot be written") == 1


def test_a_run_is_alive_as_long_as_its_heart_beats() -> None:
    now = _now(3)
    assert now.is_alive(NOON + timedelta(seconds=15))
    assert not now.is_alive(NOON + timedelta(seconds=17))
    assert not msgspec.structs.replace(now, ended=True).is_alive(NOON)


def test_a_run_in_words_and_in_json() -> None:
    at = NOON + timedelta(seconds=12)
    alive = _now(
        3, retries=2, error=Failure(NOON, "no broker"), applied=900, busy=3.0, rows_per_second=250.0, read=100, left=50
    )
    assert run_text(alive, at) == (
        "epoch 3 on h (pid 7), since 2026-03-01 12:00:00Z: planning for 12 s, 250 rows/s now, 300 on average, about 1.5 s left, "
        "2 retries, the last at 2026-03-01 12:00:00Z after: no broker"
    )
    assert "It did not end by itself, and its last heartbeat was at 2026-03-01 12:00:00Z: killed" in run_text(
        alive, at + timedelta(minutes=1)
    )
    failed = msgspec.structs.replace(alive, ended=True, stage="stopped by an error")
    assert run_text(failed, at).endswith("stopped by an error at 2026-03-01 12:00:00Z: no broker")
    document = run_dict(alive, at)
    assert (document["alive"], document["mean_rows_per_second"], document["error"]["reason"]) == (
        True,
        300.0,
        "no broker",
    )
    assert "source_down" not in document
