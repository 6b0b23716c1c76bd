"""The program that Spark starts as Python."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import changefeed
from changefeed.spark_runtime.python import program

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
