"""The metrics of a run: their values, their names, and the ways to Prometheus and to a collector of OpenTelemetry."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from changefeed.errors import ConfigError
from changefeed.pipeline.config.load import read
from changefeed.pipeline.monitoring.metrics import BY_TABLE, METRICS
from changefeed.pipeline.monitoring.otlp import sent
from changefeed.pipeline.monitoring.prometheus import served
from changefeed.pipeline.monitoring.view import RunView
from changefeed.pipeline.state import Counts, FolderSum, Hold, State
from changefeed.sources import Backlog
from changefeed.sources.kafka.source_offset import SourceOffset
from changefeed.telemetry import observed, passed
from changefeed.ticdc import tso

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TS = tso.at(int(NOON.timestamp() * 1000))
SECOND = 1000 << 18

Series = dict[tuple[tuple[str, str], ...], float]


def _definition(protocol: str = "ticdc-open", **pipeline: Any) -> Any:
    source = {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"], "protocol": protocol}
    options = {"name": "p", "metrics": "127.0.0.1:0", **{name.replace("_", "-"): of for name, of in pipeline.items()}}
    return read({"source": source, "sink": {"type": "delta", "path": "lake"}, "pipeline": options})


def _scraped(definition: Any, view: RunView) -> dict[str, Series]:
    """The samples that Prometheus reads: name -> labels without `pipeline` -> value."""
    with served(definition, view) as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    samples: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("pipeline") == "p"
            samples.setdefault(sample.name, {})[tuple(sorted(labels.items()))] = sample.value
    return samples


def _of_a_busy_run() -> RunView:
    """Partition 0 has been silent for five seconds, partition 1 is ahead; a table is in quarantine."""
    view = RunView("p", 5.0, lambda: NOON + timedelta(seconds=10))
    before = State(counts=Counts(records=100))
    after = State(
        barrier=TS + 5 * SECOND,
        resolved={"shop": {0: TS + 5 * SECOND, 1: TS + 9 * SECOND}},
        latest={"shop": {0: TS + 5 * SECOND, 1: TS + 9 * SECOND}},
        positions={"shop": {0: 7, 1: 9}},
        source=SourceOffset({"shop": {"0": 7, "1": 9}}).text(),
        counts=Counts(records=160, rows=50, applied=40, repeated=3, schema_changes=2, dead=1),
        sums={"1-1": FolderSum(1, 4096, "x")},
        held={"shop.orders": Hold(TS)},
    )
    with observed(view):
        passed("run.begun", epoch=4, state=before)
        passed("read.after", backlog=Backlog(25, {("shop", 0): 20, ("shop", 1): 5}))
        passed("batch.read", records=160)
        passed("planned", tables=1, schema_changes=Counter({"create_table": 2}))
        passed("letters.after", reasons=Counter({"json": 1}))
        passed("upsert.after", write="upsert", files=3, bytes=900)
        passed("done.after")
        passed("step", state=after)
        passed("retry", error=OSError("gone"))
    return view


def test_the_values_of_a_busy_run() -> None:
    samples = _scraped(_definition(metrics_by_table=True), _of_a_busy_run())
    values = {name: series[()] for name, series in samples.items() if () in series}
    wanted = {
        "cdc_source_up": 1, "cdc_applied_lag_seconds": 5, "cdc_resolved_lag_seconds": 5, "cdc_read_lag_seconds": 4,
        "cdc_behind_records": 25, "cdc_pending_rows": 7, "cdc_pending_bytes": 4096, "cdc_waiting_dead_letters": 1,
        "cdc_records_read_total": 160, "cdc_rows_read_total": 50, "cdc_rows_committed_total": 40,
        "cdc_rows_repeated_total": 3, "cdc_steps_total": 1, "cdc_data_files_total": 3, "cdc_data_bytes_total": 900,
        "cdc_retries_total": 1, "cdc_held_seconds": 0, "cdc_tables": 0,
    }  # fmt: skip
    assert {name: values[name] for name in wanted} == wanted
    assert values["cdc_memory_bytes"] > 10_000_000
    assert samples["cdc_commits_total"] == {(("write", "upsert"),): 1}
    assert samples["cdc_schema_changes_total"] == {(("kind", "create_table"),): 2}
    assert samples["cdc_dead_letters_total"] == {(("reason", "json"),): 1}
    assert samples["cdc_holders"] == {
        (("kind", "partition"),): 1, (("kind", "table"),): 1, (("kind", "transaction"),): 0,
    }  # fmt: skip
    assert samples["cdc_topic_behind_records"] == {(("topic", "shop"),): 25}
    assert samples["cdc_table_held"] == {(("table", "shop.orders"),): 1}
    assert (
        samples["cdc_partition_resolved_timestamp_seconds"][("partition", "0"), ("topic", "shop")]
        == NOON.timestamp() + 5
    )
    assert {labels[0][1] for labels in samples["cdc_stage_seconds_total"]} >= {"read", "decode_stage", "idle"}


def test_what_is_not_known_has_no_series() -> None:
    samples = _scraped(_definition(metrics_by_table=True), RunView("p", 5.0))
    absent = {
        "cdc_source_up", "cdc_applied_lag_seconds", "cdc_resolved_lag_seconds", "cdc_read_lag_seconds", "cdc_behind_records",
        "cdc_commits_total", "cdc_topic_behind_records", "cdc_table_applied_lag_seconds",
    }  # fmt: skip
    assert not absent & samples.keys()
    assert samples["cdc_pending_rows"] == {(): 0}


def test_places_in_a_binlog_are_not_taken_for_times() -> None:
    view = RunView("p", 5.0, lambda: NOON)
    state = State(
        barrier=TS, resolved={"a": {0: TS}}, positions={"a": {0: 1}}, time=int(NOON.timestamp() * 1000) - 3000
    )
    with observed(view):
        passed("run.begun", epoch=1, state=state)
    samples = _scraped(_definition("debezium-mysql"), view)
    assert samples["cdc_applied_lag_seconds"] == {(): 3}
    assert "cdc_resolved_lag_seconds" not in samples


def test_series_of_topics_and_tables_are_there_if_they_are_wanted() -> None:
    assert _scraped(_definition(), _of_a_busy_run()).keys() <= {metric.shown for metric in METRICS}
    assert not {metric.name for metric in METRICS} & {metric.name for metric in BY_TABLE}


def test_names_have_a_noun_and_a_unit_and_help_is_a_sentence() -> None:
    for metric in METRICS + BY_TABLE:
        assert re.fullmatch(r"cdc(_[a-z]+)+", metric.name)
        assert metric.help.endswith(".")
        assert not metric.name.endswith("_total")


def test_an_address_that_is_taken_names_the_way_out() -> None:
    with served(_definition(), RunView("p", 5.0)) as port:
        address = f"127.0.0.1:{port}"
        taken = served(_definition(metrics=address), RunView("p", 5.0))
        with pytest.raises(ConfigError, match=f"pipeline.metrics: {address} cannot be used: .*Set another port"):
            taken.__enter__()
    with served(_definition(metrics=address), RunView("p", 5.0)) as again:
        assert again == port


@pytest.mark.parametrize("value", ["9464", ":9464", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"])
def test_an_address_is_host_and_port(value: str) -> None:
    with pytest.raises(ConfigError, match=r"expected host:port, such as `127\.0\.0\.1:9464`"):
        _definition(metrics=value)


@contextmanager
def _collector(code: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    """A server that keeps what is sent to it."""
    bodies = list[bytes]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/metrics"
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(code)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_the_same_values() -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    with _collector() as (url, bodies):
        with sent(_definition(metrics_otlp=url), _of_a_busy_run()):
            pass
        request = ExportMetricsServiceRequest.FromString(bodies[-1])
    [resource] = request.resource_metrics
    assert {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"] == "changefeed"
    points: dict[tuple[str, ...], float] = {}
    for metric in resource.scope_metrics[0].metrics:
        for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
            labels = {a.key: a.value.string_value for a in point.attributes}
            assert labels.pop("pipeline") == "p"
            points[metric.name, *labels.values()] = point.as_double or point.as_int
    assert points["cdc_behind_records",] == 25
    assert points["cdc_rows_committed",] == 40
    assert points["cdc_commits", "upsert"] == 1


def test_a_collector_that_is_gone_ends_nothing() -> None:
    with _collector() as (url, _):
        pass
    with sent(_definition(metrics_otlp=url), _of_a_busy_run()):
        pass
