"""Measures the source's cost when a log of a million records is followed in a hundred batches: no Spark, one process.

    python bench/follow.py [--records 1000000] [--batches 100] [--json]

A plain log grows by a hundredth before each batch; compressed ones and Parquet exist from the start and are read a hundredth at
a time. Each batch does everything that a run does with the source: list the files, plan, read the records of all
slices, and list the partitions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from changefeed import record_log
from changefeed.frames import slices
from changefeed.model.batch import record_batch
from changefeed.sources.files import LogFiles

NAMES = ("log.jsonl", "log.jsonl.gz", "log.jsonl.zst", "log.parquet")


def records(first: int, last: int) -> Iterator[pa.RecordBatch]:
    """Records of about 300 bytes a line."""
    for start in range(first, last, 10_000):
        yield record_batch(
            {"topic": "t", "partition": n % 4, "offset": n, "key": b"%060d" % n, "value": b"%0120d" % (n * n)}
            for n in range(start, min(last, start + 10_000))
        )


def follow(folder: Path, name: str, count: int, batches: int) -> dict[str, Any]:
    """Follows one log; seconds of CPU of the first and the last tenth of the batches, and of all."""
    path, step = folder / name, count // batches
    grows = name.endswith(".jsonl")
    if not grows:
        record_log.write(path, records(0, count))
    source, no_spark = LogFiles(str(path), step), cast(Any, None)
    at, read, spent = None, 0, []
    for number in range(batches):
        if grows:
            record_log.write(folder / "more.jsonl", records(number * step, (number + 1) * step))
            with path.open("ab") as out:
                out.write((folder / "more.jsonl").read_bytes())
        began = time.process_time()
        batch = source.next_batch(no_spark, at, None)
        assert batch is not None
        read += sum(
            records.num_rows for records in slices.read([slices.pack(cast(slices.Slices, batch.records).slices)])
        )
        source.partitions(batch.source_offset)
        spent.append(time.process_time() - began)
        at = batch.source_offset
    source.close()
    assert read == count, f"{read} records for {count}"
    tenth = max(1, batches // 10)
    first, last = sum(spent[:tenth]) / tenth, sum(spent[-tenth:]) / tenth
    return {
        "log": name,
        "seconds": round(sum(spent), 1),
        "first_batches": round(first, 3),
        "last_batches": round(last, 3),
    }


def main() -> None:
    """Measures each form of log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            result = follow(Path(folder), name, arguments.records, arguments.batches)
        if arguments.json:
            print(json.dumps(result), flush=True)
        else:
            print(
                "{log:14} {seconds:8} s of CPU; a batch {first_batches} s at first, {last_batches} s at last".format(
                    **result
                )
            )


if __name__ == "__main__":
    main()
