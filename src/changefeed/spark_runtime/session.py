"""A Spark session for a process that owns its Spark: the command line, the examples, the tests.

On one machine it is quick on small tables, quiet, and leaves nothing behind. With the master of a cluster, or inside
spark-submit, it is what the cluster has, and `cluster.py` starts it. Code that is handed a session, in a notebook or a job of
its own, uses that one: `suited` makes it fit.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.spark_runtime import cluster, gateway, java, python
from changefeed.spark_runtime.properties import BATCHES, COMPILED, SESSION, is_local, one_machine
from changefeed.spark_runtime.scratch import Scratch, sweep

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SPARK_LINE = "4.1"


def session(app_name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """The process's Spark session, started if there is none, with Delta and Kafka.

    Args:
        app_name: what Spark calls the application.
        master: as in Spark; `spark.master` in `config` wins, and inside spark-submit what was submitted.
        config: Spark properties; they win over the defaults here. In a process whose Spark already runs, only those
            that can be set at run time have an effect.

    Raises:
        ConfigError: no Java that fits, a jar that could not be had, or a Spark of another line.
        MissingExtraError: pyspark or pandas is not installed.
    """
    _require_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    properties = dict(config or {})
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.config(map={**properties}).getOrCreate()

    sweep()
    scratch = Scratch("spark")
    atexit.register(scratch.close)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")  # seconds in which the JVM takes a connection of Python's
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # or each of a JVM's threads keeps memory that it has freed
    master = properties.get("spark.master", master)
    if cluster.submitted() or not is_local(master):
        context = cluster.start(app_name, None if cluster.submitted() else master, properties, scratch.path)
    else:
        context = _start(app_name, master, properties, scratch)
    _say_nothing_of_the_end(context._accumulatorServer)
    return SparkSession(context)


def _start(app_name: str, master: str, config: Mapping[str, str], scratch: Scratch) -> SparkContext:
    """Spark on this machine alone."""
    from pyspark import SparkConf, SparkContext

    os.environ["JAVA_HOME"] = str(java.find().home)
    os.environ["PYSPARK_PYTHON"] = python.program(scratch.path / "python")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setAppName(app_name).setMaster(master)
    conf.setAll(list(one_machine(config, scratch.path).items()))
    return SparkContext(conf=conf, gateway=gateway.gateway(conf))


def suited(spark: SparkSession) -> SparkSession:
    """The session, or one beside it in which SQL means what it must.

    Raises:
        ConfigError: it is a client of Spark Connect, or has no Delta.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigError(
            "this session is a client of Spark Connect, which has no JVM beside it: start the pipeline on the cluster itself, "
            "with spark-submit or as a job"
        )
    if not jvm.org.apache.spark.util.Utils.classIsLoadable("org.apache.spark.sql.delta.DeltaLog"):
        raise ConfigError(
            "Spark has no Delta Lake among its jars: give it those that `changefeed package` puts into `jars` (spark-submit "
            "--jars), or spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.4.0"
        )
    if all(spark.conf.get(name, None) == value for name, value in SESSION.items()):
        return spark
    return another(spark)


def another(spark: SparkSession) -> SparkSession:
    """A session beside this one, with settings of its own, in which SQL means what it must.

    Of this one's settings it gets those of file systems: they may have the credentials for the sink.
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
    """Plans made in here are compiled: worth it where many rows go through.

    Only in a session that interprets by our default. One that was handed over, or has its own planning options, stays as it is.
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
    """Makes this the session that the JVM's thread for the calling one works in: a thread begins with none, or another's."""
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


def _say_nothing_of_the_end(server: Any) -> None:
    """Makes pyspark's server for accumulators print no traceback when the JVM has ended: the waiting caller reports it."""
    handle = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            handle(request, address)

    server.handle_error = handle_error


def _require_pyspark() -> None:
    """Refuse early, and in words, what would fail later in a stack trace of the JVM."""
    try:
        import pandas  # noqa: F401  # mapInArrow imports it on the executor
        import pyspark
    except ImportError as error:
        raise MissingExtraError("Spark", "spark") from error
    version = pyspark.__version__
    if not version.startswith(f"{SPARK_LINE}."):
        raise ConfigError(
            f"pyspark {version} is installed, but the table formats are locked to {SPARK_LINE}: "
            f"pip install 'pyspark~={SPARK_LINE}.0'"
        )
