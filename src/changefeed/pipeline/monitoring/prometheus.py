"""The metrics of a run as Prometheus reads them, at an address of one's own: `pipeline.metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.pipeline.config.events import AnyDefinition
from changefeed.pipeline.monitoring.metrics import metrics_of, sight_of
from changefeed.pipeline.monitoring.view import RunView


@contextmanager
def served(definition: AnyDefinition, view: RunView) -> Iterator[int | None]:
    """Serves the metrics at `pipeline.metrics` as long as this lasts; yields the port, None if no address is set.

    Raises:
        ConfigError: the address cannot be used.
        MissingExtraError: `prometheus-client` is not installed.
    """
    address = definition.pipeline.metrics
    if address is None:
        yield None
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
        from prometheus_client.registry import Collector
    except ImportError as error:
        raise MissingExtraError("The endpoint pipeline.metrics", "metrics") from error

    shown, pipeline = metrics_of(definition), definition.pipeline.name

    class Run(Collector):
        """Makes the values when they are asked for."""

        def collect(self) -> Iterator[Metric]:
            sight = sight_of(definition, view)
            for metric in shown:
                family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                series = family(metric.name, metric.help, labels=("pipeline", *metric.labels))
                for labels, value in metric.values(sight):
                    series.add_metric((pipeline, *labels), value)
                yield series

        def describe(self) -> Iterator[Metric]:
            yield from ()

    registry = CollectorRegistry()
    registry.register(Run())
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise ConfigError(
            f"pipeline.metrics: {address} cannot be used: {error}. Set another port; or host and port 0 for any that is free"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
