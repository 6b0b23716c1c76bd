"""One transaction of a million rows: it must pass with a 2 GiB heap and less than 4 GiB in all.

    python bench/memory.py [--rows 1000000] [--json]

Writes a record log of one table whose rows all have one commit_ts, in records of 16 messages over 2 partitions, runs a
pipeline over it in batches of 20 000 records, and adds up the resident memory of the whole process tree as it runs. The
rows wait in the pending store until the mark behind them is read: nothing may grow with the transaction.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from changefeed import record_log
from changefeed.model.batch import record_batch

TS = 450_000_000_000_000_000
DDL = (
    "CREATE TABLE `big`.`rows` (`id` BIGINT NOT NULL,`name` VARCHAR(64),`amount` DECIMAL(12,2),`at` DATETIME(3),"
    "`note` TEXT,PRIMARY KEY(`id`))"
)


def framed(*texts: bytes, version: bool = False) -> bytes:
    """Messages with their lengths, as the Open Protocol frames them."""
    return (struct.pack(">q", 1) if version else b"") + b"".join(struct.pack(">q", len(t)) + t for t in texts)


def records(rows: int, partitions: int) -> Iterator[pa.RecordBatch]:
    """The log: DDL, then all rows, then a mark, on every partition."""
    offsets = [0] * partitions

    def record(partition: int, keys: list[bytes], values: list[bytes]) -> dict[str, object]:
        offsets[partition] += 1
        key, value = framed(*keys, version=True), framed(*values)
        return {"topic": "big", "partition": partition, "offset": offsets[partition] - 1, "key": key, "value": value}

    ddl = json.dumps({"q": DDL, "t": 3}).encode()
    head = b'{"ts":%d,"scm":"big","tbl":"rows","t":2}' % TS
    yield record_batch([record(p, [head], [ddl]) for p in range(partitions)])
    key = b'{"ts":%d,"scm":"big","tbl":"rows","t":1}' % (TS + 1)
    pad = "x" * 120
    batch = []
    for number, first in enumerate(range(0, rows, 16)):
        values = [
            (
                f'{{"u":{{"id":{{"t":8,"h":true,"f":11,"v":{i}}},"name":{{"t":15,"f":64,"v":"customer {i}"}},'
                f'"amount":{{"t":246,"f":65,"v":"{i}.25"}},"at":{{"t":12,"f":65,"v":"2026-01-02 03:04:05.678"}},'
                f'"note":{{"t":15,"f":64,"v":"{pad}"}}}}}}'
            ).encode()
            for i in range(first, min(first + 16, rows))
        ]
        batch.append(record(number % partitions, [key] * len(values), values))
        if len(batch) == 1000:
            yield record_batch(batch)
            batch = []
    mark = b'{"ts":%d,"t":3}' % (TS + 2)
    batch += [record(p, [mark], [b""]) for p in range(partitions)]
    yield record_batch(batch)


def tree(root: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    pids, todo = [], [root]
    while todo:
        pids.append(todo.pop())
        todo += parents.get(pids[-1], [])
    return pids


def resident(processes: list[int]) -> dict[str, int]:
    """Bytes in memory by command; what processes share is divided among them, so that the sum is what the machine needs."""
    total: dict[str, int] = {}
    for process in processes:
        folder = Path(f"/proc/{process}")
        try:
            name, rollup = (folder / "comm").read_text().strip(), (folder / "smaps_rollup").read_text()
            program = (folder / "exe").readlink().name
        except OSError:
            continue
        if program == "java" != name:  # the JVM once more: a thread of it is about to start a Python worker
            continue
        sizes = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
        total[name] = total.get(name, 0) + int(sizes["Pss"].split()[0]) * 1024
    return total


def main() -> None:
    """Runs it and prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "big.parquet"
        record_log.write(log, records(arguments.rows, 2))
        definition = Path(folder) / "pipeline.yaml"
        definition.write_text(
            "source: {type: files, path: big.parquet, protocol: ticdc-open, max-records-per-batch: 20000}\n"
            "sink: {type: delta, path: lake}\npipeline: {name: big}\nspark: {spark.driver.memory: 2g}\n"
        )
        started = time.monotonic()
        run = subprocess.Popen(
            [sys.executable, "-m", "changefeed.cli", "run", str(definition), "--once", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        peak, parts = 0, {}
        while run.poll() is None:
            memory = resident(tree(run.pid))
            if sum(memory.values()) > peak:
                peak, parts = sum(memory.values()), memory
            time.sleep(0.2)
        seconds = time.monotonic() - started
        lines = run.stdout.read().splitlines() if run.stdout else []
        status = subprocess.run(
            [sys.executable, "-m", "changefeed.cli", "status", str(definition), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        applied = json.loads(status.stdout)["counts"]["applied"]
        result = {
            "rows": arguments.rows,
            "applied": applied,
            "exit": run.returncode,
            "log_bytes": log.stat().st_size,
            "seconds": round(seconds, 1),
            "peak_rss_bytes": peak,
            "peak_rss_by_command": parts,
            "within_4_gib": peak < 4 * 2**30 and applied == arguments.rows,
        }
    if arguments.json:
        print(json.dumps(result))
    else:
        print(*lines[-1:], sep="\n")
        print(f"{applied} rows in {seconds:.0f} s; at most {peak / 2**30:.2f} GiB resident: {parts}")
    sys.exit(0 if result["within_4_gib"] else 1)


if __name__ == "__main__":
    main()
