"""Runs `changefeed`; at a failpoint it kills processes while Spark is at work: python driver.py POINT PID[,PID…] COMMAND…"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

import psutil
from pyspark import SparkContext

from changefeed import telemetry
from changefeed.cli import main


def _kill(pids: list[int]) -> None:
    """Kills processes and all their descendants, in the middle of a job."""
    context = SparkContext._active_spark_context
    assert context is not None
    tracker = context.statusTracker()
    while not any(tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()):
        time.sleep(0.005)
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
    print("killed by the test:", *pids, file=sys.stderr, flush=True)


def _at(point: str, pids: list[int]) -> None:
    left = [point]

    def on_pass(name: str) -> None:
        if name in left:
            left.remove(name)
            threading.Thread(target=_kill, args=(pids,)).start()

    telemetry.on_pass = on_pass


if __name__ == "__main__":
    _at(sys.argv[1], [int(pid) for pid in sys.argv[2].split(",")])
    sys.argv[1:3] = []
    main()
