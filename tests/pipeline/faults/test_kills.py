"""Real processes killed with SIGKILL, stopped and taken over: the command, its JVM or both, at random moments."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from changefeed.pipeline.config.definition import Definition
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition

pytestmark = pytest.mark.xdist_group("processes")

_RECORDS = 4
"""Records of a batch: few, so that a run takes about a dozen steps, and is still in the midst of them when it is killed."""


@pytest.fixture
def pipeline(tmp_path: Path) -> tuple[Definition, Path, History]:
    """A pipeline, its definition file, and the history that its tables must have."""
    log, _ = small_history(tmp_path / "app.jsonl")
    file = tmp_path / "pipeline.yaml"
    sections = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": _RECORDS},
        "sink": {"type": "delta", "path": str(tmp_path / "lake")},
        "pipeline": {"name": "test"},
        "spark": {"spark.driver.memory": "1g"},
    }
    file.write_text(json.dumps(sections))  # JSON is YAML
    return definition(log, tmp_path / "lake", limit=_RECORDS), file, History(log)


def _start(file: Path, failpoint: str | None = None) -> subprocess.Popen[str]:
    environment = os.environ | ({"CHANGEFEED_FAILPOINT": failpoint} if failpoint else {})
    command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _finish(file: Path) -> None:
    """Runs the pipeline to its end."""
    process = _start(file)
    _, output = process.communicate(timeout=200)
    assert process.returncode == 0, output


def _after_steps(process: subprocess.Popen[str], steps: int) -> None:
    """Waits until the run has reported this many steps."""
    assert process.stdout is not None
    for line in process.stdout:
        steps -= json.loads(line)["event"] == "step"
        if not steps:
            return
    raise AssertionError(process.stderr.read() if process.stderr else "")


def _jvm(process: subprocess.Popen[str]) -> int:
    """Process id of the run's own JVM, the child named java."""
    return next(int(child.pid) for child in psutil.Process(process.pid).children() if child.name() == "java")


@pytest.mark.heavy
def test_the_driver_killed_at_a_write_then_the_jvm_at_a_random_moment_then_both(
    pipeline: tuple[Definition, Path, History],
) -> None:
    pipe, file, history = pipeline
    driver = _start(file, "load.before:2")
    driver.communicate(timeout=200)
    assert driver.returncode == -signal.SIGKILL

    only_jvm = _start(file)
    seed = random.randrange(2**32)
    print("seed", seed)
    moment = random.Random(seed)
    _after_steps(only_jvm, moment.randint(1, 3))
    time.sleep(moment.random() * 0.3)  # seconds: within the step that follows
    os.kill(_jvm(only_jvm), signal.SIGKILL)
    _, output = only_jvm.communicate(timeout=200)
    assert only_jvm.returncode == 1
    assert "Spark's JVM has ended" in output

    both = _start(file, "copy.after")
    both.communicate(timeout=200)
    assert both.returncode in (-signal.SIGKILL, 0)  # 0: the previous run had already come further than that

    _finish(file)
    check_cuts(pipe, history)


@pytest.mark.heavy
@pytest.mark.parametrize("daemon", [False, True], ids=["workers", "daemon"])
def test_python_workers_killed_at_random_moments_are_retried(
    pipeline: tuple[Definition, Path, History], daemon: bool
) -> None:
    pipe, file, history = pipeline
    retries, enough = list[str](), threading.Event()
    with _start(file) as driver:
        assert driver.stdout is not None
        assert driver.stderr is not None
        _after_steps(driver, 1)
        killing = threading.Thread(target=_kill_python, args=(driver, daemon, enough))
        killing.start()
        for event in map(json.loads, driver.stdout):
            if event["event"] == "retry":
                retries.append(event["error"]["message"])
            if len(retries) == 2:
                enough.set()
        enough.set()
        killing.join()
        output = driver.stderr.read()
    print(output, retries)
    assert driver.returncode == 0
    assert retries
    assert {message.partition(":")[0] for message in retries} == {"a Python worker has ended"}
    assert "defect" not in output
    check_cuts(pipe, history)


def _kill_python(driver: subprocess.Popen[str], daemon: bool, enough: threading.Event) -> None:
    """Kills the Python workers of the run's JVM again and again, or the daemon that forks them and the workers."""
    java = psutil.Process(_jvm(driver))
    while not enough.wait(random.random() * 0.1):  # seconds
        with suppress(psutil.NoSuchProcess):
            for child in java.children():
                for process in (*([child] if daemon else []), *child.children()):
                    process.kill()


@pytest.mark.heavy
def test_a_run_stopped_while_another_takes_over_is_fenced_when_it_goes_on(
    pipeline: tuple[Definition, Path, History],
) -> None:
    pipe, file, history = pipeline
    older = _start(file)
    _after_steps(older, 1)
    java = _jvm(older)
    for process in (older.pid, java):
        os.kill(process, signal.SIGSTOP)
    _finish(file)
    check_cuts(pipe, history)
    for process in (older.pid, java):
        os.kill(process, signal.SIGCONT)
    _, output = older.communicate(timeout=200)
    assert older.returncode != 0
    assert "epoch 2" in output
    check_cuts(pipe, history)
