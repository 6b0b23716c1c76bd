"""Lines on stderr of a run as JSON, and their levels."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from changefeed.api.results import Progress
from changefeed.cli import run
from changefeed.cli.output import Output, RunLine
from changefeed.cli.progress import RunProgress, table_words
from changefeed.pipeline.monitoring.view import Failure
from changefeed.redaction import remember
from tests.cli.run_now import now


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.fixture
def output() -> Output:
    made = Output()
    made.log_json = True
    return made


def test_a_line_has_time_level_and_message_and_no_secret(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    remember("password", "wordofsecret")
    output.note("shop: starting wordofsecret ü", part=3)
    (line,) = lines(capsys)
    assert abs((datetime.fromisoformat(line.pop("time")) - datetime.now(UTC)).total_seconds()) < 60
    assert line == {"level": "info", "message": "shop: starting *** ü", "part": 3}


@pytest.mark.parametrize(
    "level, shown",
    [("info", ["info", "warning", "error"]), ("warning", ["warning", "error"]), ("error", ["error"])],
)
@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_lines_below_the_level_are_left_out(
    level: str, shown: list[str], as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output()
    output.log_json, output.log_level = as_json, logging.getLevelNamesMapping()[level.upper()]
    output.note("begins")
    with output.warnings():
        logging.getLogger("changefeed.part").warning("is %s", "slow")
    output.error("SinkError", "the disk is full", 1)
    texts = {"info": "begins", "warning": "is slow" if as_json else "warning: is slow",
             "error": "the disk is full" if as_json else "error: the disk is full"}  # fmt: skip
    printed = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] if as_json else line for line in printed] == [texts[name] for name in shown]


def test_a_line_of_the_package_names_its_logger_and_its_life_is_left_out_of_text(
    output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    with output.warnings():
        logging.getLogger("changefeed.pipeline.flow").info("published")
        logging.getLogger("changefeed.pipeline.flow").debug("left out")
    output.log_json = False
    with output.warnings():
        logging.getLogger("changefeed.pipeline.flow").info("left out")
    (line,) = lines(capsys)
    assert (line["level"], line["message"], line["logger"]) == ("info", "published", "changefeed.pipeline.flow")


def test_a_source_that_does_not_answer_is_a_warning(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    shown = RunProgress[Progress](output, RunLine(), "shop", partial(table_words, cuts=True, ages=False))
    shown.watch(now(source_down=Failure(datetime.now(UTC), "Connection refused")))
    shown.watch(now())
    assert [(line["level"], "Connection refused" in line["message"]) for line in lines(capsys)] == [
        ("warning", True),
        ("info", False),
    ]


def test_an_error_ends_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(tmp_path / "none.yaml"), "--log-format", "json", "--log-level", "error"]) == 2
    (line,) = lines(capsys)
    assert (line["level"], line["type"], line["exit_code"]) == ("error", "ConfigError", 2)
    assert "none.yaml" in line["message"]


def test_json_for_programs_and_a_log_in_json_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "p.yaml", "--json", "--log-format", "json"]) == 2
    assert "leave out --log-format json, or --json" in lines(capsys)[0]["message"]
