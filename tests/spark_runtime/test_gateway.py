from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from changefeed.spark_runtime.gateway import leveled, worth_reading
from tests.pipeline.kit.history import small_history

DAEMON = b'  File "/x/pyspark.zip/pyspark/daemon.py", line 87, in worker\n'
USER = b'  File "/home/me/job.py", line 3, in <lambda>\n'
HEAD = b"Traceback (most recent call last):\n"
BROKEN = b"BrokenPipeError: [Errno 32] Broken pipe\n"
INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


@pytest.mark.parametrize(
    "lines, left",
    [
        ([INCUBATOR, b"a\n"], [b"a\n"]),
        ([b"a\n", HEAD, DAEMON, DAEMON, BROKEN, b"b\n"], [b"a\n", b"b\n"]),
        # the user's own code, another error, or a traceback without an end: all of it
        ([HEAD, USER, BROKEN], [HEAD, USER, BROKEN]),
        ([HEAD, DAEMON, USER, BROKEN], [HEAD, DAEMON, USER, BROKEN]),
        ([HEAD, DAEMON, b"MemoryError\n"], [HEAD, DAEMON, b"MemoryError\n"]),
        ([HEAD, USER], [HEAD, USER]),
        ([HEAD, USER, HEAD, DAEMON, BROKEN], [HEAD, USER]),
        ([BROKEN], [BROKEN]),
        ([b"  indented\n", b"no newline"], [b"  indented\n", b"no newline"]),
    ],
)
def test_only_lines_without_information_are_left_out(lines: Any, left: Any) -> None:
    assert list(worth_reading(lines)) == left


@pytest.mark.parametrize(
    "line, before, expected",
    [
        ("17:28:40 ERROR Executor: lost, twice: x", logging.INFO, (logging.WARNING, "Executor", "lost, twice: x")),
        ("17:28:40 WARN Utils: the port is taken", logging.INFO, (logging.WARNING, "Utils", "the port is taken")),
        ("17:28:40 INFO SparkContext: Running", logging.WARNING, (logging.INFO, "SparkContext", "Running")),
        (
            "\tat org.apache.spark.A.b(A.scala:1)",
            logging.INFO,
            (logging.INFO, "", "\tat org.apache.spark.A.b(A.scala:1)"),
        ),
        (
            "OpenJDK 64-Bit Server VM warning: x",
            logging.WARNING,
            (logging.WARNING, "", "OpenJDK 64-Bit Server VM warning: x"),
        ),
    ],
)
def test_the_level_of_a_line(line: str, before: int, expected: Any) -> None:
    assert leveled(line, before) == expected


@pytest.mark.nightly
def test_every_line_of_a_run_is_json(tmp_path: Path) -> None:
    """The JVM is made to print: its own warnings at the level `info`, and what it prints before it has a log."""
    log, _ = small_history(tmp_path / "app.jsonl")
    spark = {"spark.driver.memory": "1g", "spark.log.level": "INFO", "spark.driver.extraJavaOptions": "-Xlog:gc:stderr"}
    sections = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open"},
        "sink": {"type": "delta", "path": str(tmp_path / "lake")},
        "pipeline": {"name": "test"},
        "spark": spark,
    }
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(sections))  # JSON is YAML
    command = [sys.executable, "-m", "changefeed.cli", "run", str(path), "--once", "--log-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    loggers = [line.get("logger", "") for line in lines]
    assert any(name.startswith("spark.") for name in loggers)
    assert "spark" in loggers
