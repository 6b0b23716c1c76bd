"""The command as a shell sees it: exit codes, stdout, stderr, signals."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from changefeed.record_log import read, write
from tests.cli.command import CLASSIC

DATA = Path(__file__).parent.parent / "data" / "shop" / "ticdc-open"
OPEN = ("--protocol", "ticdc-open")


def _run(*args: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "changefeed.cli", *map(str, args)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120, **options)  # type: ignore[call-overload]
    done.stderr = re.sub(rb"(?m)^.*the kernel is not installed.*\n", b"", done.stderr)  # only without the kernel
    return done  # type: ignore[no-any-return]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A log of the history's first three records."""
    path = tmp_path / "first.jsonl"
    write(path, read(CLASSIC, stop=3))
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """The same log, with the second record's value truncated."""
    path = tmp_path / "damaged.jsonl"
    [batch] = read(CLASSIC, stop=3)
    rows = batch.to_pylist()
    rows[1]["value"] = rows[1]["value"][:-5]
    write(path, [type(batch).from_pylist(rows, schema=batch.schema)])
    return path


def test_success_is_0_and_events_are_on_stdout(first: Path) -> None:
    done = _run("decode", first, *OPEN)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "schema create_database shop  CREATE DATABASE `shop`  at shop:0:0"
    assert len(lines) == 3


def test_a_dead_letter_is_3_after_all_other_events(damaged: Path) -> None:
    done = _run("decode", damaged, *OPEN)
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, [line.split()[0] for line in lines]) == (3, ["schema", "dead_letter", "schema"])
    assert done.stderr.decode() == (
        "1 dead letter: records or messages that could not be decoded; --json shows their bytes\n"
    )
    done = _run("decode", damaged, *OPEN, "--json")
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert (done.returncode, kinds, done.stderr) == (3, ["schema", "dead_letter", "schema"], b"")


def test_a_wrong_command_line_is_2_on_stderr(first: Path) -> None:
    wrong: list[tuple[list[str | Path], str]] = [
        (["decod"], 'error: unknown command "decod". Did you mean "decode"? Known: '),
        (["decode", first], "error: Missing option '--protocol'. (see: changefeed decode --help)"),
        (
            ["decode", first, "--protocol", "ticdc-opne"],
            'error: unknown protocol "ticdc-opne". Did you mean "ticdc-open"?',
        ),
        (["decode", first, *OPEN, "-o", "x"], "error: Invalid value for '-o': 'x' is not of the form key=value"),
        (
            ["decode", first, *OPEN, "-o", "time-zoen=UTC"],
            'error: unknown option of ticdc-open "time-zoen". Did you mean',
        ),
    ]
    for args, message in wrong:
        done = _run(*args)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode().startswith(message)
        assert b"Traceback" not in done.stderr


def test_an_unreadable_log_is_3_and_what_came_before_is_printed(first: Path) -> None:
    with first.open("a") as file:
        file.write("{}}\n")
    done = _run("decode", first, *OPEN, "--json")
    assert done.returncode == 3
    [error] = done.stderr.decode().splitlines()
    message = f"{first}:4: JSON is malformed: trailing characters (byte 3)"
    assert json.loads(error) == {"error": {"type": "SourceError", "message": message, "exit_code": 3}}


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_traceback_is_shown_when_asked_for(how: str, first: Path) -> None:
    env = {**os.environ, "CHANGEFEED_DEBUG": "1"} if how == "environment" else None
    more = ["--traceback"] if how == "option" else []
    done = _run("decode", first, "--protocol", "nope", *more, env=env)
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, lines[0]) == (2, "Traceback (most recent call last):")
    assert lines[-1].startswith('error: unknown protocol "nope".')


def test_text_is_utf8_in_any_locale(tmp_path: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = _run("decode", CLASSIC, *OPEN, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "  active: 1 → 0" in done.stdout.decode("utf-8")


def test_a_reader_that_closes_the_pipe_is_not_an_error() -> None:
    command = [sys.executable, "-m", "changefeed.cli", "decode", str(CLASSIC), *OPEN, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_ctrl_c_is_130_and_quiet(tmp_path: Path) -> None:
    pipe = tmp_path / "log.jsonl"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "changefeed.cli", "decode", str(pipe), *OPEN]
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=default) as process:
        assert process.stderr is not None
        with pipe.open("wb"):  # opens when the command reads
            process.send_signal(signal.SIGINT)
            assert (process.stderr.read().strip(), process.wait(60)) == (b"", 130)


def test_progress_is_shown_to_a_terminal_only(first: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_bytes(_run("decode", first, *OPEN, "--json").stdout)
    main, terminal = os.openpty()
    command = [sys.executable, "-m", "changefeed.cli", "encode", events, *OPEN, "--out", tmp_path / "out.jsonl"]
    env = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=terminal, env=env) as process:
        os.close(terminal)
        assert process.stdout is not None
        assert process.stdout.read() == f"wrote {tmp_path / 'out.jsonl'}, 3 records\n".encode()
    shown = os.read(main, 1 << 16).decode()
    os.close(main)
    assert "encode events.jsonl" in shown
    assert " records" in shown
    assert _run(*command[3:], "--force").stderr == b""


@pytest.mark.slow
def test_decoding_starts_without_spark_and_pandas_and_ends_before_pandas_has_started(first: Path) -> None:
    code = (
        "import sys; from changefeed.cli import run; code = run(sys.argv[1:]); "
        "assert not {'pyspark', 'pandas', 'rich', 'fsspec', 'sqlglot', 'pydantic'} & set(sys.modules); sys.exit(code)"
    )
    turns, decoding, pandas = 0, math.inf, math.inf
    while turns < 20 and decoding >= pandas:  # the least of each: other work slows down some turns
        turns += 1
        decoding = min(decoding, _processor_time(code, "decode", first, *OPEN))
        pandas = min(pandas, _processor_time("import pandas"))
    assert decoding < pandas, turns


@pytest.mark.parametrize(
    "arguments", [("--help",), ("init", "new.yaml"), ("explain", "shop.yaml"), ("status", "shop.yaml")]
)
def test_a_command_does_not_wait_for_pandas(first: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Pyarrow imports pandas by itself at the first list that it is given."""
    source = {"type": "files", "path": str(first), "protocol": "ticdc-open"}
    (tmp_path / "shop.yaml").write_text(json.dumps({"source": source, "sink": {"type": "delta", "path": "lake"}}))
    code = (
        "import sys; from changefeed.cli import run; assert not run(sys.argv[1:]); assert 'pandas' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def _processor_time(code: str, *arguments: str | Path) -> float:
    """Processor seconds of a Python program, as other tests run at the same time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, b"")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
