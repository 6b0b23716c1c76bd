"""A Spark session for one machine: quick on small tables, quiet, and leaving nothing behind.

`session()` is for a process that owns its Spark: the command line, the examples, the tests. Code that is handed a
session, on a cluster or in a notebook, uses that one; `DELTA` is what it must have been started with.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.redaction import SECRET_NAMES
from changefeed.spark import gateway, jars, java, python
from changefeed.spark.scratch import Scratch, sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_LINE = "4.1"

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# Chosen for one machine and tables of up to some million rows; `config` overrides each.
DEFAULTS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": SECRET_NAMES,  # in the UI and in event logs
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # Spark's 200 and Delta's 50 are for clusters: with them a MERGE of 1000 rows takes 5 s instead of 1.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.ui.explainMode": "simple",  # it is written for every plan, whoever reads it
    # The UI's store is kept up to date even when there is no UI. Spark's 1000 of each fill a tenth of the heap.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
    # Records go into Python and back as Arrow batches: over a Unix socket, and in batches that stay in the CPU's
    # cache, twice as many a second as over TCP in the default ones of 10 000.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    # A record may be a megabyte, and a chunk always is about one: batches are bounded by bytes too.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 2**20),
    # Without it each task of a worker begins with a tenth of a second of looking into archives.
    "spark.python.daemon.module": "changefeed.spark.daemon",
    # What was flipped on disk since it was written is an error then, and never other rows.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Some of Spark's limits are too short for a machine that has ten times as much to do as it can. The driver is the only
    # executor, so that a heartbeat which comes late means nothing.
    "spark.network.timeout": "800s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.python.authenticate.socketTimeout": "120s",
    # A crash in compiled code then comes with the Python lines that led to it.
    "spark.python.worker.faulthandler.enabled": "true",
}

# A run asks for hundreds of plans, most of them for a few rows: to compile them takes longer than to interpret them. The
# last line is ours alone, and tells `compiled` that nobody chose otherwise.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.changefeed.plans": "interpreted",
}

# As Spark has it, and a cluster's session.
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

# Spark's sockets are in Java's temporary folder, as `.<uuid>.sock`; some systems take paths of 104 bytes at most.
_LONGEST_FOLDER = 104 - len("/.00000000-0000-0000-0000-000000000000.sock") - 1

# Of how many tables Delta remembers the log: 10 000 as it comes, and each takes 2 to 3 MiB of the heap.
_KNOWN_TABLES = "spark.databricks.delta.delta.log.cacheSize"

_SIZE = re.compile(r"(?i)(\d+)([kmgt]?)b?")

_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")


def session(app_name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """The process's Spark session, started if there is none, with Delta and Kafka.

    Args:
        app_name: what Spark calls the application.
        master: as in Spark.
        config: Spark properties; they win over the defaults here. In a process whose Spark already runs, only those
            that can be set at run time have an effect.

    Raises:
        ConfigError: no Java that fits, a jar that could not be had, or a Spark of another line.
        MissingExtraError: pyspark or pandas is not installed.
    """
    _require_pyspark()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    given = dict(config or {})
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.config(map={**given}).getOrCreate()

    os.environ["JAVA_HOME"] = str(java.find().home)
    sweep()
    scratch = Scratch("spark")
    atexit.register(scratch.close)
    os.environ["PYSPARK_PYTHON"] = python.program(scratch.path)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")  # seconds in which the JVM takes a connection of Python's
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # or each of a JVM's threads keeps memory that it has freed
    conf = SparkConf(loadDefaults=False).setAppName(app_name).setMaster(master)
    conf.setAll(list(_properties(given, scratch.path).items()))
    context = SparkContext(conf=conf, gateway=gateway.gateway(conf))
    _say_nothing_of_the_end(context._accumulatorServer)
    return SparkSession(context)


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Plans made in here are compiled: worth it where many rows go through.

    Only in a session that interprets by our default. One that was handed over, or told how to plan, stays as it is.
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
    """Lets pyspark's server for accumulators print no traceback when the JVM has ended: whoever waits for Spark says so."""
    told = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            told(request, address)

    server.handle_error = handle_error


def _tables_in(heap: str) -> int:
    """How many tables fill a fifth of a heap of this size, as Spark writes it: `2g`, `640m`."""
    size = _SIZE.fullmatch(heap.strip())
    mebibytes = int(size[1]) * 1024 ** ("kmgt".index(size[2].lower() or "m") - 1) if size else 0
    return max(50, int(mebibytes) // 15)


def _require_pyspark() -> None:
    """Refuse early, and in words, what would fail later in a stack trace of the JVM."""
    try:
        import pandas  # noqa: F401  # mapInArrow imports it on the executor
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Spark", "spark") from error
    version = metadata.version("pyspark")
    if not version.startswith(f"{SPARK_LINE}."):
        raise ConfigError(
            f"pyspark {version} is installed, but the table formats are locked to {SPARK_LINE}: "
            f"pip install 'pyspark~={SPARK_LINE}.0'"
        )


def _properties(given: dict[str, str], scratch: Path) -> dict[str, str]:
    """The defaults, the user's on top, and what has to be joined with the user's instead of replaced."""
    ours = DEFAULTS if COMPILED.keys() & given.keys() else DEFAULTS | _INTERPRETED
    merged = ours | DELTA | given
    merged.setdefault(_KNOWN_TABLES, str(_tables_in(merged["spark.driver.memory"])))
    files = [str(path) for path in jars.paths("delta", "kafka")]
    merged["spark.jars"] = ",".join([*filter(None, [given.get("spark.jars")]), *files])
    log4j = (Path(__file__).parent / "log4j2.properties").as_uri()
    theirs = given.get("spark.driver.extraJavaOptions", "")
    # Ours first: of a repeated option the JVM takes the last. The collector needs a tenth of the heap less than G1 beside it.
    options = [f"-Dlog4j2.configurationFile={log4j}"]
    if len(str(scratch)) <= _LONGEST_FOLDER:
        options.append(shlex.quote(f"-Djava.io.tmpdir={scratch}"))
    options += [] if _COLLECTOR.search(theirs) else ["-XX:+UseParallelGC"]
    merged["spark.driver.extraJavaOptions"] = " ".join([*options, *filter(None, [theirs])])
    # Spark's defaults are the current folder, whose catalog lives in memory, so that tables found only by name may go too; and
    # the temporary folder, where a JVM that is killed leaves what it had.
    merged.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    merged.setdefault("spark.local.dir", str(scratch))
    return merged
