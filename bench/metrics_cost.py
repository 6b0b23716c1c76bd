"""The cost of metrics: what a scrape costs, beside job `b` of `bench/jobs.py`.

    python -m bench.metrics_cost [--job b] [--rounds 3] [--part 0.1] [--scrapes 300] [--seed N] [--out FILE]

Metrics are made when they are asked for, from what every run counts by the step. So their cost is that of the scrapes, which is
too small to be seen as the difference of two runs: it is measured with many of them. A run that follows the topics, with the
series of each table, is scraped in some seconds and left alone in others, turn by turn; the difference of its CPU, by the number
of scrapes, is the cost of one. The share is that of a scrape every 15 seconds, as Prometheus does it by default, in the CPU that
a run of the job takes in 15 seconds without metrics. CPU is that of the run's process tree.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.request import urlopen

import psutil

from bench.jobs import JOBS, Bench, at_one_go
from bench.orders import Orders
from tests.services.kafka import KafkaBroker
from tests.services.processes import free_ports

PLAIN, SCRAPED = "changefeed", "scraped"
BAR = 0.01  # the largest share of CPU that metrics may take
STEP = 250_000  # records that are read at once
EVERY = 15.0  # seconds between two scrapes of Prometheus
TURN = 10.0  # seconds with scrapes, and seconds without
START = 120.0  # seconds until a run must have made a step
REST = 20.0  # seconds until it has applied everything, and waits for more


@dataclass
class MetricsBench(Bench):
    """The job with a second way, whose metrics can be scraped."""

    port: int = field(init=False, default=0)

    def command(self, way: str, *, follow: bool = False) -> list[str]:
        """See `Bench`; sets the address of the metrics for the way that is scraped."""
        command = super().command(way, follow=follow)
        if way == SCRAPED:
            [self.port] = free_ports(1)
            file = self.folder / "pipeline.yaml"
            definition = json.loads(file.read_text())
            definition["pipeline"] |= {"metrics": f"127.0.0.1:{self.port}", "metrics-by-table": True}
            file.write_text(json.dumps(definition))
        return command

    def scrape(self) -> str:
        """The metrics; empty if nothing answers."""
        with suppress(OSError), urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
        return ""

    @contextmanager
    def following(self) -> Iterator[psutil.Process]:
        """A run that follows the topics and has nothing left to apply."""
        self.clear(SCRAPED)
        with (self.folder / "following.txt").open("wb") as output:
            process = subprocess.Popen(self.command(SCRAPED, follow=True), stdout=output, stderr=subprocess.STDOUT)
            try:
                until = time.monotonic() + START
                while 'cdc_steps_total{pipeline="bench"} 0.0' in (text := self.scrape()) or not text:
                    if time.monotonic() > until or process.poll() is not None:
                        raise RuntimeError(f"the run has not begun: {output.name}")
                    time.sleep(1)
                time.sleep(REST)
                yield psutil.Process(process.pid)
            finally:
                process.terminate()
                process.wait()


def _cpu(process: psutil.Process) -> float:
    """CPU seconds of a process and of all that it has started."""
    seconds = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            seconds += sum(one.cpu_times()[:2])
    return seconds


def scrape_seconds(bench: MetricsBench, scrapes: int, turns: int) -> list[float]:
    """CPU seconds of one scrape, by turns: in each, the run is left alone, and then scraped so many times."""
    costs = []
    with bench.following() as process:
        for _ in range(turns):
            before = _cpu(process)
            time.sleep(TURN)
            alone = _cpu(process) - before
            before, began = _cpu(process), time.monotonic()
            for number in range(scrapes):
                if not bench.scrape():
                    raise RuntimeError("the run does not answer")
                time.sleep(max(0.0, began + (number + 1) * TURN / scrapes - time.monotonic()))
            took = time.monotonic() - began
            costs.append((_cpu(process) - before - alone * took / TURN) / scrapes)
    return costs


def main() -> None:
    """Measures, and prints the cost of a scrape and the share of metrics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=sorted(JOBS), default="b")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", type=float, default=0.1)
    parser.add_argument("--scrapes", type=int, default=300, help="in a turn of ten seconds")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--out", type=Path, help="file to which the result is appended")
    chosen = parser.parse_args()
    job = JOBS[chosen.job]
    job = replace(job, loaded=round(job.loaded * chosen.part), changes=round(job.changes * chosen.part))
    folder = Path(tempfile.mkdtemp(prefix="changefeed-metrics-"))
    try:
        with KafkaBroker(heap="1g") as broker:
            orders = Orders(chosen.job, job.tables, job.partitions, chosen.seed, job.adopted)
            bench = MetricsBench(job, orders, broker, folder / chosen.job, STEP)
            costs = at_one_go(bench, [PLAIN], chosen.rounds)[PLAIN]
            scrapes = scrape_seconds(bench, chosen.scrapes, chosen.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rate = statistics.median(cost.cpu / cost.seconds for cost in costs)
    result = {
        "job": chosen.job, "part": chosen.part, "seed": chosen.seed, "tables": job.tables, "job_cpu_a_second": round(rate, 3),
        "scrape_ms": [round(seconds * 1000, 3) for seconds in scrapes],
        "share": round(statistics.median(scrapes) / EVERY / rate, 5), "bar": BAR,
    }  # fmt: skip
    print(json.dumps(result))
    if chosen.out is not None:
        with chosen.out.open("a") as out:
            print(json.dumps(result), file=out)


if __name__ == "__main__":
    main()
