"""The way in which Delta's own writer commits to tables on a local disk: of two commits of one version, one fails.

Delta looks whether the version exists, and then renames a file. A rename replaces what another process has created between the
two. `LinkLogStore.java` gives the file its name by a hard link instead, as native commits do. It is compiled in Spark's JVM when
Spark commits for the first time, by the compiler that Spark has for its plans: half a second. Only the driver commits.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "changefeed.LinkLogStore"
_SOURCE = Path(__file__).with_name("LinkLogStore.java")
_FILES, _ALL = "spark.delta.logStore.file.impl", "spark.delta.logStore.class"
_LOCK = Lock()


def commit_by_links(spark: SparkSession) -> None:
    """Lets every session of this application commit to local tables by hard links; a `LogStore` of the user's own stays.

    Raises:
        ConfigError: the class cannot be loaded into this JVM.
    """
    from py4j.protocol import Py4JError

    jvm: Any = spark._jvm
    conf = jvm.org.apache.spark.SparkEnv.get().conf()  # where Delta looks
    with _LOCK:
        if conf.contains(_FILES) or conf.contains(_ALL):
            return
        try:
            _load(jvm)
        except Py4JError as error:
            raise ConfigError(
                f"Spark cannot load the class by which two runs never overwrite each other's commits on a local disk ({error}). "
                f"Set {_FILES} to a LogStore of Delta that excludes concurrent writers, or leave out sink.writer"
            ) from error
        conf.set(_FILES, _CLASS)
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # tables that were opened before have Delta's own


def _load(jvm: Any) -> None:
    """Makes the class known to the driver; nothing happens if an earlier application of this JVM has done so."""
    if jvm.org.apache.spark.util.Utils.classIsLoadable(_CLASS):
        return
    loader = jvm.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE.read_text())
    with TemporaryDirectory(prefix="changefeed-") as folder:
        file = Path(folder, *_CLASS.split(".")).with_suffix(".class")
        file.parent.mkdir()
        file.write_bytes(bytes(compiler.getBytecodes()[_CLASS]))
        loader.addURL(jvm.java.io.File(folder).toURI().toURL())
        jvm.java.lang.Class.forName(_CLASS, True, loader)  # from the folder, which is deleted now
