"""Records read from a real broker by librdkafka: ranges, gaps, headers, records that are gone, and clusters left to Java."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from changefeed.errors import SourceError
from changefeed.sources.kafka import reader
from changefeed.sources.kafka.reader import Range, properties, read, shared
from tests.services.processes import free_ports

if TYPE_CHECKING:
    from tests.services.kafka import KafkaBroker, Record

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'


@pytest.fixture(autouse=True)
def no_consumer_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(reader, "_consumers", kept)
    yield
    for consumer in kept.values():
        consumer.close()


def _topic(kafka: KafkaBroker, partitions: int = 1, **config: str) -> str:
    name = f"reader-{uuid.uuid4().hex}"
    kafka.create_topic(name, partitions=partitions, config={n.replace("_", "."): v for n, v in config.items()})
    return name


def _read(kafka: KafkaBroker, *ranges: Range, **changed: str) -> list[pa.RecordBatch]:
    options = {"kafka.bootstrap.servers": kafka.bootstrap} | {f"kafka.{n}": v for n, v in changed.items()}
    plain = properties(options)
    assert plain is not None
    return list(read(plain, ranges))


def _values(batches: list[pa.RecordBatch], partition: int = 0) -> list[tuple[int, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist() if row["partition"] == partition]
    return [(row["offset"], row["value"]) for row in rows]


def _records(count: int, partition: int = 0) -> list[Record]:
    return [(b"k%d" % n, b"%d" % n, [], partition) for n in range(count)]


def _in_transaction(kafka: KafkaBroker, topic: str, values: list[bytes], *, commit: bool = True) -> None:
    """Writes records in a transaction; its marker takes one offset more."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": uuid.uuid4().hex, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value, partition=0)
    producer.flush(60)
    (producer.commit_transaction if commit else producer.abort_transaction)(60)


def test_records_of_several_ranges_are_read_in_order_with_all_their_columns(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_BATCH_RECORDS", 7)
    topic, other = _topic(kafka, 2), _topic(kafka)
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("é", b"\xff")]
    kafka.produce(topic, [(None, b"0", headers, 0), (b"k", None, [], 0), (b"", b"", [], 0), *_records(40, 1)])
    kafka.produce(other, _records(5))
    batches = _read(kafka, Range(topic, 0, 0, 3), Range(topic, 1, 10, 31), Range(other, 0, 4, 5), Range(other, 1, 2, 2))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(batch.num_rows <= 7 and len(set(batch["partition"].to_pylist())) == 1 for batch in batches)
    first = [row for row in rows if (row["topic"], row["partition"]) == (topic, 0)]
    assert [(r["key"], r["value"], r["offset"]) for r in first] == [(None, b"0", 0), (b"k", None, 1), (b"", b"", 2)]
    assert [[(h["key"], h["value"]) for h in row["headers"] or ()] for row in first] == [headers, [], []]
    assert _values([b for b in batches if b["topic"][0].as_py() == topic], 1) == [(n, b"%d" % n) for n in range(10, 31)]
    assert [(r["offset"], r["value"]) for r in rows if r["topic"] == other] == [(4, b"4")]


def test_a_batch_ends_after_as_many_bytes(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_BATCH_BYTES", 1000)
    topic = _topic(kafka)
    kafka.produce(topic, [(None, b"x" * 400, [], 0)] * 7)
    assert [batch.num_rows for batch in _read(kafka, Range(topic, 0, 0, 7))] == [3, 3, 1]


@pytest.mark.parametrize("count, sizes", [(6, [6]), (10, [10]), (11, [6, 5]), (25, [7, 7, 7, 4])])
def test_no_batch_of_a_range_has_a_few_records(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, count: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(reader, "_BATCH_RECORDS", 7)
    topic = _topic(kafka)
    kafka.produce(topic, _records(30))
    assert [batch.num_rows for batch in _read(kafka, Range(topic, 0, 2, 2 + count))] == sizes


def test_of_many_partitions_less_is_fetched_at_once(kafka: KafkaBroker) -> None:
    topic = _topic(kafka, 9)
    kafka.produce(topic, [record for partition in range(9) for record in _records(2, partition)])
    for partitions in (1, 2, 3, 8, 9):
        batches = _read(kafka, *(Range(topic, partition, 0, 2) for partition in range(partitions)))
        assert [len(_values(batches, partition)) for partition in range(partitions)] == [2] * partitions
    assert sorted(size for _, size in reader._consumers) == [64 << 10, 256 << 10, 1 << 20]


def test_partitions_end_between_records_of_others(kafka: KafkaBroker) -> None:
    topic = _topic(kafka, 40)
    kafka.produce(topic, [record for partition in range(40) for record in _records(3 + partition, partition)])
    batches = _read(kafka, *(Range(topic, partition, 0, 3 + partition) for partition in range(40)))
    for partition in range(40):
        assert _values(batches, partition) == [(n, b"%d" % n) for n in range(3 + partition)]


def test_records_and_errors_of_one_partition_are_separate_runs() -> None:
    end, gone = KafkaError(KafkaError._PARTITION_EOF), KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)
    sent = [
        ("a", 0, None),
        ("a", 0, None),
        ("a", 0, end),
        ("a", 0, gone),
        ("a", 1, end),
        ("a", 1, None),
        ("b", 1, None),
    ]
    messages = [Message(topic, partition, at, error=error) for at, (topic, partition, error) in enumerate(sent)]
    runs = [(*place, [message.offset() for message in run]) for *place, run in reader._runs(messages)]
    assert runs == [
        ("a", 0, None, [0, 1]), ("a", 0, end, [2]), ("a", 0, gone, [3]),
        ("a", 1, end, [4]), ("a", 1, None, [5]), ("b", 1, None, [6]),
    ]  # fmt: skip


def test_the_kept_consumer_reads_records_again_and_passes_others(kafka: KafkaBroker) -> None:
    topic = _topic(kafka)
    kafka.produce(topic, _records(30_000))
    for start, stop in ((0, 10), (20_000, 20_010), (5, 15), (0, 30_000), (29_999, 30_000)):
        batches = _read(kafka, Range(topic, 0, start, stop))
        assert _values(batches) == [(n, b"%d" % n) for n in range(start, stop)]
    assert len(reader._consumers) == 1


def test_markers_of_transactions_are_gaps(kafka: KafkaBroker) -> None:
    topic = _topic(kafka)
    _in_transaction(kafka, topic, [b"a", b"b"])  # 0, 1; the marker is 2
    _in_transaction(kafka, topic, [b"no"], commit=False)  # 3; 4
    kafka.produce(topic, [(None, b"c", [], 0)])  # 5
    _in_transaction(kafka, topic, [b"d"])  # 6; 7
    kept = [(0, b"a"), (1, b"b"), (5, b"c"), (6, b"d")]
    level = {"isolation.level": "read_committed"}
    assert _values(_read(kafka, Range(topic, 0, 0, 8), **level)) == kept
    assert _values(_read(kafka, Range(topic, 0, 0, 8))) == sorted([*kept, (3, b"no")])
    assert _values(_read(kafka, Range(topic, 0, 2, 5), **level)) == []  # nothing but gaps, and records behind them
    assert _values(_read(kafka, Range(topic, 0, 7, 8))) == []  # the end of the partition


def test_a_transaction_that_is_open_ends_what_is_committed(kafka: KafkaBroker) -> None:
    topic = _topic(kafka)
    kafka.produce(topic, [(None, b"a", [], 0)])
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": uuid.uuid4().hex, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    producer.flush(60)
    level = {"isolation.level": "read_committed"}
    assert _values(_read(kafka, Range(topic, 0, 0, 1), **level)) == [(0, b"a")]
    producer.abort_transaction(60)


def test_records_that_were_deleted_stop_the_run(kafka: KafkaBroker) -> None:
    topic = _topic(kafka)
    kafka.produce(topic, _records(10))
    admin = kafka.admin()
    for deleted in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        deleted.result(timeout=30)
    assert [offset for offset, _ in _values(_read(kafka, Range(topic, 0, 6, 10)))] == [6, 7, 8, 9]
    with pytest.raises(
        SourceError, match=f"no longer has all records from 2 to 9 of {topic}:0, which come next"
    ) as error:
        _read(kafka, Range(topic, 0, 2, 10))
    assert not error.value.transient
    assert _values(_read(kafka, Range(topic, 0, 9, 10))) == [(9, b"9")]


@pytest.mark.parametrize("reached", [True, False], ids=["no topic", "no cluster"])
def test_records_that_do_not_come_are_an_error_after_a_while(
    kafka: KafkaBroker, reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_PATIENCE", 0.3)
    servers = kafka.bootstrap if reached else f"127.0.0.1:{free_ports(1)[0]}"
    plain = properties({"kafka.bootstrap.servers": servers})
    assert plain is not None
    with pytest.raises(SourceError, match=f"{servers} sent no records of none:2 for") as error:
        list(read(plain, [Range("none", 2, 0, 1)]))
    assert error.value.transient


def test_ranges_are_divided_by_their_records() -> None:
    ranges = [Range("a", n, 0, size) for n, size in enumerate((5, 100, 40, 60, 1))]
    parts = shared(ranges, 2)
    assert sorted(one.partition for part in parts for one in part) == [0, 1, 2, 3, 4]
    assert sorted(sum(one.stop - one.start for one in part) for part in parts) == [101, 105]
    assert shared(ranges[:1], 8) == [ranges[:1]]
    assert shared([], 8) == []


@pytest.mark.parametrize(
    "java, read_by_java",
    [
        ({}, False),
        ({"isolation.level": "read_committed"}, False),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}, False),
        ({"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}, False),
        ({"max.poll.records": "9"}, True),
        ({"ssl.protocol": "TLSv1.3"}, True),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}, True),
        ({"security.protocol": "SASL_PLAINTEXT"}, True),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x required;"}, True),
        ({"security.protocol": "SSL"}, True),
        ({"security.protocol": "SSL", "ssl.truststore.location": "ca.jks"}, True),
    ],
)
def test_clusters_that_librdkafka_might_reach_otherwise_than_java_are_left_to_java(
    java: dict[str, str], read_by_java: bool
) -> None:
    options = {f"kafka.{name}": value for name, value in ({"bootstrap.servers": "127.0.0.1:1"} | java).items()}
    assert (properties(options) is None) is read_by_java
