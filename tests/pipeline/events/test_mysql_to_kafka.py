"""An event pipeline from a live server to the topics of a live broker."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from changefeed.api.events import EventPipeline
from changefeed.errors import ConfigError
from tests.services.database import MariaDb
from tests.services.kafka import KafkaBroker
from tests.sinks.event_harnesses import read_partition


@pytest.mark.nightly
def test_events_are_in_the_topics_of_their_tables_once(tmp_path: Path, kafka: KafkaBroker) -> None:
    prefix = f"srv-{uuid.uuid4().hex[:8]}"
    with MariaDb() as database:
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY); INSERT INTO shop.orders VALUES (1)"
        )
        source = {
            "type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz", "tables": ["shop.*"],
        }  # fmt: skip
        protocol = {"name": "debezium-mysql", "connector": "mariadb", "topic.prefix": prefix, "schemas.enable": False}
        sink = {"type": "kafka", "servers": kafka.bootstrap, "topic": prefix, "protocol": protocol}
        pipeline = EventPipeline.from_dict(
            {"source": source, "sink": sink, "pipeline": {"folder": str(tmp_path / "state"), "max-retries": 0}}
        )
        kafka.create_topic(prefix)
        with pytest.raises(ConfigError, match=rf"no topic {prefix}\.shop\.orders"):
            pipeline.run()
        kafka.create_topic(f"{prefix}.shop.orders")
        pipeline.run()
        database.execute("INSERT INTO orders VALUES (2); DELETE FROM orders WHERE id = 1", "shop")
        pipeline.run()
        pipeline.run()
    rows = read_partition(kafka.bootstrap, f"{prefix}.shop.orders", 0)
    written = [(json.loads(row["key"])["id"], row["value"] and json.loads(row["value"])["op"]) for row in rows]
    assert written == [(1, "r"), (2, "c"), (1, "d"), (1, None)]
