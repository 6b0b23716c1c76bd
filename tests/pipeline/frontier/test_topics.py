"""Topics and partitions that appear, disappear or are created again, between two runs and during a run."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from changefeed.cli import run as command_line
from changefeed.errors import ConfigError, SourceError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.monitoring.holders import held_by_of
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.run import run
from changefeed.pipeline.state import State
from changefeed.pipeline.store.files import FileStore
from changefeed.sources import record_source
from changefeed.storage.local import LocalFolder
from tests.examples import by_turns
from tests.pipeline.kit.open_records import _framed, mark, row
from tests.pipeline.kit.running import published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker, Record


def drop(ts: int, table: str) -> Record:
    """A DROP TABLE in d."""
    key = (1).to_bytes(8, "big") + _framed(json.dumps({"ts": ts, "scm": "d", "tbl": table, "t": 2}).encode())
    return key, _framed(json.dumps({"q": f"DROP TABLE `d`.`{table}`", "t": 4}).encode()), [], 0


@dataclass(frozen=True)
class Cluster:
    """A broker, with topics whose names begin with the test's own prefix."""

    broker: KafkaBroker
    prefix: str
    lake: Path

    def name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def create(self, topic: str, partitions: int = 1, records: Iterable[Record] = ()) -> None:
        self.broker.create_topic(self.name(topic), partitions=partitions)
        self.broker.produce(self.name(topic), records)

    def send(self, topic: str, *records: Record) -> None:
        self.broker.produce(self.name(topic), records)

    def delete(self, topic: str) -> None:
        admin = self.broker.admin()
        admin.delete_topics([self.name(topic)])[self.name(topic)].result(timeout=30)

    def grow(self, topic: str, partitions: int) -> None:
        admin = self.broker.admin()
        admin.create_partitions([NewPartitions(self.name(topic), partitions)])[self.name(topic)].result(timeout=30)

    def pipeline(self, *topics: str, consistency: str = "transaction", **source: Any) -> Definition:
        named = (
            {"topics": [self.name(topic) for topic in topics]} if topics else {"topics-pattern": f"{self.prefix}-.*"}
        )
        kafka = {"type": "kafka", "servers": self.broker.bootstrap, "protocol": "ticdc-open", **named, **source}
        return read(
            {
                "source": kafka,
                "sink": {"type": "delta", "path": str(self.lake)},
                "pipeline": {"name": "topics", "consistency": consistency, "max-retries": 0},
            }
        )


@pytest.fixture
def cluster(kafka: KafkaBroker, tmp_path: Path) -> Cluster:
    return Cluster(kafka, f"t{uuid.uuid4().hex[:12]}", tmp_path / "lake")


def ids(spark: SparkSession, pipeline: Definition, table: str = "t") -> list[int]:
    """The rows of a table at the last cut."""
    version = published(pipeline)[-1].state.versions()[f"d.{table}"]
    rows = spark.read.format("delta").option("versionAsOf", version).load(f"{pipeline.sink.path}/d/{table}").collect()
    return sorted(row["id"] for row in rows)


def source_checks(pipeline: Definition) -> list[tuple[str, str]]:
    """Status and message of what `check` finds out about the source."""
    return [(one.status, one.message) for one in checks(pipeline) if one.name == "source"]


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", pytest.param("key", marks=pytest.mark.nightly)])
def test_partitions_that_are_new_are_read_from_their_first_record(
    spark: SparkSession, cluster: Cluster, consistency: str
) -> None:
    cluster.create("a", records=[row(10, 1), *mark(11)])
    pipeline = cluster.pipeline("a", consistency=consistency, **{"starting-offsets": "earliest"})
    run(pipeline, spark, once=True)
    cluster.grow("a", 2)
    cluster.send("a", row(20, 2, 1), row(21, 3, 0), *mark(22, 0, 1))
    latest = cluster.pipeline("a", consistency=consistency, **{"starting-offsets": "latest"})
    run(latest, spark, once=True)
    assert ids(spark, pipeline) == [1, 2, 3]


@pytest.mark.heavy
def test_a_new_partition_without_a_mark_holds_the_cut(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create("a", records=[row(10, 1), *mark(11)])
    pipeline = cluster.pipeline("a")
    run(pipeline, spark, once=True)
    cluster.grow("a", 2)
    cluster.send("a", row(21, 3, 0), *mark(22, 0))
    held = run(pipeline, spark, once=True)
    assert (held.state.barrier, held.state.counts.pending) == (11, 1)
    cluster.send("a", row(20, 2, 1), *mark(23, 0, 1))
    assert run(pipeline, spark, once=True).state.barrier == 23
    assert ids(spark, pipeline) == [1, 2, 3]


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", pytest.param("key", marks=pytest.mark.nightly)])
def test_topics_that_begin_to_match_are_read_from_their_first_record(
    spark: SparkSession, cluster: Cluster, consistency: str
) -> None:
    cluster.create("a", records=[row(10, 1), *mark(11)])
    cluster.broker.create_topic(f"other-{cluster.prefix}-a")  # it does not match as a whole
    pipeline = cluster.pipeline(consistency=consistency)
    run(pipeline, spark, once=True)
    cluster.create("b", records=[row(20, 2), *mark(22)])
    cluster.send("a", *mark(22))
    second = run(pipeline, spark, once=True)
    assert set(second.state.positions) == {cluster.name("a"), cluster.name("b")}
    assert ids(spark, pipeline) == [1, 2]


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(ConfigError) as error:
        run(cluster.pipeline("a"), spark, once=True)
    where = f"at {cluster.broker.bootstrap}: create it first, correct the source section, or let this user see it"
    assert str(error.value) == f"no topic {cluster.name('a')} {where}"
    with pytest.raises(ConfigError) as error:
        run(cluster.pipeline(), spark, once=True)
    assert str(error.value) == f"no topic matches {cluster.prefix}-.* {where}"


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", pytest.param("key", marks=pytest.mark.nightly)])
def test_a_topic_that_is_removed_from_the_definition_stops_the_run_with_a_way_out(
    spark: SparkSession, cluster: Cluster, consistency: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("a", records=[row(10, 1), *mark(11)])
    cluster.create("b", records=[row(10, 2), *mark(11), row(30, 5)])
    run(cluster.pipeline("a", "b", consistency=consistency), spark, once=True)
    cluster.send("a", row(20, 3), *mark(40))
    with pytest.raises(ConfigError) as error:
        run(cluster.pipeline("a", consistency=consistency), spark, once=True)
    assert str(error.value) == (
        f"source: topics that this pipeline has read are no longer named: {cluster.name('b')}. Put them back, or set "
        "source.removed-topics to `continue` to go on without them"
    )
    assert source_checks(cluster.pipeline("a", consistency=consistency)) == [("fail", str(error.value))]
    pipeline = cluster.pipeline("a", consistency=consistency, **{"removed-topics": "continue"})
    state = run(pipeline, spark, once=True).state
    assert set(state.positions) == set(state.resolved) == {cluster.name("a")}
    assert ids(spark, pipeline) == [1, 2, 3, 5]
    assert state.counts.pending == 0
    assert f"topic {cluster.name('b')} was taken out: the run goes on without it" in " ".join(caplog.messages)
    run(cluster.pipeline("a", consistency=consistency), spark, once=True)  # it is forgotten


@pytest.mark.heavy
def test_the_topic_of_a_dropped_table_is_named_with_a_way_out(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """TiCDC sends no more resolved events to it. The option is tried as the message has it."""
    cluster.create("a", records=[row(10, 1), *mark(11)])
    cluster.create("b", records=[row(10, 2, table="u"), *mark(11)])
    both = cluster.pipeline("a", "b")
    run(both, spark, once=True)
    cluster.send("b", *mark(12), drop(13, "u"))
    cluster.send("a", row(20, 3), *mark(40))
    assert run(both, spark, once=True).state.barrier == 12

    topic = cluster.name("b")
    why = f"held by {topic}:0 (no resolved event after 12; its table d.u was dropped at 13)"
    way_out = f"take {topic} out of source.topics, and set source.removed-topics to `continue`"
    definition = tmp_path / "topics.yaml"
    definition.write_text(yaml.safe_dump(both.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    for command in ("status", "check", "explain"):
        assert command_line([command, str(definition)]) == 0
        shown = capsys.readouterr().out
        assert why in shown
        assert f"(the way out: {way_out})" in shown
    assert [(one.status, one.fix) for one in checks(both) if one.name == "lag"] == [
        ("warn", "the message has the way out")
    ]
    assert command_line(["status", str(definition), "--json"]) == 0
    [holder] = json.loads(capsys.readouterr().out)["held_by"]
    assert (holder["name"], holder["way_out"]) == (f"{topic}:0", way_out)

    [out_of, removed] = re.findall(r"source\.(\S+?)(?:,| to `)", way_out)
    kept = {out_of: [name for name in both.source.model_dump()["topics"] if name != topic]}
    source = {**both.source.model_dump(mode="json", by_alias=True, exclude_unset=True), **kept, removed: "continue"}
    left = both.model_copy(update={"source": type(both.source).model_validate(source)})
    state = run(left, spark, once=True).state
    assert (state.barrier, sorted(state.tables), state.counts.pending) == (40, ["d.t"], 0)
    assert held_by_of(left, state) == ()
    assert ids(spark, left) == [1, 3]


def test_changes_that_come_too_late_by_a_new_topic_are_reported(
    spark: SparkSession, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("a", records=[row(10, 1), *mark(40)])
    run(cluster.pipeline("a"), spark, once=True)
    cluster.create("b", records=[row(20, 2), row(50, 3), *mark(60)])
    cluster.send("a", *mark(60))
    state = run(cluster.pipeline("a", "b"), spark, once=True).state
    assert (state.counts.repeated, state.barrier) == (1, 60)
    assert (
        "row changes at or below the cut, skipped as if sent again: 1. Topics that are new to this pipeline: "
        f"{cluster.name('b')}. "
    ) in " ".join(caplog.messages)


@pytest.mark.heavy
def test_a_new_table_is_applied_as_a_whole_when_its_topic_has_caught_up(
    spark: SparkSession, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("a", records=[row(10, 1), *mark(40)])
    run(cluster.pipeline("a"), spark, once=True)
    cluster.create("b", partitions=2, records=[row(n, n, n % 2, "u") for n in range(20, 30)])
    cluster.send("b", *mark(30, 0), row(31, 31, 1, "u"), row(31, 5, 1), row(50, 50, 0, "u"))
    limit: dict[str, Any] = {"max-records-per-batch": 3}
    pipeline = cluster.pipeline("a", "b", **limit)
    first = run(pipeline, spark, once=True).state
    assert (first.barrier, first.counts.pending, first.counts.repeated) == (40, 12, 1)
    assert "d.u" not in first.versions()
    # for a table that exists, the two cases look the same
    assert "skipped as if sent again: 1. " in " ".join(caplog.messages)
    cluster.send("b", *mark(40, 0, 1))
    second = run(pipeline, spark, once=True).state
    assert (second.barrier, second.counts.pending) == (40, 1)
    assert ids(spark, pipeline, "u") == [*range(20, 30), 31]
    cluster.send("b", *mark(60, 0, 1))
    cluster.send("a", row(55, 2), *mark(60))
    third = run(pipeline, spark, once=True).state
    assert (third.barrier, third.counts.pending, third.held) == (60, 0, {})
    assert ids(spark, pipeline, "u") == [*range(20, 30), 31, 50]
    assert ids(spark, pipeline) == [1, 2]


@pytest.mark.heavy
def test_a_topic_that_was_deleted_between_two_runs(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create("a", records=[row(10, 1), *mark(11)])
    cluster.create("b", records=[row(10, 2), *mark(11)])
    run(cluster.pipeline("a", "b"), spark, once=True)
    cluster.delete("b")
    cluster.send("a", row(20, 3), *mark(40))
    with pytest.raises(SourceError, match="were deleted, or are not visible to this user") as error:
        run(cluster.pipeline("a", "b"), spark, once=True)
    assert not error.value.transient
    assert source_checks(cluster.pipeline("a", "b")) == [("fail", str(error.value))]
    pipeline = cluster.pipeline("a", "b", **{"removed-topics": "continue"})
    place = f"{cluster.name('b')}:0:2"
    note = (
        f"topic {cluster.name('b')} was deleted: the run goes on without it. What it had from {place} on was not read"
    )
    assert source_checks(pipeline) == [("warn", note), ("ok", "reachable; 4 records read")]
    assert run(pipeline, spark, once=True).state.barrier == 40
    assert ids(spark, pipeline) == [1, 2, 3]
    cluster.create("b", records=[row(50, 4), *mark(51)])
    cluster.send("a", *mark(51))
    assert run(pipeline, spark, once=True).state.barrier == 51
    assert ids(spark, pipeline) == [1, 2, 3, 4]


@pytest.mark.parametrize("records", by_turns([1, 3, 6], 3))
def test_a_topic_that_was_created_again_between_two_runs(spark: SparkSession, cluster: Cluster, records: int) -> None:
    cluster.create("a", records=[row(10, 1), row(11, 2), *mark(12)])
    pipeline = cluster.pipeline("a")
    run(pipeline, spark, once=True)
    cluster.delete("a")
    cluster.create("a", records=[*[row(20 + n, 20 + n) for n in range(records - 1)], *mark(40)])
    with pytest.raises(SourceError) as error:
        run(pipeline, spark, once=True)
    assert str(error.value) == (
        f"topics that this pipeline reads were deleted and created again: {cluster.name('a')}. Their records do not "
        "continue those that were read. Start a new pipeline from a snapshot, or set source.removed-topics to `continue` to "
        "read them from their first record"
    )
    assert source_checks(pipeline) == [("fail", str(error.value))]
    again = cluster.pipeline("a", **{"removed-topics": "continue"})
    assert run(again, spark, once=True).state.barrier == 40
    assert ids(spark, again) == [1, 2, *[20 + n for n in range(records - 1)]]


@pytest.mark.heavy
def test_a_check_names_records_that_a_run_would_miss(cluster: Cluster) -> None:
    """Those that expired before they were read, and those that the brokers have lost."""
    cluster.create("a", records=[row(10 + n, n) for n in range(5)])
    pipeline, name = cluster.pipeline("a"), cluster.name("a")
    topics: Any = record_source(pipeline.source)
    [(topic, known)] = topics._ask_without_spark().topics([name]).items()

    def at(offset: int) -> None:
        ledger = FileStore(LocalFolder(str(cluster.lake / "_changefeed" / "ledger")), "topics")
        ledger.claim()
        source_offset = {"version": 1, "offsets": {topic: {"0": offset}}, "ids": {topic: known.id}}
        ledger.finish(State(source=json.dumps(source_offset)))

    at(3)
    assert source_checks(pipeline) == [("ok", "reachable; 5 records read")]
    admin = cluster.broker.admin()
    admin.delete_records([TopicPartition(name, 0, 4)])[TopicPartition(name, 0)].result(timeout=30)
    expired = (
        f"Kafka no longer has the records 3 to 3 of {name}:0, which come next: they expired before they were read. "
    )
    assert source_checks(pipeline) == [("fail", f"{expired}Start a new pipeline from a snapshot")]
    at(9)
    lost = f"the ledger continues at offset 9 of {name}:0, which ends at 5: the brokers have lost records that were read from"
    assert source_checks(pipeline) == [("fail", f"{lost} them. Start a new pipeline from a snapshot")]


def test_ids_are_taken_over_by_a_ledger_that_has_none(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("a", records=[row(10, 1), *mark(11)])
    pipeline = cluster.pipeline("a")
    run(pipeline, spark, once=True)
    load = FileStore._load

    def as_before(ledger: FileStore, live: Any) -> None:
        load(ledger, live)
        offsets = json.dumps({cluster.name("a"): {"0": 2}})
        ledger.state = replace(ledger.state, source=offsets)

    cluster.send("a", row(20, 2), *mark(21))
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "_load", as_before)
        run(pipeline, spark, once=True)
    assert ids(spark, pipeline) == [1, 2]
    source_offset = json.loads(published(pipeline)[-1].state.source or "")
    assert (source_offset["version"], set(source_offset["ids"])) == (1, {cluster.name("a")})


@pytest.mark.parametrize("again", by_turns([None, 2, 6], 3, first=1))
def test_a_topic_that_goes_while_a_run_reads_it(spark: SparkSession, cluster: Cluster, again: int | None) -> None:
    """The topic is deleted, or created again with fewer or with more records."""
    cluster.create("a", records=[row(10, 1), row(11, 2), *mark(12)])

    def go(state: State) -> None:
        if state.barrier == 12 and not gone.is_set():
            gone.set()
            cluster.delete("a")
            if again is not None:
                cluster.create("a", records=[*[row(20 + n, 20 + n) for n in range(again - 1)], *mark(40)])

    gone = threading.Event()
    patience: dict[str, Any] = {"kafka.default.api.timeout.ms": 10000, "kafka.request.timeout.ms": 5000}
    pipeline = cluster.pipeline("a", **patience)
    with pytest.raises(SourceError) as error:
        run(pipeline, spark, progress=lambda state, _: go(state), until=40)
    assert cluster.name("a") in str(error.value)
    assert "deleted" in str(error.value)
    assert not error.value.transient
    assert ids(spark, pipeline) == [1, 2]
