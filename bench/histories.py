"""A recorded history many times, with DDL, transactions over tables, and cuts: what that costs, and whether it is right.

    python -m bench.histories [--copies 200] [--step 10000] [--consistency transaction key] [--out FILE]

The history is that of `tests/data/shop`, as TiCDC's classic Open Protocol sends it: 4 629 changes of five tables, 13 DDL
statements, 68 resolved events. Each copy has a database of its own, and begins where the one before ends. All lie in one
topic of a real broker, on loopback. `changefeed run` reads `--step` records at once, which have up to 16 changes each. CPU
seconds are those of the whole process tree, with the start of Spark. Afterwards the ledger must have applied every row once,
and every table of every copy must equal the recorded one.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.jobs import measured, say
from bench.memory import framed
from changefeed import record_log
from changefeed.bench.peers import messages
from changefeed.pipeline.config.load import read as definition_of
from changefeed.pipeline.operations.status import status
from tests.pipeline.kit.running import SHOP, differing, published
from tests.services.kafka import KafkaBroker

LOG = SHOP / "ticdc-open" / "open-1.classic.jsonl.gz"
FINAL = SHOP / "expected" / "final"
TOPIC = "shop"
_VERSION = 8  # bytes before the first key
_TS = re.compile(rb'"ts":(\d+)')


def copies(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of the records of all copies."""
    log = [row for batch in record_log.read(LOG) for row in batch.to_pylist()]
    recorded = [(messages(row["key"][_VERSION:]), messages(row["value"])) for row in log]
    stamps = [int(match[1]) for keys, _ in recorded for key in keys if (match := _TS.search(key))]
    span = max(stamps) - min(stamps) + 1
    for copy in range(count):

        def later(match: re.Match[bytes], copy: int = copy) -> bytes:
            return b'"ts":%d' % (int(match[1]) + copy * span)

        name = b"shop%d" % copy
        for keys, values in recorded:
            ddl = b'"t":2' in keys[0]
            moved = [_TS.sub(later, key).replace(b'"scm":"shop"', b'"scm":"%s"' % name) for key in keys]
            texts = [value.replace(b"`shop`", b"`%s`" % name) for value in values] if ddl else values
            yield framed(*moved, version=True), framed(*texts)


def check(definition: dict[str, Any], count: int) -> int:
    """Compares all tables with the recorded ones, and the ledger's counts; returns the number of changes.

    Raises:
        RuntimeError: they differ.
    """
    pipeline = definition_of(definition)
    counts = status(pipeline).to_dict()["counts"]
    if counts["dead"] or counts["rows"] != counts["applied"]:
        raise RuntimeError(f"the ledger's counts are {counts}")
    names = [path.name.removesuffix(".jsonl.gz") for path in FINAL.glob("*.jsonl.gz")]
    tables = published(pipeline)[-1].state.tables.values()
    there = {(at.table.database, at.table.name) for at in tables}
    if there != {(f"shop{copy}", name) for copy in range(count) for name in names}:
        raise RuntimeError(f"there are {len(there)} tables, not {count} times {sorted(names)}")
    for at in tables:
        if difference := differing(pipeline, at, FINAL.name):
            raise RuntimeError(f"{at.table.database}.{at.table.name}: {difference}")
    return int(counts["rows"])


def main() -> None:
    """Measures, and writes it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=200)
    parser.add_argument("--step", type=int, default=10_000)
    parser.add_argument("--consistency", nargs="+", default=["transaction", "key"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "histories.jsonl")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="changefeed-histories-"))
    try:
        with KafkaBroker(heap="1g") as broker, arguments.out.open("a") as out:
            broker.create_topic(TOPIC, partitions=1)
            producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "linger.ms": 5})
            for key, value in copies(arguments.copies):
                producer.produce(TOPIC, value, key, 0)
                producer.poll(0)
            producer.flush()
            for consistency in arguments.consistency:
                definition = {
                    "source": {"type": "kafka", "servers": broker.bootstrap, "topics": [TOPIC], "protocol": "ticdc-open",
                               "max-records-per-batch": arguments.step},
                    "sink": {"type": "delta", "path": str(folder / consistency)},
                    "pipeline": {"name": "bench", "consistency": consistency},
                    "spark": {"spark.master": "local[2]", "spark.driver.memory": "2g"},
                }  # fmt: skip
                file = folder / f"{consistency}.yaml"
                file.write_text(json.dumps(definition))
                command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once"]
                cost = measured(command, folder / f"{consistency}.txt")
                changes = check(definition, arguments.copies)
                say(f"{consistency}: {cost}, {changes:,} changes, all tables are right")
                result = {
                    "consistency": consistency,
                    "copies": arguments.copies,
                    "step": arguments.step,
                    "changes": changes,
                }
                print(json.dumps(result | asdict(cost)), file=out, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
