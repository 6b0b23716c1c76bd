"""The daemon that Spark's Python workers are forked from: `spark.python.daemon.module`.

Spark puts archives on the workers' path, `pyspark.zip` among them, and before every task a worker lets Python look again
at everything on the path. Reading the archives' directories takes a tenth of a second each time, longer than most of our
tasks. Where pyspark is installed beside them, they are not needed.

Arrow's own allocator gives the memory of large columns back at once, and the system then clears it again for the next
batch: as long a work as everything else that is done with chunks. The C library's keeps it.

A signal that a service manager or `timeout` sends to all processes must not end the workers before the step that they work
for. Spark ends them by other means: it closes the daemon's stdin, and kills a worker that hangs.

A worker that lacks something of what the driver has (`workers.py`) ends here, with a sentence, and before its first task.

When Spark stops, its idle workers find their sockets closed, and each would print a stack trace of it as the program ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from socket import socket


def without_archives(path: list[str]) -> list[str]:
    """The path without its archives, if pyspark and py4j are importable without them; else as it was."""
    folders = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    importable = all(PathFinder.find_spec(name, folders) is not None for name in ("pyspark", "py4j"))
    return folders if importable else path


def without_trace(worker: Callable[[socket, bool], int]) -> Callable[[socket, bool], int]:
    """The worker; one that cannot answer any more ends with its exit code, without a message: Spark has it, or is gone."""

    def quiet(sock: socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except ConnectionError:
            os._exit(1)

    return quiet


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when pyarrow is imported, in the workers
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])  # workers are forked, and inherit it
    if "CHANGEFEED_EXPECTED" in os.environ:  # on a cluster
        from changefeed.spark_runtime.workers import refuse

        refuse()
    from pyspark import daemon

    daemon.worker = without_trace(daemon.worker)
    daemon.manager()  # type: ignore[no-untyped-call]  # pyspark has no types there
