"""The program that Spark starts as Python: Python, with replacements for two of pyspark's modules.

`spark.python.daemon.module` names ours for the workers of tasks alone. Those that plan a data source have daemons too, which
end at a signal that all processes of a service get; and the worker of a streaming source has to answer in time.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

_INSTEAD = {
    "pyspark.daemon": "changefeed.spark_runtime.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner": "changefeed.spark_runtime.source_worker",
}

# In a shell script: what Python is asked for, with our modules in the place of theirs.
INSTEAD = 'case "$1 $2" in\n{}esac\n'.format(
    "".join(f'  "-m {theirs}") shift 2; set -- -m {ours} "$@" ;;\n' for theirs, ours in _INSTEAD.items())
)


def program(path: Path) -> str:
    """Writes the program to `path`; Python itself where none can be started from there."""
    path.write_text(f'#!/bin/sh\n{INSTEAD}exec {shlex.quote(sys.executable)} "$@"\n')
    path.chmod(0o700)
    return str(path) if os.access(path, os.X_OK) else sys.executable
