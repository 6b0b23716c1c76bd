"""The conformance suite of `EventSink`, which every implementation must pass.

An implementation gets its tests by a class of its own, in this repository or outside of it:

    class TestMemory(Conformance):
        @pytest.fixture
        def harness(self): return Memory()

A harness opens the sink and reads its records, see `event_contract.py`; `conformance.py` shows how to run a suite from outside.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changefeed.errors import FencedError, SinkError, UnsupportedError
from changefeed.model.batch import RECORDS, Decoded, record_batch
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import NumberingEncoder
from changefeed.sinks.events import EventSink
from changefeed.sinks.writes import WriteId
from tests.examples import by_turns
from tests.protocols.conformance.cases import Case, cases, decode, histories, lines, reference, stores
from tests.sinks.event_contract import Given, Harness, Plain, marks, written_by_encoder

OWNER = "changefeed:test:1"


class StopError(Exception):
    """The error that a hook raises in the middle of an append."""


def values(harness: Harness) -> list[int]:
    return [int(row["value"]) for row in harness.records()]


def stop() -> None:
    raise StopError


def vectors() -> list[Case]:
    """For each protocol the vector with the most events, of those that have one partition and can be encoded."""
    largest = []
    for name in PROTOCOLS:
        mine = [case for case in cases() if case.protocol == name and case.encodes and not decode(case).dead]
        mine = [case for case in mine if len(set(zip(*places(case), strict=True))) == 1]
        largest.append(max(mine, key=lambda case: len(case.events)))
    return largest


def places(case: Any) -> list[list[Any]]:
    return [case.records.column(name).to_pylist() for name in ("topic", "partition")]


def at(records: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """The records in partition 0 of a topic."""
    for name, value in (("topic", topic), ("partition", 0)):
        number = RECORDS.get_field_index(name)
        column = pa.array([value] * len(records), RECORDS.field(name).type)
        records = records.set_column(number, RECORDS.field(name), column)
    return records


def without_positions(events: list[str]) -> list[dict[str, Any]]:
    return [{name: value for name, value in json.loads(event).items() if name != "position"} for event in events]


class Conformance:
    """The tests. A subclass has the fixture `harness`.

    Attributes:
        schedule: steps of a random schedule, and those of them that the first run has to itself.
        atomic: whether the sink promises that readers see all records of an append or none: rule 7 of `EventSink`.
    """

    schedule = (40, 5)
    atomic = True

    # Existing appends.

    def test_nothing_is_there_before_the_first_append(self, harness: Harness) -> None:
        sink = harness.sink(Plain)
        assert (sink.last(), harness.records(), sink.atomic) == (None, [], self.atomic)

    def test_a_check_appends_nothing(self, harness: Harness) -> None:
        sink = harness.sink(Plain)
        sink.check()
        assert (sink.last(), harness.records()) == (None, [])

    def test_appends_follow_each_other_with_their_write_ids(self, harness: Harness) -> None:
        topic, sink = harness.topic(2), harness.sink(Plain)
        sink.append(marks(topic, 1, 2), WriteId(1, 1, 1), "{}")
        assert (sink.last(), harness.sink(Plain).last()) == (WriteId(1, 1, 1), WriteId(1, 1, 1))
        sink.append(marks(topic, 3), WriteId(1, 1, 2), "{}")
        sink.append(marks(topic, 4, 5, partition=1), WriteId(1, 2, 1), "{}")
        harness.sink(Plain).append(marks(topic, 6), WriteId(2, 3, 1), '{"a": "note"}')
        assert harness.sink(Plain).last() == WriteId(2, 3, 1)
        there = [(row["partition"], int(row["value"])) for row in harness.records()]
        assert sorted(there) == [(0, 1), (0, 2), (0, 3), (0, 6), (1, 4), (1, 5)]
        assert [value for partition, value in there if partition == 0] == [1, 2, 3, 6]
        assert [value for partition, value in there if partition == 1] == [4, 5]

    def test_offsets_of_a_partition_grow_from_append_to_append(self, harness: Harness) -> None:
        topic, sink = harness.topic(2), harness.sink(Plain)
        for step in range(1, 4):
            sink.append(marks(topic, step, step), WriteId(1, step, 1), "{}")
            sink.append(marks(topic, step, partition=1), WriteId(1, step, 2), "{}")
        for partition, count in ((0, 6), (1, 3)):
            offsets = [row["offset"] for row in harness.records() if row["partition"] == partition]
            assert offsets == sorted(set(offsets))
            assert len(offsets) == count

    def test_an_append_without_changes_carries_its_write_id(self, harness: Harness) -> None:
        sink = harness.sink(Plain)
        sink.append(Decoded(), WriteId(2, 7, 0), "{}")
        assert (harness.sink(Plain).last(), harness.records()) == (WriteId(2, 7, 0), [])

    def test_another_pipeline_has_write_ids_of_its_own(self, harness: Harness) -> None:
        topic, sink = harness.topic(), harness.sink(Plain)
        sink.append(marks(topic, 1), WriteId(5, 1, 1), "{}")
        other = sink.owned_by("changefeed:other:2")
        assert other.last() is None
        other.append(marks(topic, 2), WriteId(1, 1, 1), "{}")
        sink.append(marks(topic, 3), WriteId(5, 2, 1), "{}")
        assert (sink.last(), other.last(), values(harness)) == (WriteId(5, 2, 1), WriteId(1, 1, 1), [1, 2, 3])

    def test_a_long_note_and_a_hostile_owner_are_kept(self, harness: Harness) -> None:
        topic, owner = harness.topic(), "pipeline 'ü' \"/..\\ \N{GRINNING FACE}:" + "x" * 60
        harness.sink(Plain, owner).append(marks(topic, 1), WriteId(1, 1, 1), json.dumps({"note": "ü" * 9000}))
        assert (harness.sink(Plain, owner).last(), harness.sink(Plain).last()) == (WriteId(1, 1, 1), None)

    def test_a_sink_that_was_closed_may_be_used_again(self, harness: Harness) -> None:
        topic, sink = harness.topic(), harness.sink(Plain)
        sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        sink.close()
        sink.append(marks(topic, 2), WriteId(1, 2, 1), "{}")
        sink.close()
        assert (sink.last(), values(harness)) == (WriteId(1, 2, 1), [1, 2])

    # Records as the encoder gave them.

    def test_bytes_headers_and_tombstones_are_kept(self, harness: Harness) -> None:
        topic = harness.topic(3)
        rows: list[dict[str, Any]] = [
            {"topic": topic, "partition": 0, "key": b"k", "value": None},
            {"topic": topic, "partition": 0, "key": None, "value": b"\x00\xff"},
            {"topic": topic, "partition": 0, "key": b"", "value": b""},
            {"topic": topic, "partition": 2, "key": b"\xff" * 300, "value": b"v"},
        ]
        rows = [{**row, "headers": []} for row in rows]
        rows[0]["headers"] = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "é", "value": b""}]
        sink = harness.sink(lambda: Given(rows))
        sink.append(Decoded(), WriteId(1, 1, 1), "{}")
        assert written_by_encoder(harness.records()) == written_by_encoder(rows)

    def test_a_large_append_is_whole_and_in_order(self, harness: Harness) -> None:
        topic = harness.topic(2)
        rows = [
            {"topic": topic, "partition": n % 2, "key": str(n).encode(), "value": b"x" * 50} for n in range(120_000)
        ]
        rows.append({"topic": topic, "partition": 1, "key": b"last", "value": b"y" * 20_000_000})
        harness.sink(lambda: Given(rows)).append(Decoded(), WriteId(1, 1, 1), "{}")
        records = harness.records()
        for partition in (0, 1):
            keys = [row["key"] for row in records if row["partition"] == partition]
            assert keys == [row["key"] for row in rows if row["partition"] == partition]
        assert sum(len(row["value"]) for row in records) == 26_000_000

    @pytest.mark.parametrize("case", vectors(), ids=str)
    def test_a_vector_of_each_protocol_comes_back(self, harness: Harness, case: Case) -> None:
        """The records are those of the vector, and so are the events that they are decoded to."""
        chosen, topic = protocol(case.protocol), harness.topic()
        options, records = chosen.read_options(case.options), at(case.records, topic)
        sink = harness.sink(lambda: chosen.encoder(options, stores(options)))
        changes = reference(case).decode(records)
        sink.append(changes, WriteId(1, 1, 1), "{}")
        back = harness.records()
        assert written_by_encoder(back) == written_by_encoder(records.to_pylist())
        again = lines(reference(case).decode(record_batch(back)))
        assert without_positions(again) == without_positions(lines(changes))

    # Once, and by the newest run alone.

    def test_an_append_that_is_there_is_not_made_again(self, harness: Harness) -> None:
        topic, sink = harness.topic(), harness.sink(Plain)
        sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        sink.append(marks(topic, 2), WriteId(1, 1, 2), "{}")
        for again in (sink, harness.sink(Plain)):
            again.append(marks(topic, 2), WriteId(1, 1, 2), "{}")
            again.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        assert (sink.last(), values(harness)) == (WriteId(1, 1, 2), [1, 2])

    @pytest.mark.parametrize("number", [1, 3, 9])
    def test_an_older_run_is_fenced(self, harness: Harness, number: int) -> None:
        """Also where its own append has been made, and whether or not it has written before."""
        topic, older = harness.topic(), harness.sink(Plain)
        older.append(marks(topic, 1), WriteId(1, 1, 3), "{}")
        newer = harness.sink(Plain)
        newer.append(marks(topic, 2), WriteId(2, 2, 1), "{}")
        for sink in (older, harness.sink(Plain)):
            with pytest.raises(FencedError, match="epoch 2 of the pipeline appends here now; this run is epoch 1"):
                sink.append(marks(topic, 9), WriteId(1, 1, number), "{}")
        newer.append(marks(topic, 3), WriteId(2, 2, 2), "{}")
        assert (newer.last(), values(harness)) == (WriteId(2, 2, 2), [1, 2, 3])

    def test_a_run_that_goes_on_after_a_newer_one_appends_nothing(self, harness: Harness) -> None:
        """The newer run appends while the older one is about to commit."""
        topic, older, newer = harness.topic(), harness.sink(Plain), harness.sink(Plain)
        older.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        harness.at("before", lambda: newer.append(marks(topic, 2), WriteId(2, 2, 1), "{}"))
        with pytest.raises(FencedError, match="epoch 2"):
            older.append(marks(topic, 9), WriteId(1, 2, 1), "{}")
        newer.append(marks(topic, 3), WriteId(2, 2, 2), "{}")
        assert (newer.last(), values(harness)) == (WriteId(2, 2, 2), [1, 2, 3])

    def test_a_touch_fences_an_append_that_is_being_made(self, harness: Harness) -> None:
        """The newer run touches, finds that the step's append is not there, and makes it: it is there once."""
        topic, older, newer = harness.topic(), harness.sink(Plain), harness.sink(Plain)
        harness.at("before", lambda: newer.append(Decoded(), WriteId(2, 1, 0), "{}"))
        with pytest.raises(FencedError, match="epoch 2"):
            older.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        assert newer.last() == WriteId(2, 1, 0)
        newer.append(marks(topic, 1), WriteId(2, 1, 1), "{}")
        assert values(harness) == [1]

    def test_two_writers_of_one_epoch_do_not_both_append(self, harness: Harness) -> None:
        topic, first, second = harness.topic(), harness.sink(Plain), harness.sink(Plain)
        harness.at("before", lambda: second.append(marks(topic, 2), WriteId(1, 1, 1), "{}"))
        with pytest.raises(SinkError) as caught:
            first.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        assert caught.value.transient
        first.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        assert (first.last(), values(harness)) == (WriteId(1, 1, 1), [2])

    def test_two_runs_at_once_leave_the_newer_ones_append(self, harness: Harness) -> None:
        topic = harness.topic()
        sinks = {epoch: harness.sink(Plain) for epoch in (2, 3)}

        def append(epoch: int) -> SinkError | None:
            try:
                sinks[epoch].append(marks(topic, epoch), WriteId(epoch, 2, 1), "{}")
            except SinkError as error:
                return error
            return None

        with ThreadPoolExecutor(2) as pool:
            errors = dict(zip((2, 3), pool.map(append, (2, 3)), strict=True))
        if errors[3] is not None:  # another try succeeds
            assert errors[3].transient
            sinks[3].append(marks(topic, 3), WriteId(3, 2, 1), "{}")
        wrote = [2, 3] if errors[2] is None else [3]
        assert (values(harness), harness.sink(Plain).last()) == (wrote, WriteId(3, 2, 1))

    def test_an_append_that_stopped_before_it_took_effect_is_not_there(self, harness: Harness) -> None:
        topic, sink = harness.topic(), harness.sink(Plain)
        sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        harness.at("before", stop)
        with pytest.raises(StopError):
            sink.append(marks(topic, 2), WriteId(1, 2, 1), "{}")
        assert (sink.last(), values(harness)) == (WriteId(1, 1, 1), [1])
        sink.append(marks(topic, 2), WriteId(1, 2, 1), "{}")
        assert (sink.last(), values(harness)) == (WriteId(1, 2, 1), [1, 2])

    def test_the_last_append_is_known_behind_touches(self, harness: Harness) -> None:
        topic, sink = harness.topic(), harness.sink(Plain)
        assert sink.made() is None
        sink.append(Decoded(), WriteId(1, 1, 0), "{}")
        assert sink.made() is None
        sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        for epoch in (2, 3):
            sink.append(Decoded(), WriteId(epoch, 1, 0), "{}")
            assert (sink.last(), sink.made()) == (WriteId(epoch, 1, 0), WriteId(1, 1, 1))
        sink.append(marks(topic, 2), WriteId(3, 2, 1), "{}")
        assert sink.made() == WriteId(3, 2, 1)

    def test_an_append_whose_answer_was_lost_is_there_once(self, harness: Harness) -> None:
        topic, sink = harness.topic(), harness.sink(Plain)
        harness.at("after", stop)
        with pytest.raises(StopError):
            sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        assert sink.last() == WriteId(1, 1, 1)
        sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
        sink.append(marks(topic, 2), WriteId(1, 1, 2), "{}")
        assert values(harness) == [1, 2]

    @pytest.mark.parametrize("seed", by_turns(range(8), 2))
    def test_random_schedules_of_three_runs_keep_the_contract(self, harness: Harness, seed: int) -> None:
        """The records are those of growing write ids, once each, and the last write id is that of the last append."""
        random, topic = Random(seed), harness.topic()
        runs = {epoch: harness.sink(Plain) for epoch in (1, 2, 3)}
        others = {epoch: harness.sink(Plain) for epoch in runs}  # the same runs, opened by another process
        there: set[int] = set()  # appends that were the last one when they had answered

        def append(epoch: int, step: int, sink: EventSink | None = None) -> None:
            number = epoch * 100 + step
            with suppress(FencedError, SinkError, StopError):
                (sink or runs[epoch]).append(marks(topic, number), WriteId(epoch, step, 1), "{}")
                if harness.sink(Plain).last() == WriteId(epoch, step, 1):
                    there.add(number)

        steps, alone = self.schedule
        for step in range(1, steps):
            epoch = random.choice((1, 1, 1, 2, 2, 3)) if step > alone else 1
            place, other = random.choice(("before", "after")), random.choice((1, 2, 3) if step > alone else (1,))
            hook = random.choice((stop, lambda other=other, step=step: append(other, step, others[other]), None))
            if hook is not None:
                harness.at(place, hook)
            append(epoch, step)
            harness.at(place, lambda: None)
            append(random.choice((1, epoch)), random.randint(max(1, step - 1), step))
        written, last = values(harness), harness.sink(Plain).last()
        assert written == sorted(set(written))
        assert there
        assert there <= set(written)
        assert last == WriteId(written[-1] // 100, written[-1] % 100, 1)

    # State of encoders.

    def test_an_encoder_is_kept_until_an_append_raises(self, harness: Harness) -> None:
        topic, made = harness.topic(), []

        def encoder() -> Plain:
            made.append(Plain())
            return made[-1]

        sink = harness.sink(encoder)
        for step in (1, 2):
            sink.append(marks(topic, step), WriteId(1, step, 1), "{}")
        assert len(made) == 1
        harness.at("before", stop)
        with pytest.raises(StopError):
            sink.append(marks(topic, 3), WriteId(1, 3, 1), "{}")
        sink.append(marks(topic, 3), WriteId(1, 3, 1), "{}")
        assert (len(made), values(harness)) == (2, [1, 2, 3])

    def test_a_change_that_the_protocol_cannot_carry_appends_nothing(self, harness: Harness) -> None:
        class Silent(Plain):
            def encode(self, changes: Decoded) -> Any:
                raise UnsupportedError("no words")

        sink = harness.sink(Silent)
        with pytest.raises(UnsupportedError):
            sink.append(marks(harness.topic(), 1), WriteId(1, 1, 1), "{}")
        assert (sink.last(), harness.records()) == (None, [])

    def test_numbers_of_events_go_on_in_a_new_run(self, harness: Harness) -> None:
        """Changes of another protocol as tencent-dts: seqIds grow over runs and failures; each append ends with a checkpoint."""
        history = next(h for h in histories() if h.file.startswith("shop/") and h.protocol == "ticdc-open")
        topic, dts = harness.topic(), protocol("tencent-dts")
        records = at(history.records.slice(0, 60), topic)
        parts = [decode(history, records.slice(at, 20)) for at in (0, 20, 40)]
        options = dts.options()
        assert isinstance(dts.encoder(options, stores(options)), NumberingEncoder)
        for epoch, part in enumerate(parts, 1):
            sink = harness.sink(lambda: dts.encoder(options, stores(options)))
            harness.at("before", stop)
            with pytest.raises(StopError):
                sink.append(part, WriteId(epoch, epoch, 1), "{}")
            sink.append(part, WriteId(epoch, epoch, 1), "{}")
        decoder = dts.decoder(options, stores(options))
        events = [json.loads(line) for line in lines(decoder.decode(record_batch(harness.records())))]
        assert not [event for event in events if event["kind"] == "dead"]
        sequences = [event["sequence"] for event in events if event.get("sequence") is not None]
        assert sequences == list(range(1, len(sequences) + 1))
        checkpoints = [n for n, event in enumerate(events) if "checkpoint" in (event.get("origin") or {})]
        assert len(checkpoints) >= 3
        assert checkpoints[-1] == len(events) - 1
