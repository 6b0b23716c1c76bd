"""Runs of the command line into Delta, killed at random moments while the server is written: the tables end as the server's."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from changefeed.pipeline.ledger import read_ledger
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.pipelines import load, tables
from tests.sources.mysql.shop import COMPOSITE, TABLES, filled, selected, writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed import Pipeline

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]
_KILLS = 4


@pytest.mark.parametrize("server", [MariaDb, MySql], ids=["mariadb", "mysql"])
def test_tables_after_kills(server: type[Database], tmp_path: Path, spark: SparkSession) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, stop = random.Random(seed), Event()
    with server() as database:
        filled(database)
        pipeline = load(tmp_path, database, **{"chunk-rows": 50, "max-records-per-batch": 200})
        writer = Thread(target=writing(database, stop))
        writer.start()
        try:
            for _ in range(_KILLS):
                killed_run(tmp_path / "pipeline.yaml", pipeline, chance.uniform(8, 25))
        finally:
            stop.set()
            writer.join()
        pipeline.run(spark)
        latest = read_ledger(pipeline.definition).latest()
        assert latest is not None
        assert latest.epoch > 1
        copied = tables(pipeline, tmp_path)
        for name in (*TABLES, *COMPOSITE):
            actual = {tuple(map(str, row.values())) for row in copied[f"shop.{name}"]}
            assert len(actual) == len(copied[f"shop.{name}"])
            assert actual == selected(database, name)


def killed_run(definition: Path, pipeline: Pipeline, seconds: float) -> None:
    """Starts `changefeed run`, and kills it with all of its processes some seconds later, or after the ledger's first entry."""
    command = [sys.executable, "-m", "changefeed.cli", "run", str(definition)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    ledger, deadline = read_ledger(pipeline.definition), time.monotonic() + seconds
    while time.monotonic() < deadline or ledger.latest() is None:
        assert run.poll() is None, (run.stderr.read() if run.stderr else b"").decode()
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
