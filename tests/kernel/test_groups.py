"""Records that make groups: they are joined in the same way with the kernel and without it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.codec import defects
from changefeed.codec.record_groups import GroupKernelDecoder
from changefeed.model.batch import record_batch
from tests.examples import by_turns
from tests.kernel.grouping import Grouping, counted, plain
from tests.protocols.conformance.cases import DATA
from tests.protocols.tencent_dts.records import (
    ID,
    NIL,
    checkpoint,
    data_of,
    dml,
    envelope,
    inserted,
    number,
    record,
    split,
)

pytestmark = pytest.mark.slow
NAMES = ("one-partition", "four-partitions-split")
HISTORY_ROWS = 4584


def log(name: str) -> pa.RecordBatch:
    batches = record_log.read(DATA / "shop" / "tencent-dts" / f"{name}.jsonl.gz")
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", by_turns([9, 500, 10_000], 3))
def test_kernel_and_reference_agree_on_a_history_in_batches_of(name: str, size: int) -> None:
    records, both = log(name), Grouping()
    changes = [both.decode(records.slice(at, size)) for at in range(0, len(records), size)]
    assert sum(len(table) for decoded in changes for table in decoded.tables) == HISTORY_ROWS
    assert not any(decoded.dead for decoded in changes)


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_once_the_shapes_are_known_only_control_records_are_unmatched(name: str) -> None:
    records, both = log(name), Grouping()
    both.decode(records)
    unnumbered = records.set_column(7, "headers", pa.array([[]] * len(records), records.schema.field("headers").type))
    before = both.unmatched
    again = both.decode(unnumbered)
    alone = [event for event in again.control if type(event).__name__ in ("SchemaChange", "Heartbeat")]
    assert both.unmatched - before == len(alone)


def _streams() -> Iterator[tuple[str, list[dict[str, Any]], int]]:
    """Records after one with ps 1 and offset 1, and the number of them that are unmatched."""
    value = plain(inserted("int", number(3, "7")))
    big = data_of(dml([ID, ("v", "int", False)], *({"newColumns": [number(3, str(n)), NIL]} for n in range(20))))
    group = split(big, 100, 2, 2)
    behind = 2 + len(group)
    yield "in order", counted([value] * 3, 2), 0
    yield "a repetition", [*counted([value] * 2, 2), *counted([value] * 4, 2)], 0
    yield "a gap", [*counted([value] * 2, 2), *counted([value] * 2, 7)], 1
    yield "no ps", [record(value, 2), record(value, 3)], 0
    yield "a ps that is none", [record(value, 2, headers=[{"key": "ps", "value": b"x"}])], 1
    yield "zeros in front", [record(value, 2, headers=[{"key": "ps", "value": b"02"}])], 0
    yield "other headers", [record(value, 2, headers=[{"key": "a", "value": None}])], 0
    yield "two ps", [record(value, 2, headers=[{"key": "ps", "value": b"2"}] * 2)], 1
    yield "a key", [record(value, 2, 2, key=b"k")], 0
    yield "partitions", [record(value, at, at - at // 4 * 4 + 1, partition=at // 4) for at in range(4, 20)], 0
    yield "shards", [record(value, at, at // 2 + 1, shard=b"s%d" % (at % 2)) for at in range(10)], 0
    yield "a shard begins again", [record(value, at, at % 3 + 1, shard=b"s") for at in range(9)], 0
    yield "a strange shard", [record(value, at, at, shard=b'\xff"') for at in range(2, 5)], 0
    yield "a group", [*group, *counted([value] * 2, behind)], 0
    yield "a group that waits", [*counted([value], 2), *split(big, 100, 3, 3)[:2]], 0
    yield "a group that is broken", [*group[:2], *counted([value] * 2, 4)], 1
    yield "a gap inside of a group", [*group[:1], *group[2:], *counted([value], behind)], len(group) - 2
    yield "total 0", [record(value.replace(b"\x10\x01", b"", 1), 2, 2)], 0
    yield "an odd group", [*split(data_of(checkpoint(7)), 20, 2, 2)], 1
    yield "no value", [record(None, 2, 2)], 1
    yield "no data", [record(envelope(b""), 2, 2)], 1
    yield "another version", [record(envelope(data_of(), version=2), 2, 2)], 1


@pytest.mark.parametrize("batches", [1, 2, 100])
@pytest.mark.parametrize("name, records, unmatched", list(_streams()), ids=[name for name, *_ in _streams()])
def test_records_follow_each_other_with(name: str, records: list[dict[str, Any]], unmatched: int, batches: int) -> None:
    both = Grouping()
    both.decode(record_batch(counted([plain(inserted("int", number(3, "7")))])))
    size = max(1, len(records) // batches)
    before = both.unmatched
    for at in range(0, len(records), size):
        both.decode(record_batch(records[at : at + size]))
    assert both.unmatched - before == unmatched


def test_a_gap_that_is_warned_of_goes_on() -> None:
    value = plain(inserted("int", number(3, "7")))
    both = Grouping(on_gap="warn")
    both.decode(record_batch(counted([value])))
    assert both.unmatched_of(*counted([value] * 2, 5), *counted([value] * 2, 9)) == 0


@pytest.mark.parametrize("options", [{"max_data_bytes": "40"}, {"max_group_bytes": "40"}])
def test_records_above_a_bound_are_not_plain(options: dict[str, str]) -> None:
    both = Grouping(**options)
    both.decode(record_batch(counted([plain(inserted("int", number(3, "7")))] * 5)))


def test_shapes_above_the_limit_are_forgotten_but_not_incomplete_fragments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defects, "MAX_SHAPES", 10)
    both, ps = Grouping(), 1
    for n in range(30):
        big = data_of(dml([ID, (f"v{n}", "int", False)], *({"newColumns": [number(3, "1"), NIL]} for _ in range(9))))
        group = split(big, 100, ps, ps)
        both.decode(record_batch(group[:1]))
        both.decode(record_batch(group[1:]))
        ps += len(group)
        assert isinstance(both.pair, GroupKernelDecoder)
        assert len(both.pair._seen) <= 11
    assert both.unmatched == 30


Mutation = Callable[[random.Random, bytes], bytes]


def _flip(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]


def _cut(r: random.Random, data: bytes) -> bytes:
    start, end = sorted(r.choices(range(len(data) + 1), k=2))
    return data[:start] + data[min(end, start + 8) :]


def _digit(r: random.Random, data: bytes) -> bytes:
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    at = r.choice(places or [0])
    return data[:at] + b"%d" % r.randrange(10) + data[at + 1 :]


def _insert(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(len(data) + 1)
    return data[:at] + r.choice([b"\0", b"\x80", b"\x08\x01", b"\x12\0", b"\x0a\0", b"\x7a\0", b"\xff"]) + data[at:]


_MUTATIONS: list[Mutation] = [_flip, _digit, _digit, _cut, _insert]


@pytest.mark.heavy
def test_kernel_and_reference_agree_on_mutated_envelopes() -> None:
    r, both = random.Random(3), Grouping(on_gap="warn")
    values = [value for value in log("one-partition").column("value").to_pylist() if len(value) < 3_000]
    dead = ps = 0
    for _ in range(20):
        made = [_in_data(r, r.choice(values)) for _ in range(100)]
        dead += len(both.decode(record_batch(counted(made, ps + 1))).dead)
        ps += len(made)
    assert dead > 500
    assert both.unmatched < 2_000, "some changes leave a sound row, which is the kernel's"


def _in_data(r: random.Random, value: bytes) -> bytes:
    """The value with its data mutated, and an envelope around it that is sound."""
    start = 6 if value[5] < 0x80 else 7
    return envelope(r.choice(_MUTATIONS)(r, value[start:]) or b"\0")
