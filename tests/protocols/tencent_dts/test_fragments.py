"""Events that span several records: joined, kept for the next batch, or refused as a whole if the records do not match."""

from __future__ import annotations

import logging
import random
from typing import Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.model.batch import RECORDS, record_batch
from changefeed.model.text import lines
from changefeed.protocols.base import unfinished
from tests.protocols.conformance.cases import DATA
from tests.protocols.tencent_dts.records import (
    ID,
    checkpoint,
    data_of,
    decode,
    decoder,
    dml,
    envelope,
    errors,
    number,
    record,
    rows,
    split,
)

BIG = data_of(dml([ID], *({"newColumns": [number(3, str(n))]} for n in range(20))))
GROUP = split(BIG, 100)
AFTER = record(envelope(data_of(checkpoint(9))), 99)


def log(name: str) -> pa.RecordBatch:
    return pa.Table.from_batches(record_log.read(DATA / "shop" / "tencent-dts" / name)).combine_chunks().to_batches()[0]


def test_an_event_has_the_position_of_its_last_record() -> None:
    row_events = rows(decode(*GROUP, AFTER))
    assert [str(row.place) for row in row_events] == [f"t:0:{len(GROUP) - 1}:{n}" for n in range(20)]
    assert {row.place.record for row in row_events} == {len(GROUP) - 1}


@pytest.mark.parametrize("at", range(1, len(GROUP)))
def test_a_group_goes_on_in_the_next_batch(at: int) -> None:
    whole, one = decode(*GROUP), decoder()
    assert not one.decode(record_batch(GROUP[:at])).tables
    assert one.waiting().select(["value"]).to_pylist() == [{"value": r["value"]} for r in GROUP[:at]]
    assert one.waiting().schema == RECORDS
    text = list(lines(whole))
    other = decoder()
    assert not other.decode(one.waiting()).tables
    assert list(lines(one.decode(record_batch(GROUP[at:])))) == text
    assert list(lines(other.decode(record_batch(GROUP[at:])))) == text
    assert not len(one.waiting()) + len(other.waiting())


@pytest.mark.heavy
def test_a_history_in_batches_of_any_size_is_the_same() -> None:
    records = log("four-partitions-split.jsonl.gz").slice(0, 300)
    seen: set[str] = set()
    whole = list(lines(decoder().decode(records), shapes_seen=seen))
    for size in (1, 2, 7, 64):
        seen, waiting, one = set(), records.slice(0, 0), decoder()
        text: list[str] = []
        again: list[str] = []
        seen_again: set[str] = set()
        for at in range(0, len(records), size):
            part = records.slice(at, size)
            text += lines(one.decode(part), shapes_seen=seen)
            new = decoder()
            again += lines(new.decode(pa.concat_batches([waiting, part])), shapes_seen=seen_again)
            waiting = new.waiting()
        assert text == again
        assert [line for line in text if '"kind":"shape"' not in line] == [
            line for line in whole if '"kind":"shape"' not in line
        ]


def test_incomplete_fragments_keep_all_their_columns() -> None:
    one = decoder()
    first = {**GROUP[0], "key": b"k", "timestamp": 1767312000123456, "headers": [{"key": "x", "value": None}]}
    batch = record_batch([AFTER, first])
    one.decode(batch)
    assert one.waiting().to_pylist() == batch.slice(1).to_pylist()


@pytest.mark.parametrize(
    "records, reasons",
    [
        (
            [GROUP[0], GROUP[2], AFTER],
            ["1 of 3 envelopes of a group are there, then envelope 3 of 3 follows at t:0:2"] * 2,
        ),
        ([GROUP[0], GROUP[0], AFTER], ["1 of 3 envelopes of a group are there, then the next one begins at t:0:0"]),
        ([GROUP[0], AFTER], ["1 of 3 envelopes of a group are there, then the next one begins at t:0:99"]),
        (
            [GROUP[0], record(envelope(b"x", 4, 1), 1), AFTER],
            ["1 of 3 envelopes of a group are there, then envelope 2 of 4 follows at t:0:1"] * 2,
        ),
        (
            [GROUP[1], GROUP[2], AFTER],
            ["envelope 2 of 3 without the ones before it", "envelope 3 of 3 without the ones before it"],
        ),
    ],
)
def test_a_group_that_contradicts_itself_is_dead_and_later_records_are_read(
    records: list[dict[str, Any]], reasons: list[str]
) -> None:
    changes = decode(*records)
    errors_of_group = [letter.error.removeprefix("tencent-dts: ").rsplit(" (", 1)[0] for letter in changes.dead]
    if records.count(GROUP[0]) == 2:
        reasons = [*reasons, "1 of 3 envelopes of a group are there, then the next one begins at t:0:99"]
    assert errors_of_group == reasons
    assert {letter.reason for letter in changes.dead} == {"incomplete-group"}
    assert [letter.value for letter in changes.dead] == [r["value"] for r in records[:-1]]
    assert [str(event.place) for event in changes.control] == ["t:0:99"]


@pytest.mark.parametrize(
    "value, error",
    [
        (None, "tencent-dts: the record has no value (t:0:0)"),
        (b"", "tencent-dts: envelope has version 0, expected 1 (t:0:0)"),
        (envelope(BIG, version=2), "tencent-dts: envelope has version 2, expected 1 (t:0:0)"),
        (envelope(BIG, version=-1), "tencent-dts: envelope has version -1, expected 1 (t:0:0)"),
        (envelope(BIG, 3, 3), "tencent-dts: envelope has index 3, but its group has 3 envelopes (t:0:0)"),
        (envelope(BIG, 0, 1), "tencent-dts: envelope has index 1, but its group has 0 envelopes (t:0:0)"),
        (envelope(b"", 2), "tencent-dts: envelope 1 of 2 has no data (t:0:0)"),
        (
            envelope(b"\x10\x01"),
            'tencent-dts: data has no entry at byte 6 (t:0:0). Is "protocol" right for this topic?',
        ),
        (envelope(BIG, 2**32 - 1), "tencent-dts: group has 4294967295 envelopes, expected at most 65536 (t:0:0)"),
        (
            b'{"id":1}',
            "tencent-dts: the record is JSON: only subscriptions in ProtoBuf format can be read at byte 0 (t:0:0)",
        ),
        (b"\x08", "tencent-dts: a number ends early at byte 1 (t:0:0)"),
    ],
)
def test_a_record_that_is_not_an_envelope_is_dead(value: bytes | None, error: str) -> None:
    assert errors(decode(record(value))) == [error]


def test_a_group_above_its_limit_is_dead_and_so_is_its_remainder() -> None:
    changes = decode(*GROUP, AFTER, max_group_bytes=150)
    assert errors(changes) == [
        "tencent-dts: a group of envelopes with more than 150 bytes (max_group_bytes) (t:0:0)",
        "tencent-dts: a group of envelopes with more than 150 bytes (max_group_bytes) (t:0:1)",
        "tencent-dts: envelope 3 of 3 without the ones before it (t:0:2)",
    ]
    assert len(changes.control) == 1


def test_partitions_and_topics_have_groups_of_their_own() -> None:
    other = [{**r, "partition": 1} for r in GROUP]
    third = [{**r, "topic": "u"} for r in GROUP]
    mixed = [r for together in zip(GROUP, other, third, strict=True) for r in together]
    changes = decode(*mixed)
    assert not changes.dead
    assert [str(row.place) for row in rows(changes)][::20] == ["t:0:2:0", "t:1:2:0", "u:0:2:0"]


def test_letters_of_earlier_batches_are_placed_where_the_group_broke() -> None:
    one = decoder()
    one.decode(record_batch(GROUP[:2]))
    (first, second) = one.decode(record_batch([AFTER])).dead
    assert (str(first.place), first.place.record, str(second.place)) == ("t:0:0", 0, "t:0:1")
    assert first.value == GROUP[0]["value"]


def test_letters_of_this_batch_are_placed_at_their_records() -> None:
    (letter,) = decode(AFTER, GROUP[0], AFTER).dead
    assert letter.place.record == 1


def test_if_the_log_ends_inside_a_group_its_records_are_dead() -> None:
    one = decoder()
    one.decode(record_batch(GROUP[:2]))
    assert [letter.error for letter in unfinished(one, "tencent-dts")] == [
        "tencent-dts: the log ends inside of the group of records that this one belongs to (t:0:0)",
        "tencent-dts: the log ends inside of the group of records that this one belongs to (t:0:1)",
    ]


def test_an_entry_that_is_dead_leaves_the_whole_group_to_be_read_again() -> None:
    bad = dml([ID], {"newColumns": [number(3, "one")]})
    group = split(data_of(checkpoint(1), bad, checkpoint(2)), 120)
    changes = decode(*group)
    place = f"t:0:{len(group) - 1}"
    assert errors(changes) == [
        f"tencent-dts: 'one' is not an integer - at `id` in entry 2 ({place})",
        *(
            f"tencent-dts: an entry of its group is dead, which ends at {place} (t:0:{n})"
            for n in range(len(group) - 1)
        ),
    ]
    assert {letter.value for letter in changes.dead} == {r["value"] for r in group}
    assert [event.place.index for event in changes.control] == [0, 2]


@pytest.mark.parametrize(
    "numbers, options, places, dead",
    [
        ([1, 2, 3], {}, [0, 1, 2], []),
        ([5, 5, 4, 6], {}, [0, 3], []),
        ([1, 3, 4], {}, [0, 2], ["tencent-dts: ps is 3 after 1: records are missing (t:0:1)"]),
        ([1, 3, 4], {"on_gap": "warn"}, [0, 1, 2], []),
        ([4, 1, 5], {}, [0, 2], []),
        ([4, None, 5], {}, [0, 1, 2], []),
        ([4, None, 5], {"require_ps": "true"}, [0, 2], ["tencent-dts: the header ps is missing (t:0:1)"]),
        (
            [2**64 - 1, 2**64],
            {},
            [0],
            ["tencent-dts: the header ps is b'18446744073709551616', expected a number (t:0:1)"],
        ),
    ],
)
def test_the_sequence_of_a_partition(
    numbers: list[int | None], options: dict[str, Any], places: list[int], dead: list[str]
) -> None:
    value = envelope(data_of(checkpoint(1)))
    changes = decode(*(record(value, at, ps) for at, ps in enumerate(numbers)), **options)
    assert [event.place.offset for event in changes.control] == places
    assert errors(changes) == dead


def test_an_accepted_gap_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    value = envelope(data_of(checkpoint(1)))
    with caplog.at_level(logging.WARNING):
        decode(record(value, 0, 1), record(value, 1, 3), on_gap="warn")
    assert caplog.messages == ["tencent-dts: ps is 3 after 1: records are missing (t:0:1)"]


def test_a_shard_has_a_sequence_and_groups_of_its_own() -> None:
    a, b = split(BIG, 100, ps=1, shard=b"a"), split(BIG, 100, ps=1, shard=b"b")
    changes = decode(*(r for pair in zip(a, b, strict=True) for r in pair))
    assert not changes.dead
    assert len(rows(changes)) == 40
    assert {row.origin["ShardId"] for row in rows(changes)} == {"a", "b"}


def test_in_a_shard_the_sequence_may_begin_again() -> None:
    value = envelope(data_of(checkpoint(1)))
    changes = decode(record(value, 0, 7, shard=b"a"), record(value, 1, 1, shard=b"a"), record(value, 2, 2, shard=b"a"))
    assert [event.place.offset for event in changes.control] == [0, 1, 2]


def test_two_headers_of_one_name_are_refused() -> None:
    twice = record(envelope(b""), 0, 1)
    twice["headers"] *= 2
    assert errors(decode(twice)) == ["tencent-dts: the header ps occurs 2 times (t:0:0)"]


@pytest.mark.parametrize("part", range(len(GROUP)))
def test_a_group_of_which_one_record_is_cut_is_dead(part: int) -> None:
    value = GROUP[part]["value"]
    for at in range(len(value)):
        damaged = [{**r, "value": value[:at]} if n == part else r for n, r in enumerate(GROUP)]
        changes = decode(*damaged, AFTER)
        assert not changes.tables
        assert len(changes.dead) >= len(GROUP) - 1
        assert [str(event.place) for event in changes.control] == ["t:0:99"]


@pytest.mark.heavy
@pytest.mark.slow
def test_damaged_groups_never_crash() -> None:
    rng = random.Random(20260102)
    history = log("four-partitions-split.jsonl.gz").slice(0, 400).to_pylist()
    for _ in range(40):
        damaged = [dict(r) for r in history]
        for r in rng.sample(damaged, 30):
            value = bytearray(r["value"])
            at = rng.randrange(len(value))
            match rng.randrange(4):
                case 0:
                    value[at] ^= 1 << rng.randrange(8)
                case 1:
                    del value[at : at + rng.randrange(1, 9)]
                case 2:
                    value[1:6] = rng.randbytes(5)
                case _:
                    r["headers"] = [{"key": "ps", "value": rng.randbytes(2)}]
            r["value"] = bytes(value)
        if rng.random() < 0.5:
            del damaged[rng.randrange(400)]
        one = decoder()
        changes = one.decode(record_batch(damaged))
        assert changes.dead
        assert all(0 <= e.place.record < len(damaged) for e in (*changes.control, *changes.dead))
        assert len(one.waiting()) < 400
        assert list(lines(changes))
