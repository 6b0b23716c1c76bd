"""What one commit costs in CPU: through Delta's own transaction in the JVM, and as the native apply commits.

    python bench/native_commits.py [--commits 100]

Each commit replaces the one file of a table, carries a transaction number that was read before, and is asked for afterwards.
Both ways checkpoint every tenth commit. The first 20 commits of each way warm up.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from native_apply import cpu

from changefeed.sinks.delta.log import Stamp, delta_log
from changefeed.sinks.delta.native.commit import checkpoint, commit, open_table
from changefeed.sinks.delta.native.files import Folder, Limits, Writer
from changefeed.sinks.delta.native.item import Written
from changefeed.spark.session import session

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
WARM = 20


def added(path: str, number: int) -> Any:
    """A file with one row."""
    writer = Writer(Folder(path), SCHEMA, Limits())
    writer.write(pa.record_batch([pa.array([number], pa.int64()), pa.array(["v"])], schema=SCHEMA))
    return writer.close()[0]


def native(path: str) -> Callable[[int, Any, Any], None]:
    """Opens the table, commits, asks the log."""

    def one(number: int, new: Any, old: Any) -> None:
        opened = open_table(Folder(path), "bench")
        assert opened is not None
        removed = () if old is None else ((old.path, old.size),)
        commit(opened, [Written((new,), removed, 1)], Stamp(1, number, 1), "note")
        checkpoint(opened)

    return one


def in_jvm(spark: Any, path: str) -> Callable[[int, Any, Any], None]:
    """A transaction that depends on the application's number, read from the checksum file; a commit; a look at the log."""
    jvm = spark._jvm
    delta, none = jvm.org.apache.spark.sql.delta, getattr(getattr(jvm.scala, "None$"), "MODULE$")
    action = getattr(getattr(delta.actions, "Action$"), "MODULE$")
    append = jvm.org.apache.spark.sql.SaveMode.Append

    def one(number: int, new: Any, old: Any) -> None:
        transaction = delta_log(spark, path).startTransaction()
        if transaction.snapshot().checksumOpt().isDefined():
            transaction.readTxn().addOne("bench")
        now = int(time.time() * 1000)
        said: list[dict[str, Any]] = [{"txn": {"appId": "bench", "version": number, "lastUpdated": now}}]
        made = {"path": new.path, "partitionValues": {}, "size": new.size, "modificationTime": now, "dataChange": True}
        said.append({"add": made | {"stats": new.stats}})
        if old is not None:
            gone = {"path": old.path, "deletionTimestamp": now, "dataChange": True, "size": old.size}
            said.append({"remove": gone | {"extendedFileMetadata": True, "partitionValues": {}}})
        java = jvm.java.util.ArrayList()
        for one_action in said:
            java.add(action.fromJson(json.dumps(one_action)))
        note = jvm.scala.Option.apply("note")
        operation = delta.DeltaOperations.Write(append, none, none, note, none, none, none, none, none)
        transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(java).toSeq(), operation)
        assert delta_log(spark, path).update(False, none, none).version() >= 0

    return one


def measured(path: str, one: Callable[[int, Any, Any], None], count: int) -> str:
    """CPU milliseconds of one commit."""
    old, before = None, cpu()
    for number in range(1, count + WARM + 1):
        if number == WARM + 1:
            before = cpu()
        new = added(path, number)
        one(number, new, old)
        old = new
    java, rest = (1000 * (b - a) / count for a, b in zip(before, cpu(), strict=True))
    return f"{java + rest:7.1f} ms of CPU a commit (JVM {java:.1f}, rest {rest:.1f})"


def main() -> None:
    """Measures both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    count = parser.parse_args().commits
    spark = session("native-commits", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("jvm", "native"):
            path = str(Path(folder) / name)
            spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta")
            one = native(path) if name == "native" else in_jvm(spark, path)
            print(f"{name:<7} {measured(path, one, count)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
