"""A JVM that cannot start shows why in one line, with the fix."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

from changefeed.errors import ConfigError

_START = """
import sys
from changefeed.spark_runtime.session import session
try:
    session("test", master="local[1]", config={"spark.driver.memory": sys.argv[1]})
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


@pytest.mark.heavy
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize(
    "memory, limit, message",
    [
        ("64m", None, "Spark did not start: spark.driver.memory is 64m, which is too small: set it to 1g or more"),
        ("1g", _few_files, "This process may open only 256 files: raise the limit (ulimit -n 4096)"),
    ],
)
def test_what_a_jvm_lacks_is_named_in_one_line(memory: str, limit: Callable[[], None] | None, message: str) -> None:
    started = subprocess.run(
        [sys.executable, "-c", _START, memory], capture_output=True, text=True, timeout=300, preexec_fn=limit
    )
    [line] = started.stdout.splitlines()
    assert line.startswith(f"{ConfigError.__name__}: ")
    assert line.endswith(message)
    assert "\tat " not in line
