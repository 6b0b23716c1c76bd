"""The cost of metrics: job `b` of `bench/jobs.py` with and without `pipeline.metrics`, turn by turn.

    python -m bench.metrics_cost [--rounds 4] [--part 0.1] [--every 5] [--seed N] [--out FILE]

With metrics the run also has the series of each table, and is scraped every few seconds, by default three times as often as
Prometheus does it. CPU seconds are those of the run's process tree, without the scraper. The share is that of the medians, to be
read beside the spread of each way: on a machine with other work the spread may be larger than the bar of 1 %, and the result then
shows nothing. Every row of every table is compared with the log after each turn.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.request import urlopen

from bench.jobs import JOBS, Bench, Cost, at_one_go
from bench.orders import Orders
from tests.services.kafka import KafkaBroker
from tests.services.processes import free_ports

PLAIN, SCRAPED = "changefeed", "scraped"
BAR = 0.01  # the largest share of CPU that metrics may take
STEP = 250_000  # records that are read at once


@dataclass
class MetricsBench(Bench):
    """The job with a second way: the same run, whose metrics are scraped.

    Attributes:
        every: seconds between two scrapes.
        scrapes: number of answers so far.
    """

    every: float = 5.0
    scrapes: int = 0
    _port: int = field(init=False, default=0)

    def table(self, way: str, number: int) -> Path:
        """See `Bench`."""
        return self.lake(way) / f"shop/t{number}"

    def command(self, way: str, *, follow: bool = False) -> list[str]:
        """See `Bench`; sets the address of the metrics for the way that is scraped."""
        command = super().command(way, follow=follow)
        if way == SCRAPED:
            [self._port] = free_ports(1)
            file = self.folder / "pipeline.yaml"
            definition = json.loads(file.read_text())
            definition["pipeline"] |= {"metrics": f"127.0.0.1:{self._port}", "metrics-by-table": True}
            file.write_text(json.dumps(definition))
        return command

    def apply(self, way: str) -> Cost:
        """See `Bench`."""
        if way != SCRAPED:
            return super().apply(way)
        over = threading.Event()
        scraper = threading.Thread(target=self._scrape, args=(over,))
        scraper.start()
        try:
            return super().apply(way)
        finally:
            over.set()
            scraper.join()

    def _scrape(self, over: threading.Event) -> None:
        while not over.wait(self.every):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                self.scrapes += bool(answer.read())


def main() -> None:
    """Measures, and prints both ways and the share of metrics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--part", type=float, default=0.1)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two scrapes")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--out", type=Path, help="file to which the result is appended")
    chosen = parser.parse_args()
    job = JOBS["b"]
    job = replace(job, loaded=round(job.loaded * chosen.part), changes=round(job.changes * chosen.part))
    folder = Path(tempfile.mkdtemp(prefix="changefeed-metrics-"))
    try:
        with KafkaBroker(heap="1g") as broker:
            orders = Orders("b", job.tables, job.partitions, chosen.seed, job.adopted)
            bench = MetricsBench(job, orders, broker, folder / "b", STEP, every=chosen.every)
            costs = at_one_go(bench, [PLAIN, SCRAPED], chosen.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not bench.scrapes:
        raise RuntimeError("no scrape was answered")
    cpu = {way: [cost.cpu for cost in costs[way]] for way in costs}
    share = statistics.median(cpu[SCRAPED]) / statistics.median(cpu[PLAIN]) - 1
    spread = max((max(of) - min(of)) / statistics.median(of) for of in cpu.values())
    result = {
        "part": chosen.part, "seed": chosen.seed, "every": chosen.every, "scrapes": bench.scrapes, "cpu": cpu,
        "share": round(share, 4), "spread": round(spread, 4), "bar": BAR,
    }  # fmt: skip
    print(json.dumps(result))
    if chosen.out is not None:
        with chosen.out.open("a") as out:
            print(json.dumps(result), file=out)


if __name__ == "__main__":
    main()
