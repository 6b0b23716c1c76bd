"""A pipeline of a random log into Delta tables in a bucket, for `random_crashes.interleave`; and a proxy that disturbs requests.

One seed makes one log and one order of the runs. Which requests meet a fault depends on the machine, too: a task's requests
are in no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.run import run
from changefeed.storage.section import StorageSection
from tests.pipeline.kit.random_log import RandomLog, random_log
from tests.pipeline.kit.running import definition
from tests.services.fault_proxy import Fault, FaultProxy, Request, lose_answer, refuse, refuse_after, reset, truncate
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The server's faults, of which the client gets over a few in a row.
FAULTS: tuple[Fault, ...] = (
    lose_answer, reset, truncate, refuse(503, "SlowDown", "Reduce your request rate."),
    refuse_after(500, "InternalError", "We encountered an internal error. Please try again."),
)  # fmt: skip


def into_bucket(pipeline: Definition, url: str, storage: StorageSection) -> Definition:
    """Returns a pipeline whose sink is a folder in a bucket."""
    sink = pipeline.sink.model_copy(update={"path": url})
    return pipeline.model_copy(update={"sink": sink, "storage": storage})


def sometimes(random: Random, share: float) -> Fault:
    """Lets a share of the requests meet a fault, and forwards the others."""

    def fault(request: Request) -> None:
        if random.random() < share:
            random.choice(FAULTS)(request)
        else:
            request.answer(request.forward())

    return fault


@contextmanager
def disturbed_server(folder: Path, random: Random, share: float) -> Iterator[tuple[S3Server, FaultProxy]]:
    """A server, and a proxy before it in which a share of the requests meet a fault; `folder`: of the server's log."""
    with S3Server(folder) as s3, FaultProxy(s3.url) as proxy:
        proxy.add(sometimes(random, share), times=None)
        yield s3, proxy


@dataclass
class BucketPipeline:
    """A pipeline in a bucket, for any number of runs in one process.

    Attributes:
        log: what it reads.
        url: of its folder.
        endpoint: of the server, or of a proxy before it.
        cuts: the cuts that `check` has read.
    """

    log: RandomLog
    url: str
    s3: S3Server
    endpoint: str
    spark: SparkSession
    consistency: str = "transaction"
    write_mode: str = "copy-on-write"
    cuts: int = 0

    @classmethod
    def random(cls, random: Random, folder: Path, s3: S3Server, endpoint: str, spark: SparkSession) -> BucketPipeline:
        """Makes a pipeline with a log in a new folder, whose name is that of its folder in the bucket."""
        folder.mkdir(parents=True)
        consistency = random.choice(["transaction", "key"])
        log = random_log(
            folder / "log.jsonl", random.randrange(2**32), random.randint(6, 16), moves=consistency == "transaction"
        )
        write_mode = random.choice(["copy-on-write", "merge-on-read"])
        return cls(log, f"s3://lake/{folder.name}", s3, endpoint, spark, consistency, write_mode)

    def definition(self, limit: int = 20) -> Definition:
        """The definition; `limit`: records in a batch."""
        made = definition(
            self.log.path, Path("lake"), limit=limit, write_mode=self.write_mode, consistency=self.consistency,
            parallelism=1,
        )  # fmt: skip
        return into_bucket(made, self.url, self.s3.storage(self.endpoint))

    def run(self, random: Random) -> None:
        """One run, to the end of the log."""
        run(self.definition(random.choice([10, 20, 40])), self.spark.newSession(), once=True)

    def check(self) -> None:
        """Compares every published cut, and the end, with the upstream."""
        faults = self.log.faults(self.definition())
        assert not faults.words, "\n".join(faults.words)
        self.cuts += faults.cuts
