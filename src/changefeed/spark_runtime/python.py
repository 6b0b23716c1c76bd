"""The program that Spark runs as Python: Python, with two of pyspark's modules replaced by changefeed's.

`spark.python.daemon.module` applies only to the workers of tasks. The workers that plan a data source have daemons too,
which would end at a signal to all processes of a service; and the worker of a streaming source must answer in time.
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
    return str(path) if os.access(path, os.X_OK) else sys.executable
