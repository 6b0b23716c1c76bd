"""Translates foreign errors to the errors of changefeed.

Spark carries an error of a Python worker as the text of its traceback. Errors of changefeed contain their type in that text: they
are restored, so that exit code and message are right.

Errors of Spark, Delta, Hadoop, Kafka and the system that have a cause outside of changefeed are recognized by their text
(`_OUTSIDE`): a full disk, a damaged file, an overloaded machine. Every other error is a defect.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from changefeed import errors
from changefeed.errors import (
    ACCESS,
    TRANSIENT,
    AccessError,
    ChangefeedError,
    ConfigError,
    ResourceError,
    SinkError,
    SourceError,
)
from changefeed.pipeline.monitoring.lag import size_text
from changefeed.sinks.ways_out import COLUMNS_CHANGED, FILES_DAMAGED
from changefeed.spark_runtime.workers import worker_problem

_KAFKA = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)Exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_KAFKA_CONFIG = re.compile(
    r"org\.apache\.kafka\.common\.config\.ConfigException: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE
)
_LASTING = (
    "UnknownTopicOrPartition",
    "InvalidTopic",
    "UnsupportedVersion",
)  # all other errors are transient
_OWN_ERROR = re.compile(r"changefeed\.errors\.(\w+Error): (.*?)(?=\n\S|\n\n|\n\tat |\Z)", re.DOTALL)

_FULL = re.compile(r"No space left on device|Disk quota exceeded|not enough space on the disk")
_ALMOST_NOTHING = 16 * 2**20  # bytes; a disk with less free space is taken for the full one
_FULL_CODES = (errno.ENOSPC, errno.EDQUOT)

_DAMAGED = f"a file of this pipeline is missing or damaged. {FILES_DAMAGED}"
# Errors about files: Spark's and Delta's error names, and texts of exceptions of Hadoop and Parquet.
_CONDITION = re.compile(r"\[(PATH_NOT_FOUND|FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|DELTA_\w+)(?:\.\w+)*\] (.*)")
_DAMAGE = re.compile(
    r"PATH_|FAILED_READ|CANNOT_READ|DELTA_\w*(NOT_CONTIGUOUS|TRUNCATED|RECOVER|NOT_FOUND|MISSING|CHECKPOINT|INTEGRITY|ABSENT"
    r"|NOT_EXIST|FAILED_READ|RECONSTRUCT)"
)
_FILES = re.compile(
    r"FileNotFoundException: (?:File )?\S+|Checksum error: \S+|\S+ is not a Parquet file|Could not read footer for file:? \S+"
)
_COLUMNS = re.compile(r"DELTA_MERGE_UNRESOLVED_EXPRESSION")
_AWAY = re.compile(
    r"SlowDown|TooManyRequests|Too Many Requests|RequestLimitExceeded|ThrottlingException|ServerBusy|Service Unavailable"
    r"|java\.net\.(UnknownHostException|SocketTimeoutException|NoRouteToHostException|ConnectException)"
)

# When a worker is killed, the JVM may see the end of its own pipe first.
_WORKER_ENDED = re.compile(
    r"Python worker exited unexpectedly|Python daemon failed to launch worker|Bad data in \S+'s standard output"
    r"|reading the port number from|java\.io\.IOException: Stream closed"
    r"|Lost task [^\n]*\): java\.io\.EOFException"
)


@contextmanager
def as_ours(*folders: str) -> Iterator[None]:
    """Translates errors that leave a `with` block: to the changefeed error in their text, or to one that names a cause outside.

    Args:
        folders: where this work writes, besides the temporary folder; one of them may be on a full disk.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except SinkError as error:  # raised for a file written by this process or by delta-rs
        if (full := full_disk(error, *folders)) is not None:
            raise full from error
        raise
    except ChangefeedError:
        raise
    except (Py4JNetworkError, ConnectionError) as error:
        raise _jvm_ended() from error
    except (Py4JJavaError, PySparkException) as error:
        translation = translated(str(error), folders)
        if translation is None and _jvm_answers():
            raise
        raise translation or _jvm_ended() from error  # pyspark has errors of its own for a call without an answer
    except Py4JError as error:  # py4j reports a call without an answer in many ways, as a class that does not exist too
        if _jvm_answers():
            raise
        raise _jvm_ended() from error
    except MemoryError as error:
        raise _memory("this process") from error
    except OSError as error:
        if error.errno in _FULL_CODES:
            raise _full(error.filename or "", folders) from error
        if error.filename is None or error.strerror is None:
            raise
        raise ResourceError(f"{error.filename}: {error.strerror}") from error


def full_disk(error: Exception, *folders: str) -> ResourceError | None:
    """Returns the error that names a full disk, if this error is about one; None otherwise.

    Args:
        error: raised for a file that this process has written.
        folders: where this work writes, besides the temporary folder.
    """
    return _full("", folders) if _FULL.search(str(error)) else None


def translated(text: str, folders: Iterable[str] = ()) -> ChangefeedError | None:
    """Returns the changefeed error that ends a traceback's text, or an error for a known cause outside changefeed; or None."""
    matches = list(_OWN_ERROR.finditer(text))
    if matches:
        name, message = matches[-1].groups()
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, ChangefeedError):
            error = kind(message.strip())
            if isinstance(error, SinkError) and _FULL.search(message):
                return _full("", folders)
            if hasattr(error, "transient"):
                error.transient = text[matches[-1].end() :].startswith(f"\n{TRANSIENT}")
            return error
    if lacking := worker_problem(text):
        return ConfigError(lacking)
    return _of_kafka(text) or _of_the_machine(text, folders) or _of_files(text)


def _of_kafka(text: str) -> ChangefeedError | None:
    if "KAFKA_DATA_LOSS" in text:
        return SourceError(
            "Kafka no longer has the records that come next: they expired before they were read. Start a new "
            "pipeline from a snapshot"
        )
    if refused := _KAFKA_CONFIG.search(text):
        return ConfigError(f"source: the Kafka client refuses its properties: {refused[1]}")
    if kafka := _KAFKA.search(text):
        name, message = kafka.groups()
        if any(part in name for part in ("Authentication", "Authorization")):
            return AccessError(f"Kafka: {name}: {message.rstrip('.')}. {ACCESS}")
        lasting = any(part in name for part in _LASTING)
        fix = "Is the source section right?" if lasting else "Run again when the brokers answer"
        return SourceError(f"Kafka: {name}: {message.rstrip('.')}. {fix}", transient=not lasting)
    return None


def _of_the_machine(text: str, folders: Iterable[str]) -> ChangefeedError | None:
    if _FULL.search(text):
        return _full("", folders)
    if "java.lang.OutOfMemoryError" in text or "SparkOutOfMemoryError" in text:
        return _memory("Spark's JVM")
    if re.search(r"^(\w+\.)*MemoryError\b", text, re.MULTILINE):
        return _memory("a Python worker")
    if "failed to connect back" in text or "Timed out while waiting for the Python worker" in text:
        return ResourceError(
            "a Python worker did not start in Spark's 10 seconds: the machine is overloaded. Run again when it has less to do",
            transient=True,
        )
    if _WORKER_ENDED.search(text):
        return ResourceError(
            "a Python worker has ended: killed, or out of memory. Run again; if it happens again, give the machine more memory, "
            "or lower source.max-records-per-batch",
            transient=True,
        )
    if (
        "stopped SparkContext" in text
        or "SparkContext was shut down" in text
        or "Master removed our application" in text
    ):
        return ResourceError(
            "the cluster has ended this application: it was stopped, or its executors did not start. See their logs on "
            "the cluster, and run again: what was begun is finished first"
        )
    if "heartbeat timed out" in text or "Futures timed out after" in text or "RpcTimeoutException" in text:
        return ResourceError(
            "a part of Spark did not answer in time: the machine is overloaded. Run again when it has less to do",
            transient=True,
        )
    return None


def _of_files(text: str) -> ChangefeedError | None:
    """The error for unavailable storage, and for files or columns that have changed since they were written."""
    if away := _AWAY.search(text):
        return SinkError(f"the storage does not answer: {_line(text, away)}. Run again", transient=True)
    for name, message in _CONDITION.findall(text):
        if _DAMAGE.match(name):
            reason = re.sub(r"\s*SQLSTATE: \w+.*", "", message).rstrip(". ")
            return SinkError(f"{reason} ({name}): {_DAMAGED}")
    if file := _FILES.search(text):
        return SinkError(f"{_line(text, file)}: {_DAMAGED}")
    if _COLUMNS.search(text):
        return SinkError(
            f"a table lacks a column that this pipeline wrote: another program has changed it. {COLUMNS_CHANGED}"
        )
    return None


def _line(text: str, match: re.Match[str]) -> str:
    """The line of the text around a match, without the names of Java exceptions before it."""
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line = text[start : end if end >= 0 else len(text)].strip()
    return re.sub(r"^(?:: |Caused by: )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ", "", line)[:400].rstrip(".")


def _jvm_answers() -> bool:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    try:
        return gateway is None or gateway.jvm.System.currentTimeMillis() > 0
    except (Py4JError, ConnectionError):
        return False


def _jvm_ended() -> ResourceError:
    return ResourceError(
        "Spark's JVM has ended: killed, or out of memory (spark.driver.memory). Run again: what was begun is finished first",
        transient=True,
    )


def _memory(what: str) -> ResourceError:
    return ResourceError(
        f"{what} does not have enough memory: lower source.max-records-per-batch, or raise spark.driver.memory if the "
        "machine has more"
    )


def _full(path: str, folders: Iterable[str]) -> ResourceError:
    """The error for a full disk; it names the folders on it and the bytes that are free, which Java does not."""
    places = dict.fromkeys([path] if path else [*folders, tempfile.gettempdir()])
    named = [(place, free) for place in places if (free := _free_text(place, certain=bool(path))) is not None]
    where = f" ({', '.join(f'{place}: {free}' if free else place for place, free in named)})" if named else ""
    return ResourceError(
        f"the disk is full{where}: make room there and run again. What was begun is finished first, nothing is lost"
    )


def _free_text(folder: str, *, certain: bool) -> str | None:
    """The free room of a folder's disk for people; None if the disk is not the full one.

    Args:
        folder: a path, or a URL.
        certain: whether the error has named it; then the text is empty if the disk has room, as under a quota.
    """
    path = urlsplit(folder).path if folder.startswith("file:") else folder
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    try:
        disk = os.statvfs(path)
    except OSError:
        return "" if certain else None
    free, no_names = disk.f_bavail * disk.f_frsize, disk.f_favail == 0 < disk.f_files
    if free >= _ALMOST_NOTHING and not no_names:
        return "" if certain else None
    return f"{size_text(free)} free" + (", and no file more" if no_names else "")
