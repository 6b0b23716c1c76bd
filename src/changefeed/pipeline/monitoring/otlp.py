"""The metrics of a run sent to a collector of OpenTelemetry over HTTP: `pipeline.metrics-otlp`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from changefeed.errors import MissingExtraError
from changefeed.pipeline.config.events import AnyDefinition
from changefeed.pipeline.monitoring.metrics import Metric, metrics_of, sight_of
from changefeed.pipeline.monitoring.view import RunView

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_INTERVAL = 15_000  # milliseconds between two sends
_TIMEOUT = 5_000  # milliseconds: of a send, and of the last one at the end of a run


@contextmanager
def sent(definition: AnyDefinition, view: RunView) -> Iterator[None]:
    """Sends the metrics to `pipeline.metrics-otlp` every 15 seconds, and at the end; does nothing if no URL is set.

    A collector that does not answer is logged by OpenTelemetry, and ends nothing.

    Raises:
        MissingExtraError: the OpenTelemetry packages are not installed.
    """
    url = definition.pipeline.metrics_otlp
    if url is None:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise MissingExtraError("pipeline.metrics-otlp", "otlp") from error

    exporter = OTLPMetricExporter(endpoint=f"{url.rstrip('/')}/v1/metrics", timeout=_TIMEOUT / 1000)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=_INTERVAL)
    resource = Resource.create({"service.name": "changefeed", "service.version": view.now().version})
    provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    meter = provider.get_meter("changefeed")
    for metric in metrics_of(definition):
        make: Any = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        make(metric.name, [_callback(definition, view, metric)], description=metric.help)
    try:
        yield
    finally:
        provider.shutdown(timeout_millis=_TIMEOUT)


def _callback(
    definition: AnyDefinition, view: RunView, metric: Metric
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """The function that gives the series of a metric when they are sent."""
    from opentelemetry.metrics import Observation

    def observe(_: CallbackOptions) -> Iterable[Observation]:
        names = ("pipeline", *metric.labels)
        for labels, value in metric.values(sight_of(definition, view)):
            yield Observation(value, dict(zip(names, (definition.pipeline.name, *labels), strict=True)))

    return observe
