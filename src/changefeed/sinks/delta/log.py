"""Reads a Delta table's log through Spark: the newest version, the last write of a pipeline, the commits since a version.

Every write of a pipeline carries Delta's own transaction identifier: `txnAppId` is the pipeline's owner text, and
`txnVersion` the write id in one number. Delta keeps the last one per application with the table, skips a write that
repeats it or follows a higher one, and lets one of two simultaneous writes fail. So the table itself shows what was applied
to it, whatever else is lost.

    63          40 39           12 11        0
    ┌─────────────┬───────────────┬───────────┐
    │    epoch    │     step      │  number   │
    └─────────────┴───────────────┴───────────┘
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from changefeed.errors import DamagedError, SinkError
from changefeed.sinks.delta.actions import checked_actions_of
from changefeed.sinks.delta.log_names import commit_name
from changefeed.sinks.ways_out import COMMIT_GONE, TABLE_DAMAGED
from changefeed.sinks.writes import WriteId
from changefeed.spark_runtime.files import file_system, read_bytes
from changefeed.spark_runtime.java_errors import first_line
from changefeed.spark_runtime.session import make_active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PROPERTIES = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES")  # of the commits with metadata, those that keep the columns


def pack(write_id: WriteId) -> int:
    """Packs a write id into Delta's transaction version, which keeps the order of write ids.

    Raises:
        SinkError: a part is too large. Possible are 2^23 epochs, 2^28 steps per epoch, 2^12 writes per table and step.
    """
    if not (write_id.epoch < 2**23 and write_id.step < 2**28 and write_id.number < 2**12):
        raise SinkError(f"{write_id}: too large for Delta's transaction version")
    return write_id.epoch << 40 | write_id.step << 12 | write_id.number


def unpack(version: int) -> WriteId:
    """Unpacks the write id from a transaction version."""
    return WriteId(version >> 40, version >> 12 & (2**28 - 1), version & (2**12 - 1))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's newest state.

    Attributes:
        version: version of the newest commit.
        size: total size of its data files, in bytes.
        write_id: write id of the application's last write; None if there is none.
        columns: names of the columns, in order.
        properties: the table's properties, as `SHOW TBLPROPERTIES` shows them.
        schema: the columns as Spark's JSON.
        applications: every application that has written with a transaction identifier.
    """

    version: int
    size: int
    write_id: WriteId | None
    columns: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    applications: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogCommit:
    """One commit of a table's log.

    Attributes:
        operation: Delta's name for it, as `DESCRIBE HISTORY` shows it.
        transactions: application -> its transaction version.
        note: the commit's `userMetadata`.
        changes_table: whether rows, columns or table features may differ after it. Compaction changes no row.
    """

    version: int
    operation: str
    transactions: Mapping[str, int]
    note: str | None
    changes_table: bool


def delta_log(spark: SparkSession, path: str) -> Any:
    """Returns Delta's object for the log at `path`."""
    make_active(spark)  # Delta asks for it when it reads data files' names with a job
    return spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # type: ignore[union-attr]


def snapshot(spark: SparkSession, path: str, application: str = "") -> Snapshot | None:
    """Returns the newest state of the Delta table at `path`; None if there is no table.

    Raises:
        SinkError: the table's log cannot be read.
    """
    jvm: Any = spark._jvm  # the log is read by Delta's own reader, through the session's gateway
    with readable(path):
        state = delta_log(spark, path).update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
        version = int(state.version())
        if version < 0:
            return None
        transactions = state.transactions()
        last = transactions.get(application)
        metadata = json.loads(state.metadata().json())["metaData"]
        return Snapshot(
            version,
            int(state.sizeInBytes()),
            unpack(int(last.get())) if last.isDefined() else None,
            tuple(field["name"] for field in json.loads(metadata["schemaString"])["fields"]),
            metadata["configuration"],
            metadata["schemaString"],
            _keys(jvm, transactions),
        )


def commits(read: Callable[[int], bytes | None], location: str, after: int, through: int) -> Iterator[LogCommit]:
    """Yields the commits with after < version <= through, newest first.

    Args:
        read: version -> the text of the commit; None if there is none.
        location: the table's location, for messages.
        after, through: the range of versions.

    Raises:
        SinkError: the file of a commit is missing or damaged.
    """
    if through < after:
        raise SinkError(f"{location}: version {through} comes before version {after}. {COMMIT_GONE}")
    for version in range(through, after, -1):
        text = read(version)
        if text is None:
            raise SinkError(f"{location}: commit {version} is missing from the table's log. {COMMIT_GONE}")
        try:
            actions = checked_actions_of(text)
        except ValueError as error:
            raise DamagedError(
                f"{location}/_delta_log/{commit_name(version)} is damaged: {error}. {TABLE_DAMAGED}"
            ) from error
        yield _commit(version, actions)


def _commit(version: int, actions: list[dict[str, Any]]) -> LogCommit:
    info: dict[str, Any] = {}
    transactions, changes, metadata = dict[str, int](), False, False
    for action in actions:
        match action:
            case {"commitInfo": dict(commit_info)}:
                info = commit_info
            case {"txn": txn}:
                transactions[txn["appId"]] = int(txn["version"])
            case {"metaData": _}:
                metadata = True
            case {"protocol": _}:
                changes = True
            case {"add": file} | {"remove": file} | {"cdc": file}:
                changes |= bool(file.get("dataChange", True))
    operation = str(info.get("operation", "unknown"))
    changes |= metadata and operation not in _PROPERTIES
    return LogCommit(version, operation, transactions, info.get("userMetadata"), changes)


def is_newest(spark: SparkSession, path: str, version: int) -> bool:
    """Whether commit `version` exists and none after it: checks two file names and reads no file."""
    log, files = file_system(spark, f"{path}/_delta_log")
    there = [files.exists(log.suffix(f"/{commit_name(v)}")) for v in (version, version + 1)]
    return there == [True, False]


def missing_files(spark: SparkSession, path: str, version: int) -> list[str]:
    """Returns the data files of a version that are missing, or whose size differs from the log.

    Raises:
        SinkError: the log or the folder cannot be read.
    """
    with readable(path):
        root, system = file_system(spark, path)
        there = {s.getPath().getName(): int(s.getLen()) for s in system.listStatus(root)} if system.exists(root) else {}
        wanted = _files(spark, path, version)
    return sorted(name for name, size in wanted.items() if "/" not in name and there.get(name) != size)


def _files(spark: SparkSession, path: str, version: int) -> dict[str, int]:
    """Returns data file -> size in bytes. For small tables the checksum file lists them, for others it takes a Spark job."""
    text = read_bytes(spark, f"{path}/_delta_log/{version:020d}.crc")
    try:
        listed = json.loads(text).get("allFiles") if text else None
    except ValueError:
        listed = None  # only a hint of Delta's: the log itself counts
    if listed is not None:
        return {file["path"]: int(file["size"]) for file in listed}
    jvm: Any = spark._jvm
    none = jvm.scala.Option.empty()
    state = delta_log(spark, path).update(False, none, none)
    return {str(file.path()): int(file.size()) for file in state.allFiles().collectAsList()}


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Translates errors about a log that Delta cannot read to one that names the table."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise SinkError(f"{path}: the table's log cannot be read: {first_line(error)}. {TABLE_DAMAGED}") from error


def _keys(jvm: Any, scala_map: Any) -> frozenset[str]:
    """Returns the keys of a Scala map, as an array: at the end of an iterator the JVM raises, which takes a dozen calls."""
    keys = jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map).keySet().toArray()
    return frozenset(str(keys[i]) for i in range(len(keys)))
