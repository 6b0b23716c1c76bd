"""The properties of a Spark session: those that the work needs anywhere, and those that suit one machine.

A cluster's administrator has chosen memory, time limits, shuffle partitions and the like in `spark-defaults.conf`. There only
`EVERYWHERE` is set, and of that only what nobody else has set. One machine has no such file, and gets `ONE_MACHINE` too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from changefeed.redaction import SECRET_NAMES
from changefeed.spark_runtime import jars

EXTENSIONS = "spark.sql.extensions"
DELTA = {
    EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# What the SQL that is run here means: each session must have just these values, whichever program started it.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}

# Of a session that was handed over, those that its application has not set; `config` overrides each.
BATCHES = {
    # Batches that stay in the CPU's cache: twice as many records a second as in the default ones of 10 000. A record may be a
    # megabyte, and a chunk always is about one: batches are bounded by bytes too.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 2**20),
}

EVERYWHERE = (
    SESSION
    | BATCHES
    | {
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": SECRET_NAMES,  # in the UI and in event logs
        # Without it each task of a worker begins with a tenth of a second of looking into archives.
        "spark.python.daemon.module": "changefeed.spark_runtime.daemon",
        # What was flipped on disk since it was written is an error then, and never other rows.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        # A crash in compiled code then comes with the Python lines that led to it.
        "spark.python.worker.faulthandler.enabled": "true",
    }
)

# Chosen for one machine and tables of up to some million rows.
ONE_MACHINE = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Spark's 200 and Delta's 50 are for clusters: with them a MERGE of 1000 rows takes 5 s instead of 1.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.ui.explainMode": "simple",  # it is written for every plan, read or not
    # The UI's store is kept up to date even when there is no UI. Spark's 1000 of each fill a tenth of the heap.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
    # Records go into Python and back as Arrow batches: over a Unix socket twice as many a second as over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Some of Spark's limits are too short for a machine that has ten times as much to do as it can. The driver is the only
    # executor, so that a heartbeat which comes late means nothing.
    "spark.network.timeout": "800s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.python.authenticate.socketTimeout": "120s",
}

# A run asks for hundreds of plans, most of them for a few rows: to compile them takes longer than to interpret them. The
# last line is set only here, and shows `compiled` that the user did not choose otherwise.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.changefeed.plans": "interpreted",
}

# As Spark has it, and a cluster's session.
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

_LOG4J = (Path(__file__).parent / "log4j2.properties").as_uri()

# Spark's sockets are in Java's temporary folder, as `.<uuid>.sock`; some systems take paths of 104 bytes at most.
_LONGEST_FOLDER = 104 - len("/.00000000-0000-0000-0000-000000000000.sock") - 1

# Of how many tables Delta remembers the log: 10 000 as it comes, and each takes 2 to 3 MiB of the heap.
_KNOWN_TABLES = "spark.databricks.delta.delta.log.cacheSize"

_SIZE = re.compile(r"(?i)(\d+)([kmgt]?)b?")

_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")

# The rows are decoded and written in Python workers and native code; what is left to the JVM is planning and input and output.
# Java's second compiler takes longer for that than it saves, with two million changes too: `bench/plans.py`.
_COMPILER = "-XX:TieredStopAtLevel=1"
_COMPILER_CHOSEN = re.compile(r"-XX:(?:TieredStopAtLevel|[+-]TieredCompilation)\b|-Xint\b|-XX:CompilationMode")


def is_local(master: str) -> bool:
    """Whether a master is threads of the driver, and not processes that may be on other machines."""
    return master == "local" or master.startswith("local[")


def one_machine(config: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The defaults, the user's on top, and what has to be joined with the user's instead of replaced."""
    ours = EVERYWHERE | ONE_MACHINE | ({} if COMPILED.keys() & config.keys() else _INTERPRETED)
    merged = ours | DELTA | dict(config)
    merged.setdefault(_KNOWN_TABLES, str(_tables_in(merged["spark.driver.memory"])))
    merged["spark.jars"] = with_jars(config)
    theirs = config.get("spark.driver.extraJavaOptions", "")
    # Ours first: of a repeated option the JVM takes the last. The collector needs a tenth of the heap less than G1 beside it.
    options = java_options(scratch)
    options += [] if _COLLECTOR.search(theirs) else ["-XX:+UseParallelGC"]
    options += [] if _COMPILER_CHOSEN.search(theirs) else [_COMPILER]
    merged["spark.driver.extraJavaOptions"] = " ".join([*options, *filter(None, [theirs])])
    # Spark's defaults are the current folder, whose catalog lives in memory, so that tables found only by name may go too; and
    # the temporary folder, where a JVM that is killed leaves what it had.
    merged.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    merged.setdefault("spark.local.dir", str(scratch))
    return merged


def java_options(scratch: Path) -> list[str]:
    """Options for the driver's JVM: our log, and a temporary folder that goes."""
    options = [f"-Dlog4j2.configurationFile={_LOG4J}"]
    if len(str(scratch)) <= _LONGEST_FOLDER:
        options.append(shlex.quote(f"-Djava.io.tmpdir={scratch}"))
    return options


def with_jars(config: Mapping[str, str]) -> str:
    """`spark.jars` with those of Delta and Kafka after the user's."""
    files = [str(path) for path in jars.paths("delta", "kafka")]
    return ",".join([*filter(None, [config.get("spark.jars")]), *files])


def _tables_in(heap: str) -> int:
    """Number of tables that fill a fifth of a heap of this size, as Spark writes it: `2g`, `640m`."""
    size = _SIZE.fullmatch(heap.strip())
    mebibytes = int(size[1]) * 1024 ** ("kmgt".index(size[2].lower() or "m") - 1) if size else 0
    return max(50, int(mebibytes) // 15)
