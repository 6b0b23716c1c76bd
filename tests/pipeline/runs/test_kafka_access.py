"""A broker that refuses a password or a right: exit code 2, whichever client asks or reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from changefeed.cli.failure import exit_code
from changefeed.errors import AccessError, ConfigError
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.operations.explain import explain
from changefeed.pipeline.run import run
from changefeed.sources import record_source
from tests.pipeline.kit.open_records import mark, row
from tests.services.kafka import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.pipeline.config.definition import Definition

WAY_OUT = "Correct the credentials in the source section, or give this user the rights"
# With a property that librdkafka does not have in this form, Spark's connector reads.
JAVA: dict[str, str] = {"kafka.client.id": "java"}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(users={"reader": "secret", "stranger": "secret"}) as broker:
        for topic in ("open", "described"):
            broker.create_topic(topic)
            broker.produce(topic, [row(10, 1), *mark(11)])
        broker.allow("reader", "described", AclOperation.DESCRIBE)
        yield broker


def definition(broker: KafkaBroker, lake: Path, topic: str, password: str = "secret", **more: str) -> Definition:
    login = broker.login("reader", password)
    kafka: dict[str, Any] = {"type": "kafka", "servers": broker.bootstrap, "topics": [topic], "protocol": "ticdc-open"}
    sink = {"type": "delta", "path": str(lake)}
    return read({"source": {**kafka, **login, **more}, "sink": sink, "pipeline": {"name": "access"}})


@pytest.mark.heavy
@pytest.mark.parametrize("more", [{}, JAVA], ids=["librdkafka", "java"])
def test_who_has_the_password_and_the_rights_reads(
    broker: KafkaBroker, spark: SparkSession, tmp_path: Path, more: dict[str, str]
) -> None:
    pipeline = definition(broker, tmp_path / "lake", "open", **more)
    assert [one.message for one in checks(pipeline) if one.name == "source"] == ["reachable; 2 records read"]
    assert run(pipeline, spark, once=True).state.barrier == 11


@pytest.mark.heavy
@pytest.mark.parametrize("more", [{}, JAVA], ids=["librdkafka", "java"])
def test_a_wrong_password(broker: KafkaBroker, spark: SparkSession, tmp_path: Path, more: dict[str, str]) -> None:
    pipeline = definition(broker, tmp_path / "lake", "open", "wrong", **more)
    assert record_source(pipeline.source).unreachable() is None, "waiting would not help"
    [checked] = [one for one in checks(pipeline) if one.name == "source"]
    assert checked.status == "fail"
    assert checked.message.startswith(f"{broker.bootstrap} refuses this user: ")
    with pytest.raises(AccessError) as explained:
        explain(pipeline)
    with pytest.raises(AccessError) as error:
        run(pipeline, spark, once=True)
    for message in (checked.message, str(explained.value), str(error.value)):
        assert "Invalid username or password" in message
        assert message.endswith(WAY_OUT)
        assert "wrong" not in message
    assert exit_code(error.value) == exit_code(explained.value) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("more", [{}, JAVA], ids=["librdkafka", "java"])
def test_a_topic_that_the_user_sees_and_may_not_read(
    broker: KafkaBroker, spark: SparkSession, tmp_path: Path, more: dict[str, str]
) -> None:
    pipeline = definition(broker, tmp_path / "lake", "described", **more)
    [checked] = [one for one in checks(pipeline) if one.name == "source"]
    with pytest.raises(AccessError) as error:
        run(pipeline, spark, once=True)
    assert checked.status == "fail"
    for message in (checked.message, str(error.value)):
        assert "described" in message or "Topic authorization failed" in message
        assert message.endswith(WAY_OUT)
    assert exit_code(error.value) == 2


@pytest.mark.heavy
def test_a_topic_that_the_user_does_not_see(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    broker.create_topic("hidden")
    broker.allow("stranger", "hidden", AclOperation.READ)
    pipeline = definition(broker, tmp_path / "lake", "hidden")
    [checked] = [one for one in checks(pipeline) if one.name == "source"]
    assert (checked.status, checked.message) == (
        "fail",
        f"no topic hidden at {broker.bootstrap}: create it first, correct the source section, or let this user see it",
    )
    with pytest.raises(ConfigError) as error:
        run(pipeline, spark, once=True)
    assert str(error.value) == checked.message
    assert exit_code(error.value) == 2
