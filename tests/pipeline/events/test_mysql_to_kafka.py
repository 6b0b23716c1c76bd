"""An event pipeline from a live server to the topics of a live broker."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from changefeed import telemetry
from changefeed.api.events import EventPipeline
from changefeed.errors import ConfigError
from tests.pipeline.events.stopping import StopError, stop_at
from tests.services.database import Database, MariaDb, MySql
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


def murmur2(data: bytes) -> int:
    """The hash of Kafka's `Utils.murmur2`, as an unsigned number of 32 bits."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        part = int.from_bytes(data[start : start + 4], "little") * factor & mask
        part = (part ^ part >> 24) * factor & mask
        hashed = (hashed * factor & mask) ^ part
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * factor & mask
    hashed = (hashed ^ hashed >> 13) * factor & mask
    return hashed ^ hashed >> 15


def test_the_hash_of_these_tests_is_kafkas() -> None:
    """The values are those of Kafka's own `UtilsTest`."""
    cases = {
        "21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        "abc": 479470107,
    }  # fmt: skip
    assert {text: murmur2(text.encode()) for text in cases} == {text: n % 2**32 for text, n in cases.items()}


def pipeline_to(kafka: KafkaBroker, database: Database, prefix: str, folder: Path, **more: Any) -> EventPipeline:
    """A pipeline of all tables of `shop` to the topics of a prefix, with further options of the sink."""
    protocol = {
        "name": "debezium-mysql", "connector": database.connector, "topic.prefix": prefix, "schemas.enable": False,
    }  # fmt: skip
    source = {
        "type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz", "tables": ["shop.*"],
        "max-bytes-per-batch": 1,
    }  # fmt: skip
    sink = {"type": "kafka", "servers": kafka.bootstrap, "topic": prefix, "protocol": protocol, **more}
    return EventPipeline.from_dict(
        {"source": source, "sink": sink, "pipeline": {"folder": str(folder / "state"), "max-retries": 0}}
    )


@pytest.mark.nightly
@pytest.mark.parametrize("server", [MariaDb, MySql], ids=["mariadb", "mysql"])
def test_a_record_goes_to_the_partition_of_its_key_once(
    tmp_path: Path, kafka: KafkaBroker, server: type[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, count = f"srv-{uuid.uuid4().hex[:8]}", 5
    creation = {"topic.creation.default.partitions": count, "topic.creation.default.replication.factor": 1}
    keys = range(40)
    with server() as database:
        database.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT PRIMARY KEY, v INT); CREATE TABLE log (n INT);"
            f"INSERT INTO orders VALUES {', '.join(f'({n}, 0)' for n in keys)}; INSERT INTO log VALUES (1), (2)"
        )
        pipeline = pipeline_to(kafka, database, prefix, tmp_path, **creation)
        pipeline.run()
        for number, place in enumerate(("append.before", "append.after", "done.before", "begun.after"), 1):
            database.execute(f"UPDATE orders SET v = {number}; INSERT INTO log VALUES (3)", "shop")
            with monkeypatch.context() as patch:
                patch.setattr(telemetry, "on_pass", stop_at(place, 1))
                with pytest.raises(StopError):
                    pipeline.run()
            pipeline.run()
    parts = {n: read_partition(kafka.bootstrap, f"{prefix}.shop.orders", n) for n in range(count)}
    assert all(parts.values())
    written: dict[int, list[int]] = {}
    for number, rows in parts.items():
        for row in rows:
            assert (murmur2(row["key"]) & 0x7FFFFFFF) % count == number
            written.setdefault(json.loads(row["key"])["id"], []).append(json.loads(row["value"])["after"]["v"])
    assert written == {key: [0, 1, 2, 3, 4] for key in keys}
    log = [read_partition(kafka.bootstrap, f"{prefix}.shop.log", n) for n in range(count)]
    assert [len(rows) for rows in log if rows] == [6]  # of a table without a key, all are in one partition
    ddl = [read_partition(kafka.bootstrap, prefix, n) for n in range(count)]
    assert [bool(rows) for rows in ddl] == [True, *[False] * (count - 1)]


def test_the_options_of_new_topics_go_together(tmp_path: Path) -> None:
    protocol = {"name": "debezium-mysql", "topic.prefix": "srv"}
    for options in (
        {"topic.creation.default.partitions": 3},
        {"topic.creation.default.replication.factor": 1},
        {"topic.creation.default.partitions": 0, "topic.creation.default.replication.factor": 1},
    ):
        sink = {"type": "kafka", "servers": "localhost:9092", "topic": "srv", "protocol": protocol, **options}
        definition = {"source": {"type": "mysql", "host": "db", "user": "u"}, "sink": sink}
        with pytest.raises(ConfigError, match="go together, and each is -1 or a number from 1"):
            EventPipeline.from_dict(definition | {"pipeline": {"folder": str(tmp_path)}})
