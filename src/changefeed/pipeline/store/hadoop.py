"""Folders on any file system that Spark can write to, through the session's JVM.

Files are created by Delta's `LogStore`. On each file system it makes sure that only one of two simultaneous commits to a
table's log succeeds: by rename on HDFS and Azure, by conditional writes or its own rules on S3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.local_files import local_path
from changefeed.pipeline.store.arrow import folder_at
from changefeed.pipeline.store.folder import LedgerFolder, LocalFolder, WritableFolder
from changefeed.spark_runtime.files import file_system, read_text, reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class HadoopFolder:
    """A folder at a path or URL that Hadoop supports."""

    spark: SparkSession
    path: str

    def names(self, below: str) -> list[str]:
        """See `LedgerFolder`."""
        folder, files = file_system(self.spark, f"{self.path}/{below}")
        if not files.exists(folder):
            return []
        names = names_of(self.spark, files.listStatus(folder))
        return [name for name in names if not name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """See `LedgerFolder`."""
        text = read_text(self.spark, f"{self.path}/{name}")
        return None if text is None else text.encode()

    def put(self, name: str, data: bytes) -> bool:
        """See `WritableFolder`."""
        from py4j.protocol import Py4JJavaError

        jvm: Any = self.spark._jvm
        path, files = file_system(self.spark, f"{self.path}/{name}")
        files.mkdirs(path.getParent())
        lines = jvm.java.util.ArrayList()
        lines.add(data.decode().removesuffix("\n"))
        iterator = jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines).iterator()
        configuration = self.spark._jsparkSession.sessionState().newHadoopConf()
        try:
            self._log_store().write(path, iterator, False, configuration)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """See `WritableFolder`."""
        path, files = file_system(self.spark, f"{self.path}/{name}")
        files.delete(path, False)

    def tidy(self) -> None:
        """Does nothing: the files that Delta's `LogStore` may leave are small, and Hadoop deletes them."""

    def _log_store(self) -> Any:
        jvm: Any = self.spark._jvm
        stores = getattr(jvm.org.apache.spark.sql.delta.storage, "LogStore$")
        return getattr(stores, "MODULE$").apply(self.spark._jsparkSession)


def names_of(spark: SparkSession, statuses: Any) -> list[str]:
    """Returns the names of the files in an array of `FileStatus` or of a subclass, such as that for S3."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    count = len(statuses)
    # py4j takes an array of a subclass for no array of the class
    copied = gateway.new_array(jvm.org.apache.hadoop.fs.FileStatus, count)
    jvm.java.lang.System.arraycopy(statuses, 0, copied, 0, count)
    paths = jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(copied)
    # as one text, {path,path}: each call into the JVM takes longer than the text of a hundred paths
    text = str(jvm.org.apache.commons.lang3.ArrayUtils.toString(paths))[1:-1]
    return [path.rpartition("/")[2] for path in text.split(",")] if text else []


def folder_of_session(spark: SparkSession, path: str) -> WritableFolder:
    """Opens the folder at a path as Spark understands it: without a scheme it is on Spark's default file system."""
    resolved, files = file_system(spark, path)
    if str(files.getUri().getScheme()) == "file":
        return LocalFolder(local_path(path) or str(resolved.toUri().getPath()))
    return HadoopFolder(spark, path)


def folder_to_read(path: str) -> LedgerFolder:
    """Opens the folder at a path or URL to read it: without Spark, except inside `read_by`.

    Raises:
        NeedsSparkError: only Spark can read the URL.
    """
    spark = reader()
    return folder_at(path) if spark is None else folder_of_session(spark, path)
