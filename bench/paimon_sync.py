"""Applies the records of `bench/orders.py` with Paimon's database sync on Flink: what `bench/jobs.py` compares with.

    FLINK_HOME=… PAIMON_JARS=… python bench/paimon_sync.py SERVERS PREFIX TABLES WAREHOUSE

FLINK_HOME is a folder with Flink's `lib` (`deps` of the PyPI package apache-flink-libraries 1.20). PAIMON_JARS is a folder with
jars of Maven Central: paimon-flink-1.20 1.3.1, flink-sql-connector-kafka 3.2.0-1.19, flink-shaded-hadoop-2-uber 2.8.3-10.0. Flink
runs in its mini cluster, with checkpoints every ten seconds.

Paimon 1.3.1 follows a topic for ever. Flink commits its group's offsets with each checkpoint: when they have reached
the ends of the topics, and no table has had a new snapshot for three seconds, the job is ended. The offsets are then written to a
file beside the tables, from which the next run continues.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

REST = 3.0  # seconds without a snapshot
CONFIGURATION = """\
execution.target: local
execution.checkpointing.interval: 10 s
parallelism.default: 2
taskmanager.numberOfTaskSlots: 2
taskmanager.memory.managed.size: 256m
rest.port: 0
"""
LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1} %m%n
"""
OPENED = ("lang", "util", "nio", "time", "net", "util.concurrent")  # packages of java.base that Flink reflects on


def command(configuration: Path, servers: str, topics: list[str], warehouse: Path, group: str) -> list[str]:
    """Flink's command line with Paimon's action; the offsets are those of the group."""
    jars = sorted(Path(os.environ["PAIMON_JARS"]).glob("*.jar"))
    paimon = next(jar for jar in jars if jar.name.startswith("paimon-flink-"))
    classes = [*sorted(Path(os.environ["FLINK_HOME"], "lib").glob("*.jar")), *jars]
    kafka = {
        "properties.bootstrap.servers": servers, "topic": ";".join(topics), "properties.group.id": group,
        "scan.startup.mode": "group-offsets", "value.format": "debezium-json",
    }  # fmt: skip
    return [
        "java", "-Xmx2g", "-XX:+UseParallelGC", *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED),
        "--add-exports=java.base/sun.net.util=ALL-UNNAMED", f"-Dlog4j.configurationFile={configuration / 'log4j.properties'}",
        "-cp", ":".join(map(str, classes)), "org.apache.flink.client.cli.CliFrontend", "run", "-t", "local",
        "-c", "org.apache.paimon.flink.action.FlinkActions", str(paimon), "kafka_sync_database",
        "--warehouse", str(warehouse), "--database", "shop",
        *(word for name, value in kafka.items() for word in ("--kafka_conf", f"{name}={value}")),
        "--primary_keys", "id", "--table_conf", "bucket=2",
    ]  # fmt: skip


def snapshots(warehouse: Path) -> int:
    """Number of snapshots of all tables."""
    return sum(1 for _ in warehouse.glob("shop.db/*/snapshot/snapshot-*"))


def main() -> None:
    """Reads all topics to the ends that they have now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("prefix")
    parser.add_argument("tables", type=int)
    parser.add_argument("warehouse", type=Path)
    arguments = parser.parse_args()
    arguments.warehouse.mkdir(parents=True, exist_ok=True)
    marks = arguments.warehouse / "offsets.json"
    offsets: dict[str, int] = json.loads(marks.read_text()) if marks.exists() else {}
    topics = [f"{arguments.prefix}.shop.t{number}" for number in range(arguments.tables)]
    group = f"paimon-{uuid.uuid4().hex}"
    consumer = Consumer({"bootstrap.servers": arguments.servers, "group.id": group, "enable.auto.commit": False})
    known = consumer.list_topics(timeout=10).topics
    parts = [TopicPartition(topic, part) for topic in topics for part in known[topic].partitions]
    ends = {f"{p.topic}:{p.partition}": consumer.get_watermark_offsets(p, timeout=10)[1] for p in parts}
    begun = [TopicPartition(p.topic, p.partition, offsets.get(f"{p.topic}:{p.partition}", 0)) for p in parts]
    consumer.commit(offsets=begun, asynchronous=False)
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder)
        (configuration / "config.yaml").write_text(CONFIGURATION)
        (configuration / "log4j.properties").write_text(LOGGING)
        flink = subprocess.Popen(
            command(configuration, arguments.servers, topics, arguments.warehouse, group),
            env=os.environ | {"FLINK_CONF_DIR": folder},
        )
        count, changed = -1, time.monotonic()
        while flink.poll() is None:
            time.sleep(0.5)
            if count != (count := snapshots(arguments.warehouse)):
                changed = time.monotonic()
            if time.monotonic() - changed < REST:
                continue
            reached = {f"{p.topic}:{p.partition}": p.offset for p in consumer.committed(parts, timeout=10)}
            if all(reached[name] >= end for name, end in ends.items()):
                break
        if flink.poll() is not None:
            sys.exit(f"Flink ended by itself, exit {flink.returncode}")
        flink.terminate()
        with suppress(subprocess.TimeoutExpired):
            flink.wait(60)
        flink.kill()
    marks.write_text(json.dumps(ends))


if __name__ == "__main__":
    main()
