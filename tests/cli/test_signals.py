"""Signals that all processes of a run get: from a terminal, `timeout`, or a service manager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests.pipeline.kit.history import HistoryBuilder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # each starts a JVM of its own
    pytest.mark.xdist_group("processes"),
]


def _family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The process and all its descendants."""
    run = psutil.Process(process.pid)
    return [run, *run.children(recursive=True)]


def _to_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    os.killpg(process.pid, number)


def _to_service(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    for member in _family(process):
        with suppress(psutil.NoSuchProcess):
            member.send_signal(number)


def _gone(family: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(family, timeout=60)
    return not alive


def _started(tmp_path: Path) -> subprocess.Popen[bytes]:
    """Starts a run in a process group of its own, with many steps to do."""
    h = HistoryBuilder()
    for number in range(60):
        h.rows(("orders", None, {"id": number, "note": "one"}))
        h.resolved()
    h.write(tmp_path / "app.jsonl")
    definition = {
        "source": {"type": "files", "path": "app.jsonl", "protocol": "ticdc-open", "max-records-per-batch": 3},
        "sink": {"type": "delta", "path": "lake"},
        "pipeline": {"name": "signals"},
        "spark": {"spark.driver.memory": "1g"},
    }
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(definition))
    command = [sys.executable, "-m", "changefeed.cli", "run", str(tmp_path / "p.yaml"), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "send, number, code",
    [
        pytest.param(_to_service, signal.SIGTERM, 143, marks=pytest.mark.nightly),
        pytest.param(_to_group, signal.SIGINT, 130, marks=pytest.mark.nightly),
        (_to_group, signal.SIGTERM, 143),
        pytest.param(_to_service, signal.SIGINT, 130, marks=pytest.mark.nightly),
    ],
)
def test_a_run_ends_after_its_step(
    tmp_path: Path, send: Callable[[subprocess.Popen[bytes], signal.Signals], None], number: signal.Signals, code: int
) -> None:
    with _started(tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        family = _family(process)
        send(process, number)
        lines = process.stdout.read().splitlines()
        assert process.wait(60) == code, process.stderr.read().decode()
        assert process.stderr.read() == b""
    assert first["event"] == "step"
    summary = json.loads(lines[-1])
    assert (summary["event"], summary["stopped_by"]) == ("summary", number.name)
    assert summary["counts"]["applied"] == summary["counts"]["rows"] > 0
    assert _gone(family)


@pytest.mark.heavy
def test_nothing_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    with _started(tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        family = _family(process)
        process.kill()
        process.wait()
    assert len(family) > 2
    assert _gone(family)


@pytest.mark.heavy
def test_a_jvm_that_is_killed_is_reported_in_one_line(tmp_path: Path) -> None:
    with _started(tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        family = _family(process)
        next(member for member in family if member.name() == "java").kill()
        process.stdout.read()
        output = process.stderr.read().decode()
        assert len(output.splitlines()) == 1, output
        assert process.wait(60) == 1
    error = json.loads(output)["error"]
    assert error["type"] == "ResourceError"
    assert error["message"].startswith("Spark's JVM has ended: killed, or out of memory")
    assert _gone(family)
