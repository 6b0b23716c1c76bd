"""Kafka topics, to which records are appended.

See `events.py`.
"""

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
    from changefeed.ticdc.dispatch.options import Dispatching

    chosen = protocol(definition.protocol.name)
    options = chosen.read_options(definition.protocol.options)
    fixed_topics = None if chosen.fixed_topics is None else chosen.fixed_topics(options)
    dispatched = options.named_topics if isinstance(options, Dispatching) else frozenset()
    return KafkaEvents(
        definition.servers,
        definition.topic,
        encoder,
        definition.properties,
        fixed_topics=fixed_topics,
        creation=definition.creation,
        named_topics=dispatched | (fixed_topics or frozenset()),
    )
