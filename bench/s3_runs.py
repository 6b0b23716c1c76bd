"""Two and three runs of one pipeline at once into a bucket, whose server loses, refuses and cuts off some of the requests.

    python -m bench.s3_runs [--schedules 1000] [--minutes 120] [--seed 7] [--share 0.01] [--out FILE]

Each schedule is a random log of its own (`tests/pipeline/kit/random_log.py`), with one of the two consistencies and one of the
two write modes. Its runs move from failpoint to failpoint in random order, some are killed, and a last one goes to the end. Then
every published cut is read by a reader that is not Spark, and compared with the history. The server is moto's, which keeps
conditional writes, behind a proxy that disturbs `--share` of the requests. The first difference ends the program, with the
seed that repeats its log and its order.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from changefeed import telemetry
from changefeed.spark_runtime.session import session
from tests.pipeline.kit.in_bucket import BucketPipeline, disturbed_server
from tests.pipeline.kit.random_crashes import interleave

_SMALL = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


def _on_pass(function: object) -> None:
    telemetry.on_pass = function  # type: ignore[assignment]


def main() -> None:
    """Plays the schedules, and prints a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.randrange(2**16))
    parser.add_argument("--share", type=float, default=0.01, help="of the requests that meet a fault")
    parser.add_argument("--out", type=Path, help="a file that the line is added to")
    options = parser.parse_args()
    until, done, fenced, cuts = time.monotonic() + options.minutes * 60, 0, 0, 0
    with (
        tempfile.TemporaryDirectory() as name,
        disturbed_server(Path(name), random.Random(options.seed), options.share) as (s3, proxy),
    ):
        os.environ.update(s3.environ)  # of the reader
        spark = session("changefeed-s3-runs", master="local[1]", config=_SMALL)
        while done < options.schedules and time.monotonic() < until:
            chance = random.Random(f"{options.seed} {done}")
            pipeline = BucketPipeline.random(chance, Path(name) / f"schedule-{done}", s3, proxy.url, spark)
            try:
                fenced += interleave(pipeline, chance, _on_pass)
            except BaseException:
                print(f"\nschedule {done} of seed {options.seed}: {pipeline.consistency}, {pipeline.write_mode}")
                raise
            proxy.requests.clear()
            done, cuts = done + 1, cuts + pipeline.cuts
            print(
                f"\r{done:,} of {options.schedules:,} schedules, {fenced:,} fenced, {cuts:,} cuts", end="", flush=True
            )
    line = (
        f"seed {options.seed}: {done:,} schedules of two or three runs, {fenced:,} runs fenced, {cuts:,} cuts read: "
        "0 lost, 0 doubled, 0 torn"
    )
    print(f"\n{line}")
    if options.out is not None:
        with options.out.open("a") as file:
            print(line, file=file)


if __name__ == "__main__":
    main()
