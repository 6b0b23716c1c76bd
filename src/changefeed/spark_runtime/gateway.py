"""Starts Spark's JVM, and filters its output.

pyspark lets the JVM write to the process's stdout and stderr. Here both go through a pipe to stderr: stdout is for the
command's own output, meaningless lines are dropped, and if the JVM does not start, its last lines become the error message.

The JVM ends when its stdin is closed, so within seconds of this process, however that ends. It must not end earlier: Ctrl-C
in a terminal, `timeout` and a service manager send their signal to every process of the group or the service, but only this
process decides whether and when to stop. So the JVM has a session of its own and ignores these signals, and its child
processes inherit that.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError
from changefeed.redaction import redact
from changefeed.spark_runtime.start_file import passed_in_a_file

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

# The JVM prints this at every start, before any logging is set up.
_INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector"
_SIGNALS = ("HUP", "INT", "TERM")
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")  # of a stack trace of Java
_FILES = 1024  # a JVM with Spark opens several hundred jars and sockets
_LINE = re.compile(
    r"\d\d:\d\d:\d\d (FATAL|ERROR|WARN|INFO|DEBUG|TRACE) (\S+): (.*)"
)  # the pattern of log4j2.properties
_IMPEDED = ("FATAL", "ERROR", "WARN")
_TRACEBACK = b"Traceback (most recent call last):"

show: Callable[[int, str, str], None] | None = None
"""Shows a line of the JVM, by level of `logging`, logger and message, in another thread; None: lines go to stderr as they are."""


def gateway(conf: SparkConf, folder: Path | None = None) -> JavaGateway:
    """Returns the connection to a JVM with these properties; an existing one of an earlier session or of spark-submit.

    Args:
        conf: the properties.
        folder: the working folder of a new JVM; None for the current one.

    Raises:
        ConfigError: the JVM did not start; the message ends with its last lines.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    from changefeed.spark_runtime.java_names import remember_packages

    if SparkContext._gateway is not None:
        return SparkContext._gateway
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return launch_gateway()  # type: ignore[no-untyped-call]  # connects, and starts nothing
    read, write = os.pipe()
    last_words: deque[str] = deque(maxlen=5)
    reader = threading.Thread(target=_pass_on, args=(read, last_words), name="spark-output", daemon=True)
    reader.start()
    with open(write, "wb") as output:
        try:
            with passed_in_a_file(conf.getAll()):
                started = launch_gateway(  # type: ignore[no-untyped-call]
                    popen_kwargs={"stdout": output, "stderr": output, "start_new_session": True, "cwd": folder}
                )
        except PySparkRuntimeError as error:
            output.close()
            reader.join(timeout=5)
            raise ConfigError(f"Spark's JVM did not start: {' / '.join(last_words)}{_few_files()}") from error
    # changefeed reports a JVM that has died; py4j would also log a traceback for each thread, some to the root logger.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_is_not_of_py4j)
    remember_packages(started.jvm)
    _ignore_signals(started)
    return started


def _few_files() -> str:
    """A hint, where this process may open fewer files than a JVM needs: its error may not name the cause."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f". This process may open only {allowed} files: raise the limit (ulimit -n 4096)" if allowed < _FILES else ""


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _ignore_signals(started: JavaGateway) -> None:
    signals: Any = started.jvm.sun.misc
    for name in _SIGNALS:
        signals.Signal.handle(signals.Signal(name), signals.SignalHandler.SIG_IGN)


def worth_reading(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines without meaningless ones.

    These are the JVM's first warning, and the traceback of idle Python workers: when a session stops, their socket is
    sometimes closed before they have flushed it.
    """
    traceback: list[bytes] = []
    for line in lines:
        if line.startswith(_TRACEBACK) or (traceback and line.startswith(b" ")):
            if line.startswith(_TRACEBACK):
                yield from traceback
                traceback = []
            traceback.append(line)
        else:
            if not line.startswith(_INCUBATOR) and not _is_farewell(traceback, line):
                yield from traceback
                yield line
            traceback = []
    yield from traceback


def _is_farewell(traceback: list[bytes], last: bytes) -> bool:
    frames = [line for line in traceback if line.startswith(b"  File ")]
    return last.startswith(b"BrokenPipeError:") and bool(frames) and all(b"/pyspark/daemon.py" in f for f in frames)


def leveled(text: str, before: int = logging.WARNING) -> tuple[int, str, str]:
    """Returns the level of `logging` of a line of the JVM, its class, and its message.

    A line without a level, as those of a stack trace, has the level of the line before it. No line is an error: if the run cannot
    go on, its own error follows.
    """
    parts = _LINE.match(text)
    if parts is None:
        return before, "", text
    level, name, message = parts.groups()
    return logging.WARNING if level in _IMPEDED else logging.INFO, name, message


def _pass_on(read: int, last_words: deque[str]) -> None:
    level = logging.WARNING
    with open(read, "rb") as lines:
        for line in worth_reading(lines):
            text = redact(line.decode(errors="replace"))
            if not _FRAME.match(text):
                last_words.append(text.strip())
            if show is None:
                os.write(2, text.encode())
            elif text.strip():
                level, name, message = leveled(text.rstrip(), level)
                show(level, f"spark.{name}" if name else "spark", message)
