"""The section of an event sink of `type: kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from changefeed.sinks.section import EventSinkSection

if TYPE_CHECKING:
    from changefeed.sinks.kafka.topics import TopicCreation


class KafkaSink(EventSinkSection):
    """Topics of a Kafka cluster, written in transactions."""

    type: Literal["kafka"]
    servers: str = Field(description="Bootstrap servers, `host:port,…`.")
    topic: str = Field(
        description="The topic under which the last write id is kept; records go where the options of the protocol send them."
    )
    partitions: int | None = Field(
        default=None,
        alias="topic.creation.default.partitions",
        ge=-1,
        description="Number of partitions of topics that the sink creates; -1: the broker's default. Left out, together with the "
        "replication factor, no topic is created.",
    )
    replication_factor: int | None = Field(
        default=None,
        alias="topic.creation.default.replication.factor",
        ge=-1,
        description="Number of replicas of each partition of these topics; -1: the broker's default.",
    )
    properties: dict[str, str] = Field(
        default_factory=dict, description="Properties of librdkafka, such as `security.protocol` and `sasl.password`."
    )

    @model_validator(mode="after")
    def _agrees(self) -> KafkaSink:
        numbers = (self.partitions, self.replication_factor)
        if (self.partitions is None) != (self.replication_factor is None) or 0 in numbers:
            raise ValueError(
                "`topic.creation.default.partitions` and `topic.creation.default.replication.factor` go together, and each is -1 "
                "or a number from 1"
            )
        return self

    @property
    def creation(self) -> TopicCreation | None:
        """The form of topics that the sink creates; None if it creates none."""
        if self.partitions is None or self.replication_factor is None:
            return None
        from changefeed.sinks.kafka.topics import TopicCreation

        return TopicCreation(self.partitions, self.replication_factor)


SECTION = KafkaSink
