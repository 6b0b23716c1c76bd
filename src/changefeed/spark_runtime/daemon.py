"""The daemon from which Spark's Python workers are forked: `spark.python.daemon.module`.

Spark puts archives such as `pyspark.zip` on the workers' path, and before every task a worker invalidates Python's caches of
the path. Reading the archives' directories again takes a tenth of a second, longer than most tasks. If pyspark is installed,
the archives are not needed.

Arrow's own allocator returns the memory of large columns at once, and the system must clear it again for the next batch,
which takes as long as all other work on chunks. The C library's allocator keeps the memory, up to 64 MiB that are free. The
threads of librdkafka must not share their arenas with the thread that decodes: mixed with records of several partitions,
free memory is found only after long searches.

Workers are forked from this process, and share what it has imported: pyarrow, which must not import pandas (`startup.py`), and
the modules that decode and write. One import of them takes as long as decoding 100 000 records.

After each task, pyspark looks for garbage among all objects of the worker, which takes longer than a small task. Those of
modules are kept out of that search (`gc.freeze`). During a task Python looks after every 20 000 new objects, not 700: records are
not garbage.

A signal that a service manager or `timeout` sends to all processes must not end the workers before the current step is done.
Spark ends them by other means: it closes the daemon's stdin, and kills a worker that hangs.

A worker that differs from the driver (`workers.py`) ends before its first task, with a message.

When Spark stops, the sockets of idle workers are closed, and each worker would print a stack trace.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from socket import socket

_NEW_OBJECTS = 20_000
# Of glibc's `mallopt`, as `malloc.h` numbers them. The first overrules MALLOC_ARENA_MAX, which is the JVM's.
_ARENAS, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1
_ALLOCATOR = {_ARENAS: 8, _MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}
_SHARED = ("changefeed.stages.decode", "changefeed.frames.chunk_files", "changefeed.sinks.apply.job")


def without_archives(path: list[str]) -> list[str]:
    """Returns the path without archives, if pyspark and py4j are importable without them; else unchanged."""
    folders = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    importable = all(PathFinder.find_spec(name, folders) is not None for name in ("pyspark", "py4j"))
    return folders if importable else path


def keep_memory() -> None:
    """Sets glibc's allocator up for large columns and several threads; other C libraries have no `mallopt`."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, number in _ALLOCATOR.items():
            mallopt(option, number)


Worker = Callable[[socket, bool], int]


def without_trace(worker: Worker) -> Worker:
    """Wraps a worker so that it ends without a stack trace if its connection is closed."""

    def quiet(sock: socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except ConnectionError:
            os._exit(1)

    return quiet


def with_modules_frozen(worker: Worker) -> Worker:
    """Wraps a worker so that existing objects, and those that its first task leaves, are not searched for garbage any more."""
    is_first = True
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)

    def run(sock: socket, authenticated: bool) -> int:
        nonlocal is_first
        code = worker(sock, authenticated)
        if is_first:
            is_first = False
            gc.collect()
            gc.freeze()
        return code

    return run


if __name__ == "__main__":
    keep_memory()
    sys.path[:] = without_archives(sys.path)
    for entry in sys.path_importer_cache.keys() - set(
        sys.path
    ):  # importers of archives, whose caches would be invalidated, too
        if entry.endswith((".zip", ".jar")):
            del sys.path_importer_cache[entry]
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when pyarrow is imported, in the workers
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's threads for matrices would wait busily
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])  # workers are forked, and inherit it
    if "CHANGEFEED_EXPECTED" in os.environ:  # on a cluster
        from changefeed.spark_runtime.workers import refuse

        refuse()
    from pyspark import daemon

    from changefeed.startup import without_pandas

    without_pandas()
    for name in _SHARED:
        with suppress(ImportError):  # the worker that needs it reports it
            import_module(name)
    daemon.worker = without_trace(with_modules_frozen(daemon.worker))
    daemon.manager()  # type: ignore[no-untyped-call]  # pyspark has no types there
