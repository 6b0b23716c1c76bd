"""A long backlog is applied in steps while it is read, although schema changes come in a topic of their own."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.pipeline.config.load import read as definition_of
from changefeed.pipeline.run import run
from changefeed.pipeline.state import State
from tests.examples import by_turns
from tests.pipeline.kit.debezium_recorded import Recorded, check
from tests.services.debezium import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", by_turns(["key", "transaction"], 2))
def test_topics(consistency: str, spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    """Schema changes are read first, and do not hold back the rows."""
    history = Recorded("mysql-streamed")
    prefix = f"b{uuid.uuid4().hex[:12]}"
    topics: dict[str, list[Any]] = {}
    for event in history.events:
        topics.setdefault(f"{prefix}.{event['topic']}", []).append((*kept(event), [], 0))
    for topic, records in topics.items():
        kafka.create_topic(topic)
        kafka.produce(topic, records)
    limit = 36  # the schema changes, and the topics with fewer records
    source = {"type": "kafka", "servers": kafka.bootstrap, "topics": sorted(topics), "protocol": "debezium-mysql"}
    pipe = definition_of(
        {
            "source": source | {"max-records-per-batch": limit},
            "sink": {"type": "delta", "path": str(tmp_path / "lake")},
            "pipeline": {"name": "backlog", "consistency": consistency, "keyless": "inserts"},
        }
    )
    states: list[State] = []
    run(pipe, spark, once=True, progress=lambda state, _: states.append(state))
    check(pipe, history)
    in_steps(states)
    first = states[0].positions
    assert first[f"{prefix}.srv"][0] == len(topics[f"{prefix}.srv"])


def kept(event: Event) -> tuple[bytes | None, bytes | None]:
    """Key and value."""
    key, value = event["key"], event["value"]
    return (None if key is None else key.encode()), (None if value is None else value.encode())


def in_steps(states: list[State]) -> None:
    """Asserts that a third of the rows was applied before the last record was read."""
    last = states[-1].counts
    before = [state.counts.applied for state in states if state.counts.records < last.records]
    assert max(before) > last.applied // 3, (before, last)
