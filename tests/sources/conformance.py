"""The conformance suite of `Source`, on which runs rely when they stop, go on, and wait for more.

An implementation gets its tests by a class of its own, in this repository or outside of it:

    class TestFiles(Conformance):
        @pytest.fixture
        def harness(self, tmp_path): return Files(tmp_path / "app.jsonl")

The records that arrive are TiCDC's, in two partitions. A source of changes, which reads no records, may decode them.
The suite starts Spark with the fixture `spark`: from outside, `pytest -c changefeed/pyproject.toml --rootdir changefeed -p
tests.conftest my_test.py`, with `changefeed` the folder of this repository.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from changefeed import record_log
from changefeed.codec.decoding import decoder
from changefeed.frames.chunks import CHUNKS_DDL, pack, unpack
from changefeed.frames.mapped import as_frame
from changefeed.model.batch import record_batch
from changefeed.sources import NextBatch, Source
from tests.pipeline.kit.history import HistoryBuilder, small_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
FIRST, LIMIT = 25, 20  # records that are there at first, and in a batch


class Harness(Protocol):
    """Changes that arrive in two parts."""

    def arrive(self, records: list[Row]) -> None:
        """Adds records to what the source reads."""
        ...

    def source(self, limit: int = 100_000) -> Source:
        """Opens the source again; it reads at most `limit` records in a batch."""
        ...


def chunks_of(source: Source, batch: NextBatch) -> list[Row]:
    """The chunks of a batch."""
    chunks = as_frame(source.chunks(batch.records, {}, None), CHUNKS_DDL)
    return [row.asDict() for row in chunks.collect()]


def changes_of(chunks: list[Row]) -> list[tuple[Any, ...]]:
    """The row changes of chunks, by partition, in the order in which those of a key are applied: Rule 2 of the contract."""
    rows = [
        (row["partition"], row["commit_ts"], row["offset"], row["index"] or 0, chunk["table"], row["op"], row["after"])
        for chunk in chunks
        if chunk["kind"] == "rows"
        for row in unpack(chunk["payload"]).rows.to_pylist()
    ]
    rows.sort(key=lambda row: row[:4])
    return [(*row[:2], *row[4:]) for row in rows]


def resolved_of(chunks: list[Row]) -> list[tuple[int, int]]:
    """Partition and commit_ts of each resolved event, in the order of the partition."""
    events = [c for c in chunks if c["kind"] == "resolved"]
    places = sorted((c["partition"], c["first_offset"], c["min_commit_ts"]) for c in events)
    return [(partition, commit_ts) for partition, _, commit_ts in places]


@dataclass
class Read:
    """One batch, with its chunks."""

    chunks: list[Row]
    batch: NextBatch

    @property
    def source_offset(self) -> str:
        """The source offset after the batch."""
        return self.batch.source_offset

    @property
    def places(self) -> list[tuple[int, int]]:
        """Partition and first offset of the chunks that count the records read."""
        return [(c["partition"], c["first_offset"]) for c in self.chunks if c["kind"] == "read"]


def _rows(batches: list[Read]) -> int:
    return sum(c["rows"] for batch in batches for c in batch.chunks if c["kind"] == "rows")


class Conformance:
    """The tests. A subclass has the fixture `harness`."""

    @pytest.fixture
    def records(self, tmp_path: Path) -> list[Row]:
        log, _ = small_history(tmp_path / "history.jsonl")
        return [row for batch in record_log.read(log) for row in batch.to_pylist()]

    @pytest.fixture
    def follow(self, spark: SparkSession) -> Callable[..., list[Read]]:
        """Reads a source from a source offset to its current end, as a run does."""

        def follow(source: Source, before: str | None = None) -> list[Read]:
            batches: list[Read] = []
            end = source.end(spark, before)
            while (batch := source.next_batch(spark, before, end)) is not None:
                batches.append(Read(chunks_of(source, batch), batch))
                before = batch.source_offset
            source.close()
            return batches

        return follow

    def test_everything_comes_once_with_batches_of_any_size(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(records)
        whole, pieces = follow(harness.source()), follow(harness.source(limit=LIMIT))
        assert len(whole) == 1 < len(pieces)
        assert _rows(whole) == _rows(pieces) > 0
        assert sum(c["rows"] for c in whole[0].chunks if c["kind"] == "read") == len(records)
        places = [place for batch in pieces for place in batch.places]
        assert len(set(places)) == len(places)
        assert json.loads(pieces[-1].source_offset) == json.loads(whole[-1].source_offset)

    def test_changes_and_resolved_events_are_those_of_the_records(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(records)
        batch = record_batch(records)
        expected = pack(decoder("ticdc-open", {}).decode(batch), batch).to_pylist()
        chunks = [chunk for read in follow(harness.source(limit=LIMIT)) for chunk in read.chunks]
        assert changes_of(chunks) == changes_of(expected) != []
        assert "tombstones" not in {chunk["kind"] for chunk in chunks}, "every record has a value"
        assert resolved_of(chunks) == resolved_of(expected) != []

    def test_changes_of_one_commit_ts_keep_their_order(
        self, harness: Harness, follow: Callable[..., list[Read]], tmp_path: Path
    ) -> None:
        """A transaction may insert a row, change it, delete it and insert it again."""
        builder, first, second = HistoryBuilder(), {"id": 2, "note": "a"}, {"id": 2, "note": "b"}
        builder.schema("app", None, "CREATE DATABASE app")
        builder.schema("app", "orders", "CREATE TABLE app.orders (id INT PRIMARY KEY, note VARCHAR(9))")
        steps = ((None, first), (first, second), (second, None), (None, second))
        builder.rows(*(("orders", before, after) for before, after in steps))
        builder.resolved()
        log = builder.write(tmp_path / "transaction.jsonl")
        harness.arrive([row for batch in record_log.read(log) for row in batch.to_pylist()])
        chunks = [chunk for read in follow(harness.source(limit=2)) for chunk in read.chunks]
        changes = changes_of(chunks)
        assert len({commit_ts for _, commit_ts, *_ in changes}) == 1
        assert [(op, after and after["note"]) for *_, op, after in changes] == [
            ("insert", "a"), ("update", "b"), ("delete", None), ("insert", "b"),
        ]  # fmt: skip

    def test_a_run_goes_on_from_any_source_offset(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(records)
        pieces = follow(harness.source(limit=LIMIT))
        later = follow(harness.source(), pieces[0].source_offset)
        assert _rows(pieces[:1]) + _rows(later) == _rows(pieces)
        assert json.loads(later[-1].source_offset) == json.loads(pieces[-1].source_offset)
        assert follow(harness.source(), pieces[-1].source_offset) == []

    def test_records_that_arrive_later_are_read_from_the_same_source_offset(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(records[:FIRST])
        first = follow(harness.source())
        harness.arrive(records[FIRST:])
        second = follow(harness.source(), first[-1].source_offset)
        read = [sum(c["rows"] for b in part for c in b.chunks if c["kind"] == "read") for part in (first, second)]
        assert read == [FIRST, len(records) - FIRST]

    def test_partitions_are_known_with_the_source_offset(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        """Each partition must have a mark before a barrier moves, so none may be missing."""
        harness.arrive(records)
        source = harness.source(limit=LIMIT)
        [first, *_] = follow(source)
        assert {partition for _, partition in source.partitions(first.source_offset)} == {0, 1}

    def test_a_batch_that_has_caught_up_was_the_last(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(records)
        assert not any(read.batch.caught_up for read in follow(harness.source(limit=LIMIT))[:-1])

    def test_a_partition_has_ended_with_the_batch_that_reads_its_last_record(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(
            [row for row in records if row["partition"] == 0] + [row for row in records if row["partition"] == 1]
        )
        source = harness.source(limit=LIMIT)
        batches = follow(source)
        places = [{partition for partition, _ in batch.places} for batch in batches]
        left = [set[int]().union(*places[number + 1 :]) for number in range(len(batches))]
        assert {0, 1} in left
        assert set() in left
        ended = [{partition for _, partition in read.batch.ended} for read in batches]
        assert ended == [{0, 1} - of for of in left]

    def test_with_short_partitions_first_everything_still_comes_once(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]], spark: SparkSession
    ) -> None:
        short = [row for row in records if row["partition"] == 1][:5]
        harness.arrive([*short, *(row for row in records if row["partition"] == 0)])
        whole, source = follow(harness.source()), harness.source(limit=LIMIT)
        batch = source.next_batch(spark, None, None, short_first=True)
        assert batch is not None
        assert {partition for _, partition in batch.ended} <= {1}
        first = Read(chunks_of(source, batch), batch)
        rest = follow(source, batch.source_offset)
        assert _rows([first, *rest]) == _rows(whole)
        assert json.loads(rest[-1].source_offset) == json.loads(whole[-1].source_offset)
        at_once = harness.source().next_batch(spark, None, None, short_first=True)
        assert at_once is not None
        assert json.loads(at_once.source_offset) == json.loads(whole[-1].source_offset)

    def test_a_source_offset_is_text_that_a_ledger_can_keep(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]], spark: SparkSession
    ) -> None:
        harness.arrive(records)
        [batch] = follow(harness.source())
        assert json.loads(batch.source_offset)
        compared = harness.source().compared(spark, batch.source_offset)
        assert json.loads(compared.source_offset) == json.loads(batch.source_offset)
        assert (compared.removed, compared.notes) == (frozenset(), ())
        without_spark = harness.source().compared(None, batch.source_offset)  # as `check` asks
        assert json.loads(without_spark.source_offset) == json.loads(compared.source_offset)

    def test_the_backlog_is_what_has_not_been_read(
        self, harness: Harness, records: list[Row], follow: Callable[..., list[Read]]
    ) -> None:
        harness.arrive(records)
        batches, source = follow(harness.source(limit=LIMIT)), harness.source()
        left = len(records)
        for offset, read in zip([None, *(b.source_offset for b in batches)], [None, *batches], strict=False):
            left -= sum(c["rows"] for c in read.chunks if c["kind"] == "read") if read is not None else 0
            backlog = source.backlog(offset)
            assert backlog is not None
            assert backlog.records == left
            assert not backlog.partitions or sum(backlog.partitions.values()) == left
            assert read is None or read.batch.left in (None, backlog)
        assert left == 0
        assert source.unreachable() is None

    def test_a_sample_needs_no_spark(self, harness: Harness, records: list[Row]) -> None:
        harness.arrive(records)
        source = harness.source()
        assert source.missing() is None
        kinds = {row["kind"] for chunks in source.sample_chunks(10) for row in chunks.to_pylist()}
        assert {"read", "schema"} <= kinds
        assert source.capabilities.cuts == "marks"
        assert source.title
