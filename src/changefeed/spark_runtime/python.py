"""The program that Spark runs as Python: this Python, with two of pyspark's modules replaced by changefeed's.

`spark.python.daemon.module` applies only to the workers of tasks. The workers that plan a data source have daemons too,
which would end at a signal to all processes of a service; and the worker of a streaming source must answer in time.

A session that the caller has started runs the first `python3` on the PATH, unless PYSPARK_PYTHON is set. In a virtual environment
that is not activated, this is another Python, without changefeed: `use_this_python`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from changefeed.errors import ConfigError
from changefeed.spark_runtime.properties import is_local
from changefeed.spark_runtime.workers import PACKAGES

if TYPE_CHECKING:
    from pyspark import SparkContext

_DEFAULT = "python3"  # pyspark's own
_PROBE = """
import sys
from importlib.util import find_spec

print(*sys.version_info[:2], *(name for name in sys.argv[1:] if find_spec(name) is None))
"""
_programs: set[str] = set()  # the scripts that this process has written
_INSTEAD = {
    "pyspark.daemon": "changefeed.spark_runtime.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner": "changefeed.spark_runtime.source_worker",
}

# For a shell script: replaces the module in the arguments.
INSTEAD = 'case "$1 $2" in\n{}esac\n'.format(
    "".join(f'  "-m {theirs}") shift 2; set -- -m {ours} "$@" ;;\n' for theirs, ours in _INSTEAD.items())
)


def program(path: Path) -> str:
    """Writes the shell script that starts Python to `path`.

    Returns:
        The path of the script; that of Python itself if the file system does not allow programs to be executed.
    """
    path.write_text(f'#!/bin/sh\n{INSTEAD}exec {shlex.quote(sys.executable)} "$@"\n')
    path.chmod(0o700)
    _programs.add(str(path))
    return str(path) if os.access(path, os.X_OK) else sys.executable


def use_this_python(context: SparkContext) -> None:
    """Makes the workers of a session on this machine run the driver's Python, unless PYSPARK_PYTHON names one.

    It applies to the functions and data sources that Spark gets from now on. On a cluster nothing is changed or checked:
    `workers.py` does that.

    Raises:
        ConfigError: PYSPARK_PYTHON names a Python of another version, or one that lacks changefeed or a package of it.
    """
    if not is_local(str(context.master)):
        return
    if context.pythonExec == _DEFAULT and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    elif context.pythonExec not in (sys.executable, *_programs) and (problem := _problem(context.pythonExec)):
        raise ConfigError(
            f"Spark's workers run {context.pythonExec}, which {problem}: set PYSPARK_PYTHON to {sys.executable}, or "
            "leave it unset, before Spark starts"
        )


@cache
def _problem(python: str) -> str:
    """Returns why another Python cannot run this process's functions, or ""."""
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, "changefeed", *PACKAGES], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "is not a Python that starts"
    major, minor, *missing = done.stdout.split()
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if f"{major}.{minor}" != own:
        return f"is Python {major}.{minor}, not {own}"
    return f"has no package {missing[0]}" if missing else ""
