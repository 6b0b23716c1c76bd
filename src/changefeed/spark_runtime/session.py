"""Spark sessions: a new one for the command line, the examples and the tests, or one that the caller provides.

On one machine a new session is tuned for small tables, prints no noise, and leaves no files. With the master of a cluster, or
inside spark-submit, it has the cluster's properties, and `cluster.py` starts it. A caller's session, in a notebook or a job,
is used as it is if its settings are right: see `suited`.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.spark_runtime import class_archive, cluster, gateway, jars, java, python
from changefeed.spark_runtime.java_errors import first_line
from changefeed.spark_runtime.properties import (
    BATCHES,
    CLASS_PATH,
    COMPILED,
    JAVA_OPTIONS,
    SESSION,
    is_local,
    one_machine,
)
from changefeed.spark_runtime.scratch import Scratch, sweep
from changefeed.startup import spark_without_pandas, without_pandas

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_VERSIONS, _RANGE = ("4.0.", "4.1.", "4.2.", "4.3."), ">=4.0,<4.4"

_log = logging.getLogger(__name__)


def session(app_name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the process's Spark session; starts it if there is none. With Spark 4.1 it has Delta and Spark's Kafka connector.

    Args:
        app_name: Spark's name for the application.
        master: the master's URL; `spark.master` in `config` has priority, and inside spark-submit the submitted master.
        config: Spark properties; they override the defaults. If Spark runs already in this process, only those that can
            be set at run time have an effect.

    Raises:
        ConfigError: there is no supported Java, a jar could not be downloaded, or pyspark has another version.
        MissingExtraError: pyspark or pandas is not installed.
    """
    _require_pyspark()
    without_pandas()
    spark_without_pandas()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    properties = dict(config or {})
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.config(map={**properties}).getOrCreate()

    sweep()
    scratch = Scratch("spark")
    atexit.register(scratch.close)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")  # seconds to connect to the JVM
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # otherwise each thread of the JVM keeps memory that it has freed
    master = properties.get("spark.master", master)
    if cluster.submitted() or not is_local(master):
        context = cluster.start(app_name, None if cluster.submitted() else master, properties, scratch.path)
    else:
        context = _start(app_name, master, properties, scratch)
    _silence_disconnects(context._accumulatorServer)
    return SparkSession(context)


def _start(app_name: str, master: str, properties: Mapping[str, str], scratch: Scratch) -> SparkContext:
    """Starts Spark on this machine only."""
    import pyspark
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext

    installed = java.find()
    if ignored := java.passed_over(installed):
        _log.warning("%s", ignored)
    os.environ["JAVA_HOME"] = str(installed.home)
    os.environ["PYSPARK_PYTHON"] = python.program(scratch.path / "python")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setAppName(app_name).setMaster(master)
    merged = one_machine(properties, scratch.path, jars.session_sets(pyspark.__version__))
    archive = class_archive.options(installed, merged[CLASS_PATH], merged[JAVA_OPTIONS])
    conf.setAll(list(merged.items()))
    conf.set(JAVA_OPTIONS, " ".join([*archive, merged[JAVA_OPTIONS]]))
    try:
        started = gateway.gateway(conf)
    except ConfigError as error:
        used = class_archive.used(archive)
        if used is None:
            raise
        conf.set(JAVA_OPTIONS, merged[JAVA_OPTIONS])
        started = gateway.gateway(conf)
        with suppress(OSError):
            used.unlink()
        _log.warning("%s. It started without its archive of classes, which was deleted", error)
    try:
        return SparkContext(conf=conf, gateway=started)
    except Py4JJavaError as error:
        why = first_line(error)
        if "DRIVER_MEMORY" in why:
            why = (
                f"spark.driver.memory is {merged.get('spark.driver.memory')}, which is too small: set it to 1g or more"
            )
        raise ConfigError(f"Spark did not start: {why}") from error


def suited(spark: SparkSession) -> SparkSession:
    """Returns the session if it has the required SQL settings, else a new one in the same application.

    Raises:
        ConfigError: the session is a client of Spark Connect, or its workers run a Python without changefeed.
    """
    if getattr(spark, "_jvm", None) is None:
        raise ConfigError(
            "this session is a client of Spark Connect, which does not give access to Spark's JVM. Start the pipeline on the "
            "cluster itself, with spark-submit or as a job"
        )
    python.use_this_python(spark.sparkContext)
    if all(spark.conf.get(name, None) == value for name, value in SESSION.items()):
        return spark
    return another(spark)


def has_jars_of(spark: SparkSession, name: Literal["delta", "kafka"]) -> bool:
    """Whether a session has the jars of Delta or of Spark's Kafka connector, and they are those for its version of Spark."""
    jvm: Any = spark._jvm
    there = jvm.org.apache.spark.util.Utils.classIsLoadable(_CLASSES[name])
    return bool(there) and name in jars.session_sets(spark.version)


_CLASSES = {
    "delta": "org.apache.spark.sql.delta.DeltaLog",
    "kafka": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
}


def another(spark: SparkSession) -> SparkSession:
    """Returns a new session in the same application, with the required SQL settings.

    It copies the settings of file systems, which may contain the credentials for the sink.
    """
    own, chosen = spark.newSession(), spark.sparkContext.getConf()
    for name, value in spark.conf.getAll.items():
        if name.startswith("fs."):
            own.conf.set(name, value)
    for name, value in (BATCHES | SESSION).items():
        if own.conf.get(name, None) != value and (name in SESSION or not chosen.contains(name)):
            own.conf.set(name, value)
    return own


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Within this context plans are compiled, which pays off for many rows.

    It has an effect only in a session that interprets plans by changefeed's default, not in a caller's session or one whose
    properties set this.
    """
    if spark.conf.get("spark.changefeed.plans", None) is None:
        yield
        return
    before = {name: str(spark.conf.get(name)) for name in COMPILED}
    try:
        for name, value in COMPILED.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def make_active(spark: SparkSession) -> None:
    """Makes this the active session of the JVM's thread for the calling thread; a new thread has none, or another's."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def lives(spark: SparkSession) -> bool:
    """Whether the session's JVM still answers."""
    from py4j.protocol import Py4JError

    jvm: Any = spark._jvm
    try:
        return jvm.java.lang.System.nanoTime() is not None
    except (Py4JError, OSError):
        return False


def _silence_disconnects(server: Any) -> None:
    """Stops pyspark's accumulator server from printing a traceback when the JVM has ended: changefeed reports that itself."""
    print_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            print_error(request, address)

    server.handle_error = handle_error


def _require_pyspark() -> None:
    """Checks pyspark and pandas early, because the errors of the JVM are hard to read."""
    try:
        import pyspark
    except ImportError as error:
        raise MissingExtraError("Spark", "spark") from error
    if find_spec("pandas") is None:  # pyspark asks for it when it gets or sends Arrow
        raise MissingExtraError("Spark", "spark")
    version = pyspark.__version__
    if not version.startswith(_VERSIONS):
        raise ConfigError(
            f"pyspark {version} is installed, and changefeed needs another: pip install 'pyspark{_RANGE}'"
        )
