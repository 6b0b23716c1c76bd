"""Folders on file systems that only Spark reaches, such as HDFS, through the session's JVM; opens the folders of ledgers.

Files are created by Delta's `LogStore`, which renames a finished file: that fails on these file systems if the name is taken.
Object stores have no such rename. There `storage` creates files, and a URL for which neither holds is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from changefeed.errors import ConfigError
from changefeed.local_files import local_path
from changefeed.pipeline.store.arrow import arrow_folder
from changefeed.pipeline.store.folder import LedgerFolder, WritableFolder
from changefeed.spark_runtime.files import file_system, read_bytes, reader, storage_properties
from changefeed.storage import Folder
from changefeed.storage.folders import folder_at, is_object_store
from changefeed.storage.local import LocalFolder
from changefeed.storage.section import StorageSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where a rename fails if the name is taken.
_RENAME_EXCLUDES = ("hdfs", "webhdfs", "swebhdfs", "viewfs", "maprfs", "ofs", "o3fs", "adl", "wasb", "wasbs", "file")


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
        return read_bytes(self.spark, f"{self.path}/{name}")

    def create(self, name: str, data: bytes) -> bool:
        """See `WritableFolder`."""
        from py4j.protocol import Py4JJavaError

        jvm: Any = self.spark._jvm
        path, files = file_system(self.spark, f"{self.path}/{name}")
        files.mkdirs(path.getParent())
        lines = jvm.java.util.ArrayList()
        for line in data.decode().removesuffix("\n").split("\n"):
            lines.add(line)
        iterator = jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines).iterator()
        configuration = self.spark._jsparkSession.sessionState().newHadoopConf()
        try:
            self._log_store().write(path, iterator, False, configuration)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
                return False
            raise
        return True

    def delete(self, names: Iterable[str]) -> None:
        """See `WritableFolder`."""
        for name in names:
            path, files = file_system(self.spark, f"{self.path}/{name}")
            files.delete(path, False)

    def tidy(self) -> None:
        """Does nothing: the files that Delta's `LogStore` may leave are small, and Hadoop deletes them."""

    def check_create(self) -> None:
        """Checks the file system by its scheme; raises as `check_file_system`."""
        if not urlsplit(self.path).scheme:
            _, files = file_system(self.spark, self.path)
            check_file_system(f"{files.getUri().getScheme()}://{self.path}", application_setting(self.spark))
        check_file_system(self.path, application_setting(self.spark))

    def _log_store(self) -> Any:
        jvm: Any = self.spark._jvm
        stores = getattr(jvm.org.apache.spark.sql.delta.storage, "LogStore$")
        return getattr(stores, "MODULE$").apply(self.spark._jsparkSession)


def application_setting(spark: SparkSession) -> Callable[[str], str | None]:
    """Returns name of a property -> its value in the application: Delta does not look at a session's for its `LogStore`."""
    conf = spark.sparkContext.getConf()
    return lambda name: conf.get(name)


def check_file_system(path: str, setting: Callable[[str], str | None]) -> None:
    """Checks by its scheme that on a file system of Hadoop, of two files with one name that Delta creates, one is refused.

    Args:
        path: a path or URL, also of an object store, where `storage` creates the files.
        setting: name of a property of Spark -> its value; None if it is not set.

    Raises:
        ConfigError: it is not one on which a rename excludes, and no `LogStore` is set for it.
    """
    scheme = urlsplit(path).scheme
    if not scheme or is_object_store(path) or scheme in _RENAME_EXCLUDES:
        return
    name = f"spark.delta.logStore.{scheme}.impl"
    if not setting(name):
        raise ConfigError(
            f"{path}: changefeed cannot create files on {scheme}:// so that two runs never overwrite each other's commits. Use "
            f"a local folder, hdfs://, s3://, abfss:// or gs://; or set {name} to a LogStore of Delta that excludes concurrent "
            "writers"
        )


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


def folder_of_session(spark: SparkSession, path: str, section: StorageSection | None = None) -> WritableFolder:
    """Opens the folder at a path as Spark understands it: without a scheme it is on Spark's default file system.

    Args:
        spark: the session.
        path: the path or URL.
        section: the definition's section `storage`.
    """
    if is_object_store(path):
        return _in_object_store(path, section, storage_properties(spark))
    if urlsplit(path).scheme not in ("", "file"):
        return HadoopFolder(spark, path)
    resolved, files = file_system(spark, path)
    if str(files.getUri().getScheme()) == "file":
        return LocalFolder(local_path(path) or str(resolved.toUri().getPath()))
    if is_object_store(url := str(files.makeQualified(resolved).toString())):
        return _in_object_store(url, section, storage_properties(spark))
    return HadoopFolder(spark, path)


def folder_to_read(path: str, section: StorageSection, spark: Mapping[str, str]) -> LedgerFolder:
    """Opens the folder at a path or URL to read it: without Spark, except inside `read_by`.

    Args:
        path: the path or URL.
        section: the definition's section `storage`.
        spark: the definition's properties of Spark.

    Raises:
        NeedsSparkError: only Spark can read the URL.
        ConfigError: the credentials cannot be used without Spark.
    """
    session = reader()
    if session is not None:
        return folder_of_session(session, path, section)
    return folder_at(path, section, spark) or arrow_folder(path)


def _in_object_store(url: str, section: StorageSection | None, spark: Mapping[str, str]) -> Folder:
    folder = folder_at(url, section, spark)
    assert folder is not None, url
    return folder
