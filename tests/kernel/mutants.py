"""Mutants: records with accidents, and rows of one table in many shapes, by the kernel and by the reference.

    base records ─▶ small batches ─────────────────────────▶ kernel and reference: shapes are registered
         ▲                └─ mutants that are rows ─┐
         └──────────────────────────────────────────┘
         └─▶ large batches ─▶ the kernel alone ─▶ records that it takes, some others ─▶ kernel and reference

Both must return the same: tables with their shapes (columns, types, keys, which columns each image carries, wire text), rows with
all that they have, events, and dead letters with place, reason, and error.

Rule 1. A record that the kernel does not take is decoded by the reference, with the kernel and without
        (`changefeed.codec.kernel_decoder`, rule 2). So of a large batch all records are shown to the kernel, and those that it
        takes are compared, with one in `_SOME` of the others; it decodes a whole batch of these again. A record that it did
        not take is shown again with each of the next batches, after more shapes were registered.
Rule 2. Small batches are compared as they are. Mutants that are rows become base records, whose mutants the kernel takes
        in shapes that no sound record has.
Rule 3. A short record is taken as a base more often than a long one, in which most accidents hit a schema that is written
        out; rows more often than other events.
Rule 4. A kernel that panics, or a decoder that raises, is caught by the net under both (`changefeed.codec.defects`): here that
        counts as raised, even if what the net makes of it is the same. So does an error in making the chunks of a pipeline.

A seed makes the same batches each time. Every run has a new one; CHANGEFEED_SEED repeats a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from changefeed.codec import decoding
from changefeed.codec.placement import headers_of
from changefeed.codec.record_groups import GroupKernelDecoder
from changefeed.codec.topics import TopicBatch
from changefeed.model.batch import Decoded, record_batch, record_columns
from changefeed.protocols import protocol
from changefeed.protocols.base import FragmentDecoder
from changefeed.stages.decode import RecordReader
from tests.kernel import accidents
from tests.kernel.differing import difference
from tests.protocols.conformance.cases import Case, History, cases, histories, reference, stores
from tests.protocols.conformance.damage import whole_records

Record = dict[str, Any]
SMALL, LARGE = 100, 1500  # records
_SMALL_BATCHES, _LARGE_BATCHES = 2, 4  # that two decoders see, before new ones do
_SOME, _FEW = 32, 6
_MOST_BASES = 600  # records of a history
_MOST_ROWS = 12  # mutants of a small batch that become base records
_COLUMNS = ("topic", "partition", "offset", "key", "value")
_PS = "ps"  # the header that counts the records of tencent-dts
_SINGLE: dict[str, Callable[[bytes | None, bytes | None], Sequence[tuple[bytes | None, bytes | None]]]] = {
    "tencent-dts": accidents.single_rows,
    "ticdc-open": accidents.single_messages,
}
_STRUCTURE: dict[str, accidents.Change] = {
    "debezium-mysql": accidents.in_json,
    "tencent-dts": accidents.in_fields,
    "ticdc-avro": accidents.in_blob,
    "ticdc-debezium": accidents.in_json,
    "ticdc-open": accidents.framed(accidents.in_json),
}
_BYTES = _STRUCTURE | dict.fromkeys(("debezium-mysql", "ticdc-debezium"), accidents.in_blob)
_BYTES["ticdc-open"] = accidents.framed(accidents.in_blob)


@dataclass(slots=True)
class Count:
    """Counts of the records that were compared, and the differences.

    Attributes:
        records: mutants that were shown to the kernel.
        compared: decoded by both.
        taken: compared, and decoded by the kernel.
        rows, dead, shapes: of those that were compared.
        raised, different: each with the seed that makes it again.
    """

    records: int = 0
    compared: int = 0
    taken: int = 0
    rows: int = 0
    dead: int = 0
    shapes: int = 0
    raised: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)

    def rarest(self) -> int:
        """The smallest number of what a comparison must have: rows, dead letters, records that the kernel decodes."""
        return min(self.rows, self.dead, self.taken)


@dataclass(frozen=True, slots=True)
class Pool:
    """Sound records, with the cumulated weights by which they are drawn."""

    records: list[Record]
    weights: list[float]

    def some(self, rng: random.Random, count: int) -> list[Record]:
        """Draws `count` of them, perhaps some more than once."""
        return rng.choices(self.records, self.weights, k=count)


@cache
def sources(name: str) -> list[History]:
    """The histories of a protocol that the kernel has a decoder for."""
    return [h for h in histories() if h.protocol == name and _has_kernel(h)]


def _has_kernel(history: History) -> bool:
    chosen = protocol(history.protocol)
    return chosen.kernel is not None and chosen.kernel.call(chosen.read_options(history.options)) is not None


@cache
def _pool(name: str, file: str) -> Pool:
    """Sound records of a history."""
    history = next(h for h in sources(name) if h.file == file)
    return _weighed(_plain(whole_records(history)[:_MOST_BASES]), history)


@cache
def _vectors(name: str) -> Pool | None:
    """Sound records of the protocol's vectors."""
    pools = [_weighed(_plain(whole_records(case)), case) for case in cases() if case.protocol == name]
    records = [record for pool in pools for record in pool.records]
    return Pool(records, [weight for pool in pools for weight in pool.weights]) if records else None


def _plain(records: list[Record]) -> list[Record]:
    return [{part: record[part] for part in _COLUMNS} for record in records]


def _weighed(records: list[Record], case: Case | History) -> Pool:
    """A pool of these records, and of each event of records with several events by itself."""
    single = _SINGLE.get(case.protocol)
    parts = [
        {**record, "key": key, "value": value}
        for record in (records if single else ())
        for key, value in (single(record["key"], record["value"]) if single else ())
    ]
    records += parts[:: len(parts) // _MOST_BASES + 1]
    if not records:
        return Pool([], [])
    changes = reference(case).decode(record_batch(records))
    rows = {row for table in changes.tables for row in table.rows.column("record").to_pylist()}
    sizes = [100 + len(record["key"] or b"") + len(record["value"] or b"") for record in records]
    return Pool(records, [(1.0 if row in rows else 0.1) / size for row, size in enumerate(sizes)])


def _mutant(name: str, record: Record, other: Record, rng: random.Random) -> Record:
    """The record with one to three accidents."""
    out, structural = dict(record), {"key": 0, "value": 0}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        part = rng.choice(("key", "value", "value", "value")) if record["key"] is not None else "value"
        data = out[part]
        if data is None:
            continue
        match rng.randrange(20):
            case 0:
                out[part] = other[part]
            case 1 if rng.random() < 0.5:
                out["key"] = rng.choice((None, b"", other["key"] or b"{}"))
            case 2:
                out[part] = accidents.in_bytes(data, other[part] or b"", rng)
            case 3 | 4 | 5:
                out[part] = _BYTES[name](data, rng, 1)
            case _:
                structural[part] += 1
    for part, times in structural.items():
        if times and out[part] is not None:
            out[part] = _STRUCTURE[name](out[part], rng, times)
    return out


def _mutants(name: str, bases: list[Record], rng: random.Random, count: int, sound: float) -> list[Record]:
    """Mutants of base records; a part of them is sound."""
    return [
        record if rng.random() < sound else _mutant(name, record, other, rng)
        for record, other in zip(rng.choices(bases, k=count), rng.choices(bases, k=count), strict=True)
    ]


def _batch(records: Sequence[Record], numbers: dict[tuple[str, int], int] | None) -> pa.RecordBatch:
    """The records; where there are `numbers`, each has a header with the number that follows the last of its partition."""
    columns = {part: [record[part] for record in records] for part in _COLUMNS}
    if numbers is not None:
        streams = list(zip(columns["topic"], columns["partition"], strict=True))
        columns["headers"] = []
        for stream in streams:
            numbers[stream] = numbers.get(stream, 0) + 1
            columns["headers"].append([{"key": _PS, "value": b"%d" % numbers[stream]}])
    return record_columns(len(records), **columns)


class Round:
    """A reference and a kernel with it that see the same batches, one after the other.

    Args:
        count: where the results are added.
        where: what repeats the round, for errors.
        large: number of records of a large batch.
    """

    def __init__(self, history: History, count: Count, where: str, large: int = LARGE) -> None:
        options = protocol(history.protocol).read_options(history.options)
        schemas = stores(options)
        self._name, self._file, self._count, self._where = history.protocol, history.file, count, where
        self._large = large
        self._reference: Any = decoding.decoder(history.protocol, options, schemas, kernel="off")
        self._twin: Any = decoding.decoder(history.protocol, options, schemas, kernel="on")
        self._reader = RecordReader(history.protocol, history.options)
        self._numbers: dict[tuple[str, int], int] | None = {} if history.protocol == "tencent-dts" else None
        _caught_by_net(self._reference, self._raised)
        _caught_by_net(self._twin, self._raised)

    def run(self, rng: random.Random) -> None:
        """Makes batches and compares them."""
        bases = _bases(self._name, self._file, rng)
        grown: list[Record] = []
        for _ in range(_SMALL_BATCHES):
            records = _mutants(self._name, bases, rng, SMALL, 0.25)
            decoded = self._compare(records)
            self._count.records += sum(not any(record is base for base in bases) for record in records)
            rows = {row for table in decoded.tables for row in table.rows.column("record").to_pylist()}
            rows -= {letter.place.record for letter in decoded.dead}
            grown += [records[row] for row in rng.sample(sorted(rows), min(len(rows), _MOST_ROWS))]
        left: list[Record] = []
        for _ in range(_LARGE_BATCHES):
            records = _mutants(self._name, bases + grown, rng, self._large, 0.0)
            self._count.records += len(records)
            left = self._screen(records, left, rng)

    def _screen(self, records: list[Record], again: list[Record], rng: random.Random) -> list[Record]:
        """Compares what the kernel takes, now or when it is shown it again, and some of the others; returns the rest."""
        new, records = len(records), records + again
        refused, unsure = self._refused(_batch(records, None if self._numbers is None else {}))
        left = [row for row in refused if row >= new or rng.randrange(_SOME)]
        left += [row for row in unsure if row >= new or rng.randrange(_FEW)]
        chosen = set(range(len(records))).difference(left)
        if chosen:
            self._compare([records[row] for row in sorted(chosen)])
        return [records[row] for row in left]

    def _refused(self, batch: pa.RecordBatch) -> tuple[list[int], list[int]]:
        """See `refused`; the same if the kernel raises."""
        try:
            return refused(self._twin, batch)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            self._raised(f"{type(error).__name__}: {error}")
            return [], []

    def _compare(self, records: list[Record]) -> Decoded:
        batch, before = _batch(records, self._numbers), self._twin.unmatched
        expected: Decoded = self._reference.decode(batch)
        actual: Decoded = self._twin.decode(batch)
        count = self._count
        count.compared += len(batch)
        count.taken += len(batch) - (self._twin.unmatched - before)
        count.rows += sum(map(len, expected.tables))
        count.dead += len(expected.dead)
        count.shapes += len(expected.tables)
        for letter in (*expected.dead, *actual.dead):
            if letter.reason == "defect":
                self._raised(letter.error)
        self._pack(expected, batch)
        if why := difference(expected, actual):
            count.different.append(f"{self._where}: {why}")
        elif isinstance(self._reference, FragmentDecoder) and not self._reference.waiting().equals(
            self._twin.waiting()
        ):
            count.different.append(f"{self._where}: other records wait")
        return expected

    def _pack(self, decoded: Decoded, records: pa.RecordBatch) -> None:
        """Makes the chunks that a pipeline makes of the decoded records."""
        try:
            self._reader.pack(self._reader.complete(decoded, records), records)
        except Exception as error:  # counted, whatever it is
            self._raised(f"pack: {type(error).__name__}: {error}")

    def _raised(self, why: str) -> None:
        self._count.raised.append(f"{self._where}: {why}")


def refused(twin: Any, batch: pa.RecordBatch) -> tuple[list[int], list[int]]:
    """The rows of records that the kernel under `twin` does not take with the shapes registered so far.

    The second list has the rows of records that may not be groups by themselves: the reference decides which of them the
    kernel gets, and their data is like that of the others.
    """
    if not isinstance(twin, GroupKernelDecoder):
        return twin._run_kernel(TopicBatch(batch, {}), None, Decoded([], [], [])).to_pylist(), []
    headers = headers_of(batch)
    keys, values, topics = batch.column("key"), batch.column("value"), batch.column("topic").cast(pa.binary())
    runs = twin._kernel.runs(keys, values, headers, topics, batch.column("partition"))
    plain = [row for start, count, *_ in runs for row in range(start, start + count)]
    _, unmatched, *_ = twin._kernel.decode(keys, values, pa.array(plain, pa.int32()), headers=headers)
    return unmatched.to_pylist(), sorted(set(range(len(batch))).difference(plain))


def _caught_by_net(door: Any, raised: Callable[[str], None]) -> None:
    """Calls `raised` when the net under a decoder catches something, before the net handles it."""
    saved = door._recovered

    def recovered(records: pa.RecordBatch, mark: Any) -> Any:
        raised(f"a batch of {len(records)} records could not be decoded as a whole")
        return saved(records, mark)

    door._recovered = recovered


def _bases(name: str, file: str, rng: random.Random) -> list[Record]:
    """Records of a few tables, of a history and of vectors."""
    pool, vectors = _pool(name, file), _vectors(name)
    few = pool.some(rng, rng.choice((2, 3, 4, 5, 6, 7, 8, 40)))
    if vectors is not None and rng.random() < 0.3:
        few += vectors.some(rng, 2)
    return few


def compare(name: str, seed: int, records: int, large: int = LARGE) -> Count:
    """Makes at least `records` mutants from this seed and compares kernel and reference; see the top of the module.

    A round may draw records that the kernel does not take, or that have no rows. Rounds follow until there is one in a hundred
    of each kind, up to ten times as many records.
    """
    rng, count, number = random.Random(seed), Count(), 0
    while count.records < records or (count.rarest() <= records // 100 and count.records < 10 * records):
        history = rng.choice(sources(name))
        where = f"{name} {history.file} seed {seed} round {number} batches of {large}"
        Round(history, count, where, large).run(rng)
        number += 1
    return count
