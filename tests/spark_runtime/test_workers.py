"""Requirements for a worker, and the messages for a missing one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

import changefeed
from changefeed.pipeline.edge import translated
from changefeed.spark_runtime import workers

FIX = "Ship this installation: `changefeed package` makes the archive that spark.archives names"
SOURCES = Path(changefeed.__file__).parent


def look(expected: dict[str, Any], folder: Path, *options: str) -> str:
    """The missing requirements of a new Python process with the packages in `folder`; it gets only the function."""
    script = "import pickle, sys; look, expected = pickle.load(sys.stdin.buffer); sys.stdout.write(look(expected))"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    command = [sys.executable, *options, "-c", script]
    data: bytes = cloudpickle.dumps((workers.shipped(), expected))  # type: ignore[no-untyped-call]
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, input=data, env=environ, capture_output=True, check=True
    )
    return done.stdout.decode()


def _lacks(what: str) -> str:
    import socket

    return f"the worker on {socket.gethostname()} {what}. {FIX} ({sys.executable})"


def test_this_very_installation_lacks_nothing() -> None:
    assert look(workers.expected(), SOURCES.parent) == ""


def test_a_worker_without_changefeed_is_reported(tmp_path: Path) -> None:
    for package in (pyspark, py4j):  # which Spark itself brings along
        (tmp_path / package.__name__).symlink_to(Path(str(package.__file__)).parent)
    assert look(workers.expected(), tmp_path, "-S") == _lacks("has no package changefeed")


def test_other_sources_of_the_same_version_are_another_build(tmp_path: Path) -> None:
    shutil.copytree(SOURCES, tmp_path / "changefeed", ignore=shutil.ignore_patterns("__pycache__"))
    assert look(workers.expected(), tmp_path) == ""
    with (tmp_path / "changefeed" / "stages" / "decode.py").open("a") as file:
        file.write("# changed\n")
    assert look(workers.expected(), tmp_path) == _lacks("has another build of changefeed 0.1.0 than the driver")


@pytest.mark.parametrize(
    "other, what",
    [
        ({"version": "9.9"}, "has changefeed 0.1.0, the driver 9.9"),
        ({"python": [3, 99]}, f"has Python {sys.version_info[0]}.{sys.version_info[1]}, the driver 3.99"),
        ({"packages": ["pyarrow", "no_such_package"]}, "has no package no_such_package"),
    ],
)
def test_each_difference_is_named(other: dict[str, Any], what: str) -> None:
    assert look(workers.expected() | other, SOURCES.parent) == _lacks(what)


@pytest.mark.skipif(workers.expected()["kernel"] is None, reason="no kernel here")
def test_a_worker_with_another_kernel_or_none_is_named(tmp_path: Path) -> None:
    assert look(workers.expected() | {"kernel": "9.9"}, SOURCES.parent) == _lacks(
        "has the Rust kernel 0.1.0, the driver 9.9"
    )
    (tmp_path / "changefeed_kernel.py").write_text("raise ImportError('GLIBC_2.99 not found')")
    (tmp_path / "changefeed").symlink_to(SOURCES)
    message = look(workers.expected(), tmp_path)
    assert message == _lacks("has no Rust kernel, the driver has one (GLIBC_2.99 not found)")


def test_the_daemon_refuses_before_it_sends_spark_a_port() -> None:
    environ = os.environ | {workers.VARIABLE: workers.in_environment(workers.expected() | {"version": "9.9"})}
    ran = subprocess.run(
        [sys.executable, "-m", "changefeed.spark_runtime.daemon"],
        env=environ,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"changefeed.errors.ConfigError: {_lacks('has changefeed 0.1.0, the driver 9.9')}\n"


LOST = "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): org.apache.spark.SparkException: \nError from python worker:\n"


@pytest.mark.parametrize(
    "text, what",
    [
        (
            f"{LOST}/usr/bin/python3: Error while finding module specification for 'changefeed.spark_runtime.daemon' "
            "(ModuleNotFoundError: No module named 'changefeed')\nPYTHONPATH was:\n  /x",
            "the worker on 10.0.0.7 has no package changefeed",
        ),
        (
            "pickle error\nModuleNotFoundError: No module named 'changefeed.stages'\n",
            "a worker has no package changefeed",
        ),
        (f"{LOST}ModuleNotFoundError: No module named 'pyarrow'\n", "the worker on 10.0.0.7 has no package pyarrow"),
        (
            "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.",
            "a worker has no package pyarrow",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot",
            "a worker has Python 3.9",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file or directory',
            "a worker has no Python at ./environment/bin/python",
        ),
    ],
)
def test_sparks_errors_of_workers_become_one_line(text: str, what: str) -> None:
    error = translated(text)
    assert (type(error).__name__, str(error)) == ("ConfigError", f"{what}. {FIX}")


def test_the_daemons_message_is_extracted_from_sparks_text() -> None:
    message = _lacks("has no package pyarrow")
    error = translated(f"{LOST}changefeed.errors.ConfigError: {message}\nPYTHONPATH was:\n  /x\njava.io.EOFException")
    assert (type(error).__name__, str(error)) == ("ConfigError", message)
