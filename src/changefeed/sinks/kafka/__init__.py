"""Kafka topics as an event sink; see `events.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from changefeed.protocols.base import Encoder
    from changefeed.sinks.kafka.events import KafkaEvents


def open_events(definition: Any, encoder: Callable[[], Encoder]) -> KafkaEvents:
    """Opens the event sink that a `type: kafka` section describes."""
    from changefeed.protocols import protocol
    from changefeed.sinks.kafka.events import KafkaEvents

    chosen = protocol(definition.protocol.name)
    topics = (
        None if chosen.fixed_topics is None else chosen.fixed_topics(chosen.read_options(definition.protocol.options))
    )
    return KafkaEvents(
        definition.servers,
        definition.topic,
        encoder,
        definition.properties,
        fixed_topics=topics,
        creation=definition.creation,
    )
