"""The program that Spark starts as Python, and which Python the workers of a session run."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import changefeed
from changefeed.errors import ConfigError
from changefeed.spark_runtime import java
from changefeed.spark_runtime.python import program, use_this_python
from tests.example_files import copy_examples

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def _fake_pyspark(folder: Path) -> None:
    """Makes a pyspark that cannot be imported before the file `go` exists, and whose worker sends a word."""
    package = folder / "pyspark" / "sql" / "streaming"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").write_text("")
    wait = f"import os, time\nwhile not os.path.exists({str(folder / 'go')!r}): time.sleep(0.01)\n"
    (folder / "pyspark" / "__init__.py").write_text(wait)
    (package / "python_streaming_source_runner.py").write_text(
        "def main(infile, outfile):\n    outfile.write(infile.read(4)[::-1])\n    outfile.flush()\n"
    )


def test_the_worker_of_a_source_answers_before_pyspark_is_imported(tmp_path: Path) -> None:
    _fake_pyspark(tmp_path)
    path = str(tmp_path / "s")
    sources = str(Path(changefeed.__file__).parent.parent)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{sources}", "PYTHON_WORKER_FACTORY_SOCK_PATH": path}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(1)
        with subprocess.Popen([program(tmp_path / "python"), "-m", RUNNER], env=environ) as worker:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                assert struct.unpack("!i", stream.read(4)) == (worker.pid,)
                (tmp_path / "go").touch()
                stream.write(b"abcd")
                stream.flush()
                assert stream.read(4) == b"dcba"
        assert worker.returncode == 0


def test_over_tcp_the_worker_sends_the_secret(tmp_path: Path) -> None:
    _fake_pyspark(tmp_path)
    (tmp_path / "go").touch()
    sources = str(Path(changefeed.__file__).parent.parent)
    with socket.create_server(("127.0.0.1", 0)) as server:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHON_WORKER_FACTORY_SOCK_PATH"}
        environ |= {"PYTHONPATH": f"{tmp_path}:{sources}", "PYTHON_WORKER_FACTORY_SECRET": "s3cret"}
        environ["PYTHON_WORKER_FACTORY_PORT"] = str(server.getsockname()[1])
        with subprocess.Popen([program(tmp_path / "python"), "-m", RUNNER], env=environ) as worker:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                assert stream.read(10) == struct.pack("!i", 6) + b"s3cret"
                stream.write(struct.pack("!i", 2) + b"ok")
                stream.flush()
                assert struct.unpack("!i", stream.read(4)) == (worker.pid,)
                stream.write(b"abcd")
                stream.flush()
                assert stream.read(4) == b"dcba"


def test_everything_else_is_python(tmp_path: Path) -> None:
    code = "import sys; print(sys.executable, sys.argv[1:])"
    printed = subprocess.run(
        [program(tmp_path / "python"), "-c", code, "a b", "c"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{sys.executable} ['a b', 'c']\n"


_OWN_SESSION = """
import changefeed.spark
from pyspark.sql import SparkSession

settings = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
try:
    changefeed.spark.register(spark)
    logs = spark.read.format("changefeed").options(protocol="ticdc-open", table="shop.orders")
    print("rows of a log:", logs.load("examples/shop/history.jsonl.gz").count())
    records = spark.read.format("changefeed").load("examples/shop/history.jsonl.gz")
    print("changes of records:", changefeed.spark.decode(records, "ticdc-open").count())
    print("applied:", changefeed.Pipeline.load("examples/shop/pipeline.yaml").run(once=True, spark=spark).applied)
except changefeed.ConfigError as error:
    print(error)
"""


def _in_own_session(folder: Path, **variables: str) -> list[str]:
    """Runs a script with a session of its own, away from any activated environment; returns what it prints."""
    copy_examples(folder)
    empty = folder / "bin"
    empty.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "VIRTUAL_ENV"))}
    # the first python3 of the PATH is one that has nothing
    (empty / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (empty / "python3").chmod(0o755)
    environ |= {"PATH": f"{empty}:/usr/bin:/bin", "JAVA_HOME": str(java.find().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    sources = str(Path(changefeed.__file__).parent.parent)
    command = [sys.executable, "-c", _OWN_SESSION]
    done = subprocess.run(
        command, cwd=folder, env=environ | {"PYTHONPATH": sources, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_a_session_of_the_caller_runs_this_python_whatever_is_first_on_the_path(tmp_path: Path) -> None:
    assert _in_own_session(tmp_path) == ["rows of a log: 183", "changes of records: 705", "applied: 705"]


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_a_python_without_changefeed_is_named_before_spark_fails_with_it(tmp_path: Path) -> None:
    empty = tmp_path / "bin" / "python3"
    assert _in_own_session(tmp_path, PYSPARK_PYTHON=str(empty)) == [
        f"Spark's workers run {empty}, which has no package changefeed: set PYSPARK_PYTHON to {sys.executable}, or "
        "leave it unset, before Spark starts"
    ]


class _Context:
    """The fields of pyspark's context that decide which Python its workers run."""

    def __init__(self, program: str, master: str = "local[2]") -> None:
        self.master, self.pythonExec = master, program


def _run_this_python(program: str, master: str = "local[2]") -> str:
    context: Any = _Context(program, master)
    use_this_python(context)
    return str(context.pythonExec)


def test_on_one_machine_the_default_becomes_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _run_this_python("python3") == sys.executable


def test_the_python_that_the_user_names_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    link = tmp_path / "other"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(link))
    monkeypatch.setenv("PYTHONPATH", str(Path(changefeed.__file__).parent.parent))
    assert _run_this_python(str(link)) == str(link)


def test_on_a_cluster_nothing_is_changed_or_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _run_this_python("python3", "spark://h:7077") == "python3"
    assert _run_this_python("/no/such/python", "yarn") == "/no/such/python"


@pytest.mark.parametrize(
    "script, problem",
    [
        ("exit 1", "is not a Python that starts"),
        ("echo 2 7", f"is Python 2.7, not {sys.version_info[0]}.{sys.version_info[1]}"),
        (f"echo {sys.version_info[0]} {sys.version_info[1]} pyarrow pandas", "has no package pyarrow"),
    ],
    ids=["does not start", "another version", "lacks a package"],
)
def test_a_python_that_cannot_run_the_functions_is_refused(script: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(ConfigError) as refused:
        _run_this_python(str(tmp_path / "python"))
    assert str(refused.value) == (
        f"Spark's workers run {tmp_path}/python, which {problem}: set PYSPARK_PYTHON to {sys.executable}, or "
        "leave it unset, before Spark starts"
    )


def test_a_program_of_this_process_is_not_asked(tmp_path: Path) -> None:
    own = program(tmp_path / "python")
    (tmp_path / "python").unlink()
    assert _run_this_python(own) == own
