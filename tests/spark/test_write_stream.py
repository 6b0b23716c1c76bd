"""Streams are written over stops and repeated batches: a record log has each row once, Kafka at least once."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import changefeed.spark
from changefeed import record_log
from changefeed.errors import ConfigError
from changefeed.spark.arrow_streams import check_arrow_streams
from tests.spark.from_kafka import source
from tests.spark.shop import OPEN, comparable, expected, final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.services.kafka import KafkaBroker

_TABLE = {"protocol": "debezium-mysql", "table": "shop.customers"}
Row = dict[str, Any]


def test_spark_4_0_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_arrow_streams()
    monkeypatch.delattr("pyspark.sql.datasource.DataSourceStreamArrowWriter")
    with pytest.raises(
        ConfigError, match=r"Spark 4\.0 cannot write a stream in Arrow batches\. Use Spark 4\.1 or newer"
    ):
        check_arrow_streams()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def add(logs: Path, number: int, parts: int = 3) -> None:
    """Adds one part of the history as a log of its own."""
    records = OPEN.records()
    size = -(-len(records) // parts)
    record_log.write(logs / f"{number}.jsonl", [records.slice(number * size, size)])


def customers(spark: SparkSession, logs: Path, **more: str) -> DataFrame:
    OPEN.reader(spark)  # registers the data source
    reader = spark.readStream.format("changefeed").options(protocol=OPEN.protocol, before="true", **more)
    return reader.option("table", "shop.customers").schema(_schema(spark)).load(f"{logs}/*.jsonl")


@cache
def _schema(spark: SparkSession) -> Any:
    """The table's columns, for which the data source decodes the whole log."""
    return OPEN.reader(spark, table="shop.customers", before="true").load(str(OPEN.path)).schema


def run(frame: DataFrame, checkpoint: Path, **options: str) -> None:
    """Writes all that is there now."""
    query = frame.writeStream.format("changefeed").options(**_TABLE, **options)
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination(240)


def forget_last_batch(checkpoint: Path) -> int:
    """Leaves the checkpoint as a kill leaves it after the batch was written and before Spark noted that; returns the batch."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    return last


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.heavy
def test_a_log_has_each_row_once_over_a_restart_and_a_repeated_batch(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def go_on() -> None:
        run(customers(spark, logs), checkpoint, path=str(out))

    add(logs, 0)
    go_on()
    add(logs, 1)
    go_on()
    before = names(out)
    assert before == [".stream", f"{0:020}-00000.parquet", f"{1:020}-00000.parquet"]
    content = {name: (out / name).read_bytes() for name in before}
    assert forget_last_batch(checkpoint) == 1
    (out / f"{1:020}-00007.parquet").write_bytes(content[before[-1]])  # of a first try that had more tasks
    go_on()
    assert names(out) == before
    add(logs, 2)
    go_on()
    assert names(out) == [*before, f"{2:020}-00000.parquet"]
    assert {name: (out / name).read_bytes() for name in before} == content
    back = spark.read.format("changefeed").options(**_TABLE, before="true").load(str(out))
    wanted = expected("customers")
    assert comparable(final(back, "id"), list(wanted[0]), ()) == comparable(wanted, list(wanted[0]), ())
    whole = OPEN.reader(spark, table="shop.customers").load(str(OPEN.path))
    assert back.where("_op != 'read'").count() == whole.count()


@pytest.mark.heavy
def test_a_folder_belongs_to_one_stream(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(logs, 0)
    run(customers(spark, logs), tmp_path / "checkpoint", path=str(out))
    before = names(out)
    with pytest.raises(
        Exception, match=r"out belongs to another stream .*A stream with a new checkpoint begins at batch 0"
    ):
        run(customers(spark, logs), tmp_path / "new-checkpoint", path=str(out))
    batch = OPEN.reader(spark, table="shop.customers").load(str(OPEN.path))
    with pytest.raises(Exception, match="out belongs to a stream: write to a folder of its own"):
        batch.write.format("changefeed").options(**_TABLE).mode("append").save(str(out))
    assert names(out) == before
    shutil.rmtree(out)
    batch.write.format("changefeed").options(**_TABLE).mode("append").save(str(out))
    before = names(out)
    with pytest.raises(Exception, match="out has logs that this stream did not write"):
        run(customers(spark, logs), tmp_path / "third", path=str(out))
    assert names(out) == before


def test_a_row_that_is_not_a_change_ends_the_stream_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    OPEN.reader(spark)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    rows = rows.selectExpr("cast(null as string) _op", "value id")
    query = rows.writeStream.format("changefeed").options(protocol="ticdc-open", table="a.t", keys="id")
    query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="the row at changefeed:0:0 has the op None, which is not one of insert, "):
        query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(240)
    assert names(tmp_path / "out") == []


@pytest.mark.heavy
def test_kafka_has_each_record_and_those_of_a_repeated_batch_again(
    spark: SparkSession, kafka: KafkaBroker, logs: Path, tmp_path: Path
) -> None:
    topic, checkpoint = f"written-{uuid.uuid4().hex}", tmp_path / "checkpoint"
    kafka.create_topic(topic, partitions=4)

    def go_on() -> Counter[str]:
        options = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic}
        run(customers(spark, logs), checkpoint, **options)
        records = source(spark, kafka, topic)
        return Counter(
            f"{r.partition} {r.key} {r.value}" for r in records.select("partition", "key", "value").collect()
        )

    add(logs, 0)
    first = go_on()
    add(logs, 1)
    second = go_on()
    forget_last_batch(checkpoint)
    assert go_on() == second + (second - first)
    add(logs, 2)
    go_on()
    back = changefeed.spark.decode(source(spark, kafka, topic), "debezium-mysql", "shop.customers", before=True)
    wanted = expected("customers")
    assert comparable(final(back, "id"), list(wanted[0]), ()) == comparable(wanted, list(wanted[0]), ())


def test_a_batch_goes_to_kafka_by_the_same_options(spark: SparkSession, kafka: KafkaBroker, logs: Path) -> None:
    topic = f"written-{uuid.uuid4().hex}"
    kafka.create_topic(topic, partitions=1)
    write = OPEN.reader(spark, table="shop.customers").load(str(OPEN.path)).coalesce(1).write.format("changefeed")
    write = write.options(**_TABLE, topic=topic, **{"kafka.bootstrap.servers": kafka.bootstrap}).mode("append")
    with pytest.raises(Exception, match=f"topic {topic} at .* has 1 partitions, and the encoder writes to partition"):
        write.save()
    with pytest.raises(Exception, match=r"option kafka\.acks is set by the writer\. Remove it"):
        write.option("kafka.acks", "1").save()
