"""An operator's bad night, on real servers: `run`, `status`, metrics and alerts name each trouble, and no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from changefeed import record_log
from changefeed.ticdc import tso
from tests.deploy.files import RULES
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.record_runs import field_records
from tests.services.database import needed
from tests.services.kafka import KafkaBroker
from tests.services.processes import free_ports
from tests.services.prometheus import Prometheus

CREATE = "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`total` DECIMAL(10,2),PRIMARY KEY(`id`))"


def _impatient(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules with seconds in the place of minutes."""
    [group] = rules["groups"]
    for rule in group["rules"]:
        if "for" in rule:
            rule["for"] = "2s"
        rule["expr"] = rule["expr"].replace("cdc_held_seconds > 300", "cdc_held_seconds > 8")
    return rules


class Upstream:
    """A changefeed of TiCDC with two partitions, whose commits are now."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.broker, self.folder, self.topic = broker, folder, f"app-{uuid.uuid4().hex}"
        self.history, self._sent = HistoryBuilder(), 0
        broker.create_topic(self.topic, partitions=2)

    def send(self, *ids: int, marks: tuple[int, ...] = (0, 1), ddl: str | None = None) -> None:
        """One transaction with these orders, and a resolved event in some partitions."""
        self.history.ts = max(self.history.ts, tso.at(int(time.time() * 1000)))
        if ddl is not None:
            self.history.schema("app", "orders", ddl)
        self.history.rows(*(("orders", None, {"id": number, "total": "1.50"}) for number in ids))
        self.history.resolved(*marks)
        log = self.history.write(self.folder / "sent.jsonl")
        rows = [row for batch in record_log.read(log) for row in batch.to_pylist()]
        self.broker.produce(self.topic, [(r["key"], r["value"], [], r["partition"]) for r in rows[self._sent :]])
        self._sent = len(rows)

    def send_broken(self) -> None:
        """An order whose value is not JSON."""
        self.history.ts += 1 << 18
        key = json.dumps({"ts": self.history.ts, "scm": "app", "tbl": "orders", "t": 1}).encode()
        batch = (1).to_bytes(8) + len(key).to_bytes(8) + key
        self.broker.produce(self.topic, [(batch, (3).to_bytes(8) + b"{u}", [], 0)])


class Night:
    """A run in a process of its own, and its output."""

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker,
        topics: list[str],
        port: int,
        *,
        protocol: str = "ticdc-open",
        lake: Path | None = None,
    ) -> None:
        self.file = folder / "pipeline.yaml"
        source = {"type": "kafka", "servers": broker.bootstrap, "topics": topics, "protocol": protocol}
        pipeline = {
            "name": "night",
            "dead-letters": "quarantine",
            "folder": str(folder / "home"),
            "metrics": f"127.0.0.1:{port}",
        }
        sink = {"type": "delta", "path": str(lake or folder / "lake")}
        sections = {"source": source, "sink": sink, "pipeline": pipeline}
        self.file.write_text(json.dumps({**sections, "spark": {"spark.driver.memory": "1g"}}))  # JSON is YAML
        self.lines = list[str]()

    @contextmanager
    def on(self, ends_with: int = 143) -> Iterator[None]:
        """Runs the pipeline, and stops it; with another exit code than that of a stop, it must end by itself."""
        command = [sys.executable, "-m", "changefeed.cli", "run", str(self.file)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        reader = threading.Thread(target=lambda: self.lines.extend(process.stderr or []), daemon=True)
        reader.start()
        try:
            yield
            if ends_with == 143:
                assert process.poll() is None, "".join(self.lines)
            else:
                _until(lambda: process.poll() is not None, lambda: "".join(self.lines))
        finally:
            process.terminate()
            try:
                code = process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            reader.join(timeout=30)
            process.stderr.close()
        assert code == ends_with, "".join(self.lines)

    def status(self) -> dict[str, Any]:
        """The JSON of `changefeed status`."""
        report: dict[str, Any] = json.loads(self._status("--json", "--cuts", "1"))
        return report

    def status_text(self) -> str:
        """The output of `changefeed status` for people."""
        return self._status()

    def _status(self, *options: str) -> str:
        command = [sys.executable, "-m", "changefeed.cli", "status", str(self.file), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Watch:
    """The metrics and the alerts of a night."""

    def __init__(self, prometheus: Prometheus, night: Night) -> None:
        self._prometheus, self._night = prometheus, night

    def value(self, metric: str) -> float | None:
        """The newest value of a metric; None if there is none."""
        series = self._prometheus.query(metric)
        return float(series[0]["value"][1]) if series else None

    def fires(self, *names: str) -> None:
        """Waits until these alerts fire, and no other."""
        firing = self._prometheus.firing
        _until(lambda: firing() == {*names}, lambda: (firing(), self._night.status_text(), self._night.lines))


def _until(condition: Callable[[], bool], otherwise: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.5)


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_each_trouble_is_named_and_no_other(tmp_path: Path) -> None:
    needed("prometheus", "prometheus")
    [port] = free_ports(1)
    rules = _impatient(yaml.safe_load(RULES.read_text()))
    with KafkaBroker() as broker, Prometheus([f"127.0.0.1:{port}"], rules) as prometheus:
        upstream = Upstream(broker, tmp_path)
        upstream.send(1, 2, ddl=CREATE)
        night = Night(tmp_path, broker, [upstream.topic], port)

        watch = Watch(prometheus, night)
        value, fires = watch.value, watch.fires

        with night.on():
            # all is well
            _until(lambda: value("cdc_rows_committed_total") == 2, lambda: "".join(night.lines))
            fires()
            report = night.status()
            assert report["run"]["alive"]
            assert (report["held_by"], report["lag"]["records"]) == ([], 0)
            assert report["lag"]["seconds"] < 120

            # partition 0 falls silent, while partition 1 goes on
            upstream.send(3, 4, marks=(1,))
            fires("ChangefeedCutHeld")
            report = night.status()
            assert [holder["name"] for holder in report["held_by"]] == [f"{upstream.topic}:0"]
            assert report["held_since"] > report["run"]["started"]
            assert f"held by {upstream.topic}:0 (no resolved event after " in night.status_text()
            upstream.send(5)
            fires()
            assert value("cdc_rows_committed_total") == 5

            # the broker dies
            broker.kill()
            fires("ChangefeedSourceDown")
            assert any("the source has not answered since " in line for line in night.lines)
            assert "does not answer" in night.status()["source_error"]
            assert value("cdc_applied_lag_seconds") is not None
            broker.restart()
            _until(
                lambda: any("the source answers again" in line for line in night.lines), lambda: "".join(night.lines)
            )
            upstream.send(6)
            _until(lambda: value("cdc_rows_committed_total") == 6, lambda: "".join(night.lines))
            fires()

            # a record of the table cannot be decoded
            upstream.send_broken()
            upstream.send(7)
            fires("ChangefeedTableHeld", "ChangefeedDeadLetters")
            assert [(h["kind"], h["name"]) for h in night.status()["held_by"]] == [("table", "app.orders")]

        report = night.status()
        assert (report["run"]["alive"], report["run"]["stage"]) == (False, "stopped")
        assert "run     none; the last was epoch" in night.status_text()


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_a_run_that_was_killed_differs_from_one_that_has_stopped(tmp_path: Path, kafka: KafkaBroker) -> None:
    upstream = Upstream(kafka, tmp_path)
    upstream.send(1, 2, ddl=CREATE)
    night = Night(tmp_path, kafka, [upstream.topic], free_ports(1)[0])
    command = [sys.executable, "-m", "changefeed.cli", "run", str(night.file)]
    with (tmp_path / "err").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        _until(lambda: night.status().get("run", {}).get("steps", 0) > 0, lambda: (tmp_path / "err").read_text())
    finally:
        process.kill()
        process.wait()
    _until(lambda: not night.status()["run"]["alive"], night.status_text)
    assert ": killed" in night.status_text()


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_a_transaction_that_is_never_closed(tmp_path: Path) -> None:
    """Debezium has sent half of a transaction, and everything after it waits."""
    needed("prometheus", "prometheus")
    [port] = free_ports(1)
    records = field_records("debezium-transaction-with-a-filtered-row")
    begun, rest = records[:7], records[7:]  # the first row of transaction 3 is the last
    missing = {**begun[-1], "key": b'{"id":13}', "value": begun[-1]["value"].replace(b'"id":3,', b'"id":13,')}
    for place in (b'"total_order":', b'"data_collection_order":'):
        missing["value"] = missing["value"].replace(place + b"1", place + b"2")
    missing["value"] = missing["value"].replace(b'"row":0', b'"row":1')
    rules = _impatient(yaml.safe_load(RULES.read_text()))
    with KafkaBroker() as broker, Prometheus([f"127.0.0.1:{port}"], rules) as prometheus:
        topics = sorted({record["topic"] for record in records})

        def send(some: list[dict[str, Any]]) -> None:
            for topic in topics:
                broker.produce(topic, [(r["key"], r["value"], [], 0) for r in some if r["topic"] == topic])

        for topic in topics:
            broker.create_topic(topic)
        send(begun)
        night = Night(tmp_path, broker, topics, port, protocol="debezium-mysql")
        watch = Watch(prometheus, night)
        with night.on():
            watch.fires("ChangefeedCutHeld")
            assert watch.value("cdc_rows_committed_total") == 2
            report = night.status()
            assert [(holder["kind"], holder["name"]) for holder in report["held_by"]] == [
                ("transaction", "11111111-2222-3333-4444-555555555555:3")
            ]
            assert "held by 11111111-2222-3333-4444-555555555555:3 (" in night.status_text()
            send([missing, *rest])
            _until(lambda: watch.value("cdc_rows_committed_total") == 6, lambda: "".join(night.lines))
            watch.fires()
            assert night.status()["held_by"] == []


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    needed("prometheus", "prometheus")
    lake = tmp_path / "lake"
    lake.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(lake)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk can be mounted by root alone")
    [port] = free_ports(1)
    rules = _impatient(yaml.safe_load(RULES.read_text()))
    try:
        with KafkaBroker() as broker, Prometheus([f"127.0.0.1:{port}"], rules) as prometheus:
            upstream = Upstream(broker, tmp_path)
            upstream.send(1, 2, ddl=CREATE)
            night = Night(tmp_path, broker, [upstream.topic], port, lake=lake)
            watch = Watch(prometheus, night)
            with night.on(ends_with=1):
                _until(lambda: watch.value("cdc_rows_committed_total") == 2, lambda: "".join(night.lines))
                with suppress(OSError), (lake / "other").open("wb", buffering=0) as other:
                    while other.write(bytes(4096)):
                        pass
                upstream.send(3)
            watch.fires("ChangefeedDown")
            assert any(f"error: the disk is full ({lake}" in line for line in night.lines)
            assert not night.status()["run"]["alive"]
            assert f"the disk is full ({lake}" in night.status_text()
            (lake / "other").unlink()
            with night.on():
                _until(lambda: any(line.startswith("3 rows applied, 0 ") for line in night.lines), night.status_text)
                watch.fires()
    finally:
        subprocess.run(["umount", "-l", str(lake)], check=True)
