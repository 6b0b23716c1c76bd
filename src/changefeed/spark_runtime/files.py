"""Files where the sink lies, by Hadoop's file systems: what Spark can write to, these can too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READER: ContextVar[SparkSession | None] = ContextVar("reader", default=None)


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The path, and the file system that has it, as Java objects."""
    jvm: Any = spark._jvm
    resolved = jvm.org.apache.hadoop.fs.Path(path)
    return resolved, resolved.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def read_text(spark: SparkSession, path: str) -> str | None:
    """A file's text; None when there is no such file."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    file, system = file_system(spark, path)
    try:
        stream = system.open(file)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
            return None
        raise
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


@contextmanager
def read_by(spark: SparkSession) -> Iterator[None]:
    """Commands that read a sink without Spark read it through this session while in here.

    Spark supports every file system of its jars, with the credentials in the definition.
    """
    before = _READER.set(spark)
    try:
        yield
    finally:
        _READER.reset(before)


def reader() -> SparkSession | None:
    """The session to read through; None where Spark is not needed."""
    return _READER.get()
