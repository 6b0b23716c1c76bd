"""An event pipeline as an operator sees it: status, heartbeat and metrics, from a live server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from changefeed import record_log
from changefeed.api.events import EventPipeline, EventProgress
from changefeed.errors import ResourceError
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.sources import Backlog
from changefeed.sources.mysql import MySqlTables
from tests.cli.command import invoke
from tests.monitor.site import Outline, Site
from tests.services.database import Database, MariaDb
from tests.services.processes import free_ports

ROWS = 5_000


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A server with one table of some size."""
    with MariaDb() as started:
        started.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(200));"
            f"INSERT INTO shop.orders SELECT seq, REPEAT('x', 100) FROM seq_1_to_{ROWS}; ANALYZE TABLE shop.orders"
        )
        yield started


def document(folder: Path, port: int, **pipeline: Any) -> dict[str, Any]:
    """The definition of a pipeline of the table to a folder."""
    source = {
        "type": "mysql",
        "host": "127.0.0.1",
        "port": port,
        "user": "dbz",
        "password": "dbz",
        "tables": ["shop.*"],
    }
    protocol = {"name": "debezium-mysql", "connector": "mariadb", "topic.prefix": "srv", "schemas.enable": False}
    return {
        "source": source,
        "sink": {"type": "files", "path": str(folder / "events"), "protocol": protocol},
        "pipeline": {
            "name": "shop",
            "folder": str(folder / "state"),
            "trigger-interval": "200 milliseconds",
            **pipeline,
        },
    }


def write(folder: Path, port: int) -> Path:
    """The file of the pipeline."""
    path = folder / "pipeline.yaml"
    path.write_text(json.dumps(document(folder, port)))  # JSON is YAML
    return path


@contextmanager
def following(definition: dict[str, Any], watching: Callable[[RunNow], None] = lambda now: None) -> Iterator[None]:
    """Runs a pipeline in a thread."""
    over, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            EventPipeline.from_dict(definition).run(once=False, stopping=over.is_set, watching=watching)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    assert not thread.is_alive()
    assert errors == []


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def samples(port: int) -> dict[str, float]:
    """Name and labels of each series -> its value."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_status_shows_what_was_appended_and_what_is_left(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database.port)
    assert invoke("status", path).stdout == "shop has not run yet\n"
    before = json.loads(invoke("status", path, "--json").stdout)
    assert 0.5 * ROWS < before["lag"]["records"] < 2 * ROWS  # the server's estimate
    assert "run" not in before
    invoke("run", path, "--once")
    database.execute("INSERT INTO orders VALUES (0, 'late')", "shop")
    report = json.loads(invoke("status", path, "--json").stdout)
    assert report["counts"]["rows"] == ROWS
    assert report["counts"]["schema_changes"] > 0
    assert report["lag"]["bytes"] > 100
    assert (report["kind"], report["run"]["kind"], report["run"]["ended"], report["run"]["alive"]) == (
        "events", "events", True, False,
    )  # fmt: skip
    assert not {"cuts", "pending", "dead_letters", "held_by"} & report.keys()
    assert not {"pending_rows", "read_time"} & report["lag"].keys()
    text = invoke("status", path).stdout
    assert re.search(r"^binlog  0 +binlog 000001:\d+$", text, re.M)
    assert "run     none; the last was epoch 1 on " in text
    assert " behind, " in text
    assert " bytes to read" in text
    assert f"shop, epoch 1: {ROWS:,} rows appended" in text
    invoke("run", path, "--once")
    report = json.loads(invoke("status", path, "--json").stdout)
    assert report["lag"]["bytes"] == 0
    assert report["lag"]["seconds"] < 120
    assert report["epoch"] == 2


def test_a_run_that_goes_on_has_a_heartbeat_and_metrics(tmp_path: Path, database: Database) -> None:
    [port] = free_ports(1)
    definition = document(tmp_path, database.port, metrics=f"127.0.0.1:{port}")
    pipeline = EventPipeline.from_dict(definition)
    with following(definition):
        until(lambda: (run := pipeline.status().run) is not None and run.stage == "waiting for new records")
        seen = samples(port)
        assert seen['cdc_source_up{pipeline="shop"}'] == 1
        assert seen['cdc_behind_bytes{pipeline="shop"}'] == 0
        assert seen['cdc_rows_committed_total{pipeline="shop"}'] >= ROWS
        assert seen['cdc_commits_total{pipeline="shop",write="append"}'] > 0
        assert 0 <= seen['cdc_applied_lag_seconds{pipeline="shop"}'] < 600
        assert not any(name.startswith(("cdc_pending", "cdc_held", "cdc_holders", "cdc_dead_letters")) for name in seen)
        status = pipeline.status()
        assert status.run is not None
        assert (status.run.kind, status.run.epoch, status.lag.bytes) == ("events", 1, 0)
    status = pipeline.status()
    assert status.run is not None
    assert (status.run.ended, status.run.stage) == (True, "stopped")


def test_the_first_copy_has_a_total_and_a_time_left(tmp_path: Path, database: Database) -> None:
    definition = document(tmp_path, database.port)
    steps = list[EventProgress]()
    EventPipeline.from_dict(definition).run(progress=steps.append)
    copied = [step.lag.records for step in steps if step.position is None and step.rows]
    assert copied == sorted(copied, key=lambda left: -(left or 0))
    assert all(left is not None and left < 2 * ROWS for left in copied)
    assert steps[-1].lag.records is None
    assert steps[-1].lag.bytes == 0
    begun = list[EventProgress]()
    EventPipeline.from_dict(definition).run(begun=begun.append)
    assert [(at.rows, at.position) for at in begun] == [(steps[-1].rows, steps[-1].position)]


def test_a_server_that_is_gone_is_named_with_the_time(tmp_path: Path) -> None:
    with MariaDb() as server:
        server.execute("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        path = write(tmp_path, server.port)
        invoke("run", path, "--once")
    text = invoke("status", path).stdout
    assert f"source  127.0.0.1:{server.port}" in text
    report = json.loads(invoke("status", path, "--json", "--no-source").stdout)
    assert "source_error" not in report


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["stopped", "hanging"])
def test_a_run_waits_for_a_server_that_is_away_and_shows_since_when(tmp_path: Path, trouble: str) -> None:
    [port] = free_ports(1)
    with MariaDb() as server:
        server.execute("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(200))")
        options = {"metrics": f"127.0.0.1:{port}", "max-retries": 1, "retry-backoff": "1 second"}
        definition = document(tmp_path, server.port, **options)
        path = tmp_path / "pipeline.yaml"
        path.write_text(json.dumps(definition))
        pipeline, up = EventPipeline.from_dict(definition), 'cdc_source_up{pipeline="shop"}'
        with following(definition):
            until(lambda: (run := pipeline.status().run) is not None and run.stage == "waiting for new records")
            began = datetime.now(UTC)
            with getattr(server, trouble)():
                until(lambda: samples(port)[up] == 0)
                if trouble == "stopped":
                    until(lambda: samples(port)['cdc_retries_total{pipeline="shop"}'] > 1)
                since = f"source  the source has not answered since {began:%Y-%m-%d}"
                until(lambda: since in invoke("status", path, "--no-source").stdout)
            server.execute("INSERT INTO orders VALUES (1, 'later')", "shop")
            until(lambda: pipeline.status().rows == 1, seconds=120)
            until(lambda: samples(port)[up] == 1)


def test_explain_names_tables_and_where_a_run_begins(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database.port)
    text = invoke("explain", path).stdout
    assert re.search(r"^shop\.orders +id +2$", text, re.M)
    assert "begins     with a first copy of the tables" in text
    assert f"→ {tmp_path / 'events'}, as Debezium" in text
    invoke("run", path, "--once")
    plan = json.loads(invoke("explain", path, "--json").stdout)
    assert (plan["kind"], plan["begins"]) == ("events", "where the last run ended")
    assert plan["tables"] == [
        {"table": "shop.orders", "keys": ["id"], "columns": {"id": "int", "note": "varchar(200)"}}
    ]
    assert plan["lag"].endswith(" behind, 0 bytes to read")


def test_check_goes_through_source_sink_folder_and_ledger(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database.port)
    text = invoke("check", path).stdout
    assert "ok    definition  mysql → debezium-mysql → files" in text
    assert "ok    source      reachable, " in text
    assert "ok    ledger      none yet: the first run creates it" in text
    assert not list(tmp_path.glob("*/*"))
    invoke("run", path, "--once")
    report = json.loads(invoke("check", path, "--json").stdout)
    assert report["ok"]
    assert [check["name"] for check in report["checks"]] == ["definition", "source", "sink", "folder", "ledger", "lag"]
    assert ", up to binlog 000001:" in report["checks"][4]["message"]


def test_check_asks_the_source_once_what_is_left(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = write(tmp_path, database.port), list[str | None]()
    invoke("run", path, "--once")
    ask = MySqlTables.backlog

    def counting(source: MySqlTables, before: str | None) -> Backlog | None:
        asked.append(before)
        return ask(source, before)

    monkeypatch.setattr(MySqlTables, "backlog", counting)
    assert "ok    lag         " in invoke("check", path).stdout
    assert len(asked) == 1


def test_check_names_a_sink_that_cannot_be_written(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database.port)
    (tmp_path / "events").write_text("a file")
    done = invoke("check", path)
    assert done.return_value == 2
    assert f"fail  sink        {tmp_path / 'events'}: Not a directory" in done.stdout


def test_the_page_shows_a_pipeline_by_its_definition_and_by_its_folder(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database.port)
    invoke("run", path, "--once")
    for place in (path, tmp_path / "state"):
        with Site([str(place)]) as site:
            (shown,) = site.json("/overview.json")["pipelines"]
            assert (shown["kind"], shown["state"]) == ("events", "stopped")
            assert shown["counts"]["rows"] >= ROWS
            assert shown["position"].startswith("binlog 000001:")
            assert not {"cut", "pending", "dead_letters", "held_by"} & shown.keys()
            assert shown["lag"]["bytes"] == 0
            page = site.json(f"/pipelines/{shown['id']}.json")
            assert sum(step["applied"] or 0 for step in page["steps"]) <= shown["counts"]["rows"]
            assert not {"cut", "pending", "written"} & page["steps"][0].keys()
            for part in ("", "/tables", "/table?name=shop.orders", "/letters"):
                assert Outline(site.html(f"/pipelines/{shown['id']}{part}")).unclosed == []
            text = site.html(f"/pipelines/{shown['id']}")
            assert "Rows appended" in text
            assert "Cut" not in text
            assert "appends events" in site.html("/")


@pytest.mark.parametrize("part", ["events", "state"])
def test_a_full_disk_is_named_and_the_pipeline_goes_on_when_there_is_room(
    tmp_path: Path, database: Database, part: str
) -> None:
    full = tmp_path / part
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={'16k' if part == 'events' else '4k'}", "tmpfs", str(full)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk can be mounted by root alone")
    try:
        pipeline = EventPipeline.from_dict(document(tmp_path, database.port))
        with pytest.raises(ResourceError, match=rf"the disk is full \({re.escape(str(full))}: \S+ (bytes|kB) free\)"):
            pipeline.run()
        subprocess.run(["mount", "-o", "remount,size=100m", str(full)], check=True)
        pipeline.run()
        ids = [
            json.loads(record["key"])["id"]
            for batch in record_log.read(tmp_path / "events")
            for record in batch.to_pylist()
            if record["topic"] == "srv.shop.orders"
        ]
        assert set(range(1, ROWS + 1)) <= set(ids)
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)
