"""Mutants: records with accidents, and rows of one table in many shapes, by the kernel and by the reference.

What both say must be the same: tables with their shapes (columns, types, keys, which columns each image carries, wire text),
rows with all that they have, events, and dead letters with place, reason, and error. NaN is NaN.

A seed makes the same batches each time. Every run has a new one; CHANGEFEED_SEED repeats a run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from changefeed import kernel
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import protocol
from changefeed.protocols.base import FragmentDecoder
from tests.kernel import accidents
from tests.protocols.conformance.cases import History, cases, histories, stores
from tests.protocols.conformance.test_damage import whole_records

Record = dict[str, Any]
BATCH = 100  # records
_BATCHES = 12  # that two decoders see, before new ones do
_STRUCTURE: dict[str, accidents.Change] = {
    "debezium-mysql": accidents.in_json,
    "tencent-dts": accidents.in_fields,
    "ticdc-avro": lambda data, rng: accidents.in_bytes(data, data, rng),
    "ticdc-debezium": accidents.in_json,
    "ticdc-open": accidents.framed(accidents.in_json),
}


@dataclass(slots=True)
class Count:
    """What came of some records."""

    records: int = 0
    rows: int = 0
    dead: int = 0
    shapes: int = 0
    raised: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


@cache
def sources(name: str) -> list[History]:
    """The histories of a protocol that the kernel has a decoder for."""
    return [h for h in histories() if h.protocol == name and _has_kernel(h)]


def _has_kernel(history: History) -> bool:
    options = protocol(history.protocol).read_options(history.options)
    twin: Any = kernel._KERNELS[history.protocol]
    return twin(options) is not None


@cache
def _pool(name: str, file: str) -> tuple[list[Record], list[Record]]:
    """Sound records of a history, and those of the protocol's vectors."""
    history = next(h for h in sources(name) if h.file == file)
    others = [record for case in cases() if case.protocol == name for record in whole_records(case)]
    return whole_records(history)[:600], others


def batches(name: str, file: str, rng: random.Random, count: int) -> Iterator[list[Record]]:
    """So many batches of records, each of a few tables."""
    own, others = _pool(name, file)
    for _ in range(count):
        few = rng.sample(own, min(len(own), rng.randrange(2, 9)))
        if others and rng.random() < 0.3:
            few.append(rng.choice(others))
        if rng.random() < 0.1:
            few = own
        yield [_mutant(name, rng.choice(few), rng.choice(few), rng) for _ in range(BATCH)]


def _mutant(name: str, record: Record, other: Record, rng: random.Random) -> Record:
    chance, out = rng.random(), {part: record[part] for part in ("topic", "partition", "offset", "key", "value", "headers") if part in record}
    if chance < 0.25:
        return out
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        part = rng.choice(("key", "value", "value", "value"))
        data = out[part]
        if data is None:
            continue
        match rng.randrange(20):
            case 0:
                out[part] = other[part]
            case 1:
                out["key"] = rng.choice((None, b"", other["key"]))
            case 2 | 3 | 4 | 5:
                out[part] = accidents.in_bytes(data, other[part] or b"", rng)
            case _:
                out[part] = _STRUCTURE[name](data, rng)
    return out


def compare(name: str, seed: int, records: int) -> Count:
    """Decodes some records that this seed makes, by the kernel and by the reference."""
    rng, count = random.Random(seed), Count()
    while count.records < records:
        history = rng.choice(sources(name))
        options = protocol(name).read_options(history.options)
        given = stores(options)
        reference = kernel.decoder(name, options, given, kernel="off")
        twin = kernel.decoder(name, options, given, kernel="on")
        for number, batch in enumerate(batches(name, history.file, rng, _BATCHES)):
            where = f"{name} {history.file} seed {seed} batch {count.records // BATCH} ({number} of its decoders)"
            found = record_batch(batch)
            expected, actual = reference.decode(found), twin.decode(found)
            count.records += len(batch)
            count.rows += sum(map(len, expected.tables))
            count.dead += len(expected.dead)
            count.shapes += len(expected.tables)
            count.raised += [f"{where}: {letter.error}" for letter in (*expected.dead, *actual.dead) if letter.reason == "defect"]
            if why := difference(expected, actual):
                count.different.append(f"{where}: {why}")
            elif isinstance(reference, FragmentDecoder) and isinstance(twin, FragmentDecoder):
                if not reference.waiting().equals(twin.waiting()):
                    count.different.append(f"{where}: other records wait")
    return count


def difference(expected: Decoded, actual: Decoded) -> str | None:
    """The first thing that the kernel says otherwise; None where both say the same."""
    ours, theirs = [t.shape for t in actual.tables], [t.shape for t in expected.tables]
    if ours != theirs:
        odd = [shape for shape in ours if shape not in theirs], [shape for shape in theirs if shape not in ours]
        return f"shapes {ours!r:.1000}, expected {theirs!r:.1000}; only in one: {odd!r:.2000}"
    for mine, other in zip(actual.tables, expected.tables, strict=True):
        name = f"{mine.shape.database}.{mine.shape.table}"
        if not mine.rows.schema.equals(other.rows.schema, check_metadata=True):
            return f"{name} has {mine.rows.schema}, expected {other.rows.schema}"
        if not mine.rows.equals(other.rows):
            for row, wanted in zip(mine.rows.to_pylist(), other.rows.to_pylist(), strict=False):
                if repr(row) != repr(wanted):  # repr: NaN is NaN, and -0.0 is not 0.0
                    return f"{name}: {row!r:.1500}, expected {wanted!r:.1500}"
            if len(mine) != len(other):
                return f"{name} has {len(mine)} rows, expected {len(other)}"
    for kind in ("control", "dead"):
        for one, wanted_one in zip(getattr(actual, kind), getattr(expected, kind), strict=False):
            if repr(one) != repr(wanted_one):
                return f"{kind} {one!r:.1500}, expected {wanted_one!r:.1500}"
        if len(getattr(actual, kind)) != len(getattr(expected, kind)):
            return f"{len(getattr(actual, kind))} {kind}, expected {len(getattr(expected, kind))}"
    return None
