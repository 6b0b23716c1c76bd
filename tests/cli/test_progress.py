"""The output of `run` while it runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from changefeed.api.results import Progress
from changefeed.cli.output import Output, RunLine
from changefeed.cli.progress import RunProgress, table_words
from changefeed.pipeline.config.load import read
from changefeed.pipeline.monitoring.view import Failure
from changefeed.pipeline.state import Counts, State
from changefeed.sources.kafka.source_offset import SourceOffset
from changefeed.ticdc import tso
from tests.cli.run_now import NOON, now

STATE = State(
    resolved={"shop": {0: 7}},
    latest={"shop": {0: 9}},
    positions={"shop": {0: 4, 1: 2}},
    source=SourceOffset({"shop": {"0": 4, "1": 2, "2": -2}}).text(),
    counts=Counts(rows=9, applied=4),
)


def _pipeline(**pipeline: Any) -> Any:
    source = {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"], "protocol": "ticdc-open"}
    return read({"source": source, "sink": {"type": "delta", "path": "lake"}, "pipeline": pipeline})


class _Line(RunLine):
    def __init__(self) -> None:
        self.texts = list[str]()
        self.bars = list[tuple[int, int | None]]()

    def say(self, text: str) -> None:
        self.texts.append(text)

    def bar(self, done: int, total: int | None) -> None:
        self.bars.append((done, total))


def _progress(line: RunLine, output: Output | None = None, **more: bool) -> RunProgress[Progress]:
    options = {"cuts": True, "ages": True, **more}
    words = partial(table_words, cuts=options["cuts"], ages=options["ages"])
    return RunProgress(output or Output(), line, "p", words)


def test_the_line_names_who_holds_the_cut_once_all_is_read() -> None:
    line = _Line()
    progress = _progress(line)
    progress.step(Progress.of(_pipeline(), STATE))
    progress.step(Progress.of(_pipeline(), STATE, now(left=1200, rows_per_second=1234.4)))
    assert line.texts == [
        "4 rows applied, 5 pending, 0 tables, no cut yet, held by shop:1 (no resolved event yet), shop:2 (no resolved event "
        "yet)",
        "4 rows applied (1,234/s), 5 pending, 0 tables, no cut yet, 1,200 records to read",
    ]


def test_a_pipeline_without_cuts_shows_none() -> None:
    line = _Line()
    _progress(line, cuts=False).step(Progress.of(_pipeline(consistency="key"), STATE))
    assert line.texts == ["4 rows applied, 5 pending, 0 tables"]


def test_a_run_shows_where_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    line, output = _Line(), Output()
    progress = _progress(line, output, cuts=False)
    progress.begun(Progress.of(_pipeline(consistency="key"), STATE))
    assert line.texts == ["at the start: 4 rows applied, 5 pending, 0 tables"]
    output.json = True
    progress.begun(Progress.of(_pipeline(), STATE))
    assert (len(line.texts), capsys.readouterr().out) == (1, "")


def test_a_silent_source_is_reported_once_and_its_return_too(capsys: pytest.CaptureFixture[str]) -> None:
    progress, down = _progress(_Line()), Failure(NOON, "b:9092 does not answer: Connection refused")
    for moment in (now(), now(source_down=down), now(source_down=down), now()):
        progress.watch(moment)
    assert capsys.readouterr().err.splitlines() == [
        "the source has not answered since 2026-03-01 12:00:00Z (b:9092 does not answer: Connection refused)",
        "the source answers again",
    ]


def test_in_json_steps_and_the_source_are_events(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.json = True
    progress = _progress(_Line(), output)
    progress.watch(now(source_down=Failure(NOON, "gone")))
    progress.step(Progress.of(_pipeline(), STATE, now(left=3, behind={"shop": {0: 3}})))
    source, step = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert source == {"event": "source", "answers": False, "since": "2026-03-01T12:00:00+00:00", "reason": "gone"}
    assert step["lag"] == {"records": 3, "pending_rows": 5, "records_by_partition": {"shop": {"0": 3}}}
    assert [holder["name"] for holder in step["held_by"]] == ["shop:1", "shop:2"]
    assert step["cut"] == "no cut yet"


def test_the_bar_shows_what_is_read_of_all_there_is() -> None:
    line = _Line()
    progress = _progress(line)
    progress.watch(now(read=300, left=700))
    progress.watch(now(read=1000, left=0))
    progress.watch(now(read=5, left=None))
    assert line.bars == [(300, 1000), (1000, None), (5, None)]


def test_in_a_terminal_the_line_shows_what_the_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = _Line()
    progress = _progress(line)
    progress.step(Progress.of(_pipeline(), STATE, now(left=1)))
    progress.watch(now(at=NOON + timedelta(seconds=20), stage="writing 3 tables", read=10, left=5, busy=2.0))
    assert line.texts[-1] == (
        "p: writing 3 tables for 20 s, about 1.0 s left, 4 rows applied, 5 pending, 0 tables, no cut yet, 1 record to read"
    )


def test_tables_grow_older_in_the_line_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line, clock = _Line(), [NOON]
    monkeypatch.setattr("changefeed.cli.progress.datetime", SimpleNamespace(now=lambda _: clock[0]))
    progress = _progress(line)
    progress.step(Progress.of(_pipeline(), replace(STATE, barrier=tso.at(1000 * int(NOON.timestamp())))))
    for _ in range(2):
        clock[0] += timedelta(hours=1)
        progress.watch(now(stage="waiting for new records"))
    ages = [re.search("[^ ]+ [^ ]+ behind", text) for text in line.texts]
    assert [age and age[0] for age in ages] == ["0.0 s behind", "1 h behind", "2 h behind"]


def test_in_a_terminal_a_run_shows_what_holds_the_cut_before_it_reads_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = _Line()
    progress = _progress(line)
    progress.begun(Progress.of(_pipeline(), STATE))
    progress.watch(now(stage="waiting for new records"))
    assert line.texts == [
        "p: waiting for new records, 4 rows applied, 5 pending, 0 tables, no cut yet, held by shop:1 (no resolved event yet), "
        "shop:2 (no resolved event yet)"
    ]


def test_lines_in_a_log_are_ten_seconds_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("changefeed.cli.output.time.monotonic", lambda: clock[0])
    with Output().run_line() as line:
        for number in range(100):
            line.say(f"step {number}")
            clock[0] += 1.0
    assert capsys.readouterr().err.split("\n")[:-1] == [f"step {number}" for number in [*range(0, 100, 10), 99]]


def test_the_newest_line_of_a_log_does_not_wait_for_another_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("changefeed.cli.output.time.monotonic", lambda: clock[0])
    with Output().run_line() as line:
        progress = _progress(line, cuts=False)
        progress.step(Progress.of(_pipeline(), State(counts=Counts(rows=1))))
        progress.step(Progress.of(_pipeline(), State(counts=Counts(rows=1, applied=1))))
        for _ in range(12):
            clock[0] += 1.0
            progress.watch(now())
        shown = capsys.readouterr().err
    assert [text.partition(",")[0] for text in shown.splitlines()] == ["0 rows applied", "1 row applied"]
