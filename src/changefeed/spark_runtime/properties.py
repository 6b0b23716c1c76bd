"""Properties of a Spark session: those that are always required, and those for one machine.

On a cluster the administrator has chosen memory, time limits, shuffle partitions and the like in `spark-defaults.conf`, so
only `REQUIRED` is set, as far as it is not set already. One machine has no such file, and gets `ONE_MACHINE` too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from changefeed.redaction import SECRET_NAMES
from changefeed.spark_runtime import jars

EXTENSIONS = "spark.sql.extensions"
DELTA = {
    EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# Semantics of SQL: each session must have exactly these values, also one that the caller has started.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}

# In a caller's session, only those that the application has not set; `config` overrides each.
BATCHES = {
    # Batches that fit the CPU's cache: twice as many records per second as with the default of 10 000. A record may have a
    # megabyte, and a chunk always has about one, so batches are also limited by bytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 2**20),
}

REQUIRED = (
    SESSION
    | BATCHES
    | {
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": SECRET_NAMES,  # in the UI and in event logs
        # Without it, each task of a worker spends a tenth of a second on reading archives.
        "spark.python.daemon.module": "changefeed.spark_runtime.daemon",
        # Bits flipped on disk become an error instead of wrong rows.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        # A crash in compiled code is reported with its Python stack.
        "spark.python.worker.faulthandler.enabled": "true",
    }
)

# For one machine, and tables of up to some million rows.
ONE_MACHINE = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Spark's 200 and Delta's 50 are for clusters: with them a MERGE of 1000 rows takes 5 s instead of 1.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.ui.explainMode": "simple",  # written for every plan
    # The UI's store is kept up to date even when there is no UI. Spark's 1000 of each fill a tenth of the heap.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
    # Records go into Python and back as Arrow batches: over a Unix socket twice as many a second as over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Some of Spark's time limits are too short for an overloaded machine. The driver is the only executor, so a late
    # heartbeat has no meaning.
    "spark.network.timeout": "800s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.python.authenticate.socketTimeout": "120s",
}

# A run executes hundreds of plans, most of them for a few rows: compiling them takes longer than interpreting them, and so does
# planning them again after each stage. Who sets one of these properties chooses all of them. The last property is changefeed's
# own; it shows `compiled` that the user has not chosen otherwise.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.changefeed.plans": "interpreted",
}

# As Spark has it, and a cluster's session.
COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}

CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_LOG4J = (Path(__file__).parent / "log4j2.properties").as_uri()

# Spark's sockets are in Java's temporary folder, as `.<uuid>.sock`; some systems take paths of 104 bytes at most.
_LONGEST_FOLDER = 104 - len("/.00000000-0000-0000-0000-000000000000.sock") - 1

# Number of tables whose log Delta caches: 10 000 by default, and each takes 2 to 3 MiB of the heap.
_KNOWN_TABLES = "spark.databricks.delta.delta.log.cacheSize"

_SIZE = re.compile(r"(?i)(\d+)([kmgt]?)b?")

_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")

# Rows are decoded and written in Python workers and native code; the JVM does only planning, input and output.
# Java's second compiler takes longer for that than it saves, with two million changes too: `bench/plans.py`.
# Without it, the limit for compiled code is 48 MiB; a JVM that uses many parts of Spark and Delta for long reaches it, and then
# compiles the same methods again.
_COMPILER = "-XX:TieredStopAtLevel=1"
_COMPILED_CODE = "-XX:ReservedCodeCacheSize=128m"
_COMPILER_CHOSEN = re.compile(r"-XX:(?:TieredStopAtLevel|[+-]TieredCompilation)\b|-Xint\b|-XX:CompilationMode")


def is_local(master: str) -> bool:
    """Whether a master runs tasks in threads of the driver, not in processes that may be on other machines."""
    return master == "local" or master.startswith("local[")


def one_machine(config: Mapping[str, str], scratch: Path, sets: Sequence[str]) -> dict[str, str]:
    """Returns the defaults, overridden by the user's properties; lists and Java options are joined.

    Args:
        config: the user's properties.
        scratch: a temporary folder of this process.
        sets: the sets of jars that the session has.
    """
    ours = REQUIRED | ONE_MACHINE | ({} if COMPILED.keys() & config.keys() else _INTERPRETED)
    merged = ours | (DELTA if "delta" in sets else {}) | dict(config)
    merged.setdefault(_KNOWN_TABLES, str(_tables_in(merged["spark.driver.memory"])))
    files = [str(path) for path in jars.paths(*sets)]
    # On the class path, unlike `spark.jars`, their classes can be in an archive, and no run copies them.
    merged[CLASS_PATH] = ":".join([*filter(None, [config.get(CLASS_PATH)]), *files])
    theirs = config.get(JAVA_OPTIONS, "")
    # Ours first: of a repeated option the JVM takes the last. The collector needs a tenth of the heap less than G1 beside it.
    options = java_options(scratch)
    options += [] if _COLLECTOR.search(theirs) else ["-XX:+UseParallelGC"]
    options += [] if _COMPILER_CHOSEN.search(theirs) else [_COMPILER, _COMPILED_CODE]
    merged[JAVA_OPTIONS] = " ".join([*options, *filter(None, [theirs])])
    # Spark's defaults are the current folder, also for a catalog in memory; and the temporary folder, where a killed JVM
    # leaves its files.
    if merged.get("spark.sql.catalogImplementation") != "hive":
        merged.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    merged.setdefault("spark.local.dir", str(scratch))
    return merged


def java_options(scratch: Path) -> list[str]:
    """Options for the driver's JVM: the logging configuration, and a temporary folder that is deleted later."""
    options = [f"-Dlog4j2.configurationFile={_LOG4J}"]
    if len(str(scratch)) <= _LONGEST_FOLDER:
        options.append(shlex.quote(f"-Djava.io.tmpdir={scratch}"))
    return options


def with_jars(config: Mapping[str, str], sets: Sequence[str]) -> str:
    """Returns `spark.jars` with the jars of these sets after the user's."""
    files = [str(path) for path in jars.paths(*sets)]
    return ",".join([*filter(None, [config.get("spark.jars")]), *files])


def _tables_in(heap: str) -> int:
    """Returns the number of tables that fill a fifth of a heap of this size, in Spark's syntax: `2g`, `640m`."""
    size = _SIZE.fullmatch(heap.strip())
    mebibytes = int(size[1]) * 1024 ** ("kmgt".index(size[2].lower() or "m") - 1) if size else 0
    return max(50, int(mebibytes) // 15)
