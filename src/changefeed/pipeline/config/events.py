"""The definition of an event pipeline: of one whose sink is an event sink.

source: {type: mysql, …}
sink: {type: kafka, …, protocol: {name: debezium-mysql, topic.prefix: shop}}
pipeline: {name: shop, folder: state}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field, field_validator

from changefeed.pipeline.config.definition import (
    AnySource,
    Definition,
    Interval,
    MetricsAddress,
    MetricsCollector,
    Own,
    PipelineName,
    RetryBackoff,
    one_of,
    or_own,
)
from changefeed.section import Section, readable_path
from changefeed.sinks import event_sink_sections
from changefeed.storage.section import StorageSection

if TYPE_CHECKING:
    from changefeed.sinks.section import EventSinkSection


class EventBehaviour(Section):
    """The section `pipeline` of an event pipeline."""

    name: PipelineName = "changefeed"
    folder: str = Field(
        description="Folder of the pipeline's own files, its ledger: a path, or a URL of an object store. Every pipeline needs "
        "a folder of its own."
    )
    trigger_interval: Interval = Field(
        default="1 second", description="Interval between reads of the source: `1 second`, `500 milliseconds`."
    )
    heartbeat_interval: Interval | None = Field(
        default=None, description="Interval between heartbeats, as `10 seconds`. Without it, none are sent."
    )
    max_retries: int = Field(
        default=5,
        ge=0,
        description="Maximum number of retries without a completed step in between, after transient errors. A run that follows "
        "its source does not end while that is away.",
    )
    retry_backoff: RetryBackoff = "1 second"

    metrics: MetricsAddress = None
    metrics_otlp: MetricsCollector = None

    @field_validator("folder")
    @classmethod
    def _readable(cls, value: str) -> str:
        return readable_path(value)


if TYPE_CHECKING:
    AnyEventSink: TypeAlias = EventSinkSection
else:
    _SINKS = one_of(event_sink_sections().values())
    AnyEventSink = Annotated[_SINKS, or_own("event sink", _SINKS | Own)]


class EventDefinition(Section):
    """The whole definition of an event pipeline."""

    source: AnySource
    sink: AnyEventSink
    pipeline: EventBehaviour
    storage: StorageSection = Field(default_factory=StorageSection)


AnyDefinition: TypeAlias = Definition | EventDefinition
"""The definition of a pipeline into tables, or of an event pipeline."""


def spark_of(definition: AnyDefinition) -> dict[str, str]:
    """Returns the properties of Spark in a definition; an event pipeline has none."""
    return definition.spark if isinstance(definition, Definition) else {}
