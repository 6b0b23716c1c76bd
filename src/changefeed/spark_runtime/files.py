"""Files in the sink's storage: through Hadoop's file systems, which are those that Spark supports, or by fsspec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[^/:]+:")  # a colon behind a slash belongs to a name
_READER: ContextVar[SparkSession | None] = ContextVar("reader", default=None)


def is_local(path: str) -> bool:
    """Whether a path is one of this machine for Python and for Spark: it has no scheme, as Hadoop reads paths."""
    return _SCHEME.match(path) is None


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Returns the path and its file system, as Java objects."""
    jvm: Any = spark._jvm
    java_path = jvm.org.apache.hadoop.fs.Path(path)
    return java_path, java_path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def storage_properties(spark: SparkSession) -> dict[str, str]:
    """Returns the session's properties of object stores that differ from Hadoop's defaults: `spark.hadoop.fs.s3a.…` and so on."""
    jvm: Any = spark._jvm
    properties, defaults = (
        spark._jsparkSession.sessionState().newHadoopConf(),
        jvm.org.apache.hadoop.conf.Configuration(False),
    )
    defaults.addResource("core-default.xml")
    values = dict[str, str]()
    for prefix in ("fs.s3a.", "fs.azure.", "fs.gs.", "google.cloud."):
        changed = properties.getPropsWithPrefix(prefix)
        changed.entrySet().removeAll(defaults.getPropsWithPrefix(prefix).entrySet())
        values |= {f"spark.hadoop.{prefix}{name}": str(changed[name]) for name in changed}
    return values


def has_files(spark: SparkSession, path: str) -> bool:
    """Whether a folder contains anything, or the path is a file."""
    folder, files = file_system(spark, path)
    return bool(files.exists(folder)) and len(files.listStatus(folder)) > 0


def file_system_without_spark(url: str) -> tuple[Any, str]:
    """Returns the file system of a path or URL, by fsspec, and the path there.

    Raises:
        MissingExtraError: fsspec is not installed.
        ConfigError: fsspec has no such file system.
    """
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("Deleting folders without Spark", "spark") from error
    try:
        system, folder = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise ConfigError(f"{url}: {error} (`changefeed expire` deletes by fsspec, without Spark)") from error
    return system, str(folder).rstrip("/")


def read_bytes(spark: SparkSession, path: str) -> bytes | None:
    """Reads a file; returns None if it does not exist."""
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
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


@contextmanager
def read_by(spark: SparkSession) -> Iterator[None]:
    """Within this context, commands that usually read a sink without Spark read it through this session.

    Spark supports every file system of its jars, with the credentials in the definition.
    """
    before = _READER.set(spark)
    try:
        yield
    finally:
        _READER.reset(before)


def reader() -> SparkSession | None:
    """The session to read through; None if Spark is not needed."""
    return _READER.get()
