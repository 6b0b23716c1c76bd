"""Where foreign errors become ours.

Spark carries an error of a Python worker as the text of its traceback, and one of `foreachBatch` inside a Java error.
Ours name their type in that text: they are taken out again, so that the exit code and the message are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from changefeed import errors
from changefeed.errors import ChangefeedError, SinkError, SourceError

_KAFKA = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)Exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_LASTING = (
    "UnknownTopicOrPartition",
    "InvalidTopic",
    "Authentication",
    "Authorization",
    "UnsupportedVersion",
)  # whatever else is wrong may pass
_OURS = re.compile(r"changefeed\.errors\.(\w+Error): (.*?)(?=\n\S|\n\n|\n\tat |\Z)", re.DOTALL)


@contextmanager
def as_ours() -> Iterator[None]:
    """Turns an error of Spark's that carries one of ours into that one."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise SinkError(
            "Spark's JVM has ended: killed, or out of memory (spark.driver.memory). Run again: what was begun is finished first",
            transient=True,
        ) from error
    except (Py4JJavaError, PySparkException) as error:
        found = translated(str(error))
        if found is None:
            raise
        raise found from error


def translated(text: str) -> ChangefeedError | None:
    """The error of ours that the text of a traceback ends with, or None."""
    matches = _OURS.findall(text)
    if matches:
        name, message = matches[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, ChangefeedError):
            return kind(message.strip())
    if "KAFKA_DATA_LOSS" in text:
        return SourceError(
            "Kafka no longer has the records that the ledger says come next: they expired before they were read. Start a new "
            "pipeline from a snapshot"
        )
    if kafka := _KAFKA.search(text):
        name, message = kafka.groups()
        lasting = any(part in name for part in _LASTING)
        fix = "Is the source section right?" if lasting else "Run again when the brokers answer"
        return SourceError(f"Kafka: {name}: {message.rstrip('.')}. {fix}", transient=not lasting)
    return None
