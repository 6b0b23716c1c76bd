"""The section of an event sink of `type: kafka`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from changefeed.sinks.section import EventSinkSection


class KafkaSink(EventSinkSection):
    """Topics of a Kafka cluster, written in transactions."""

    type: Literal["kafka"]
    servers: str = Field(description="Bootstrap servers, `host:port,…`.")
    topic: str = Field(
        description="The topic under which the last write id is kept; records go where the options of the protocol send them."
    )
    properties: dict[str, str] = Field(
        default_factory=dict, description="Properties of librdkafka, such as `security.protocol` and `sasl.password`."
    )


SECTION = KafkaSink
