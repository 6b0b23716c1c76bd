from __future__ import annotations

from typing import Any

import pytest

from changefeed.spark_runtime.gateway import worth_reading

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
