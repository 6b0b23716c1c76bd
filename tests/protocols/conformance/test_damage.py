"""Damaged bytes: a decoder returns dead letters; it never raises, returns a wrong value or hangs.

CHANGEFEED_MUTATIONS   how many records of each protocol are mutated (2000; `make nightly`: 100,000)
CHANGEFEED_SEED        seed of the mutations, new in each run; printed when a test fails, to repeat it
CHANGEFEED_CUTS=all    cuts every record of the histories and vectors at every byte, not some of them at some
"""

from __future__ import annotations

import json
import os
import random
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import protocol
from changefeed.protocols.base import Decoder
from tests.examples import by_turns
from tests.protocols.conformance.cases import Case, History, cases, compiled, decode, histories, lines, own, reference

pytestmark = pytest.mark.slow
CASES = list(cases())
HISTORIES = list(histories())
MUTATED = [history for history in HISTORIES if history.file.startswith("shop/") or "avro" in history.file]
SEED = int(os.environ.get("CHANGEFEED_SEED") or secrets.randbelow(1 << 40))
CHUNKS = 10
MUTATIONS = int(os.environ.get("CHANGEFEED_MUTATIONS", "2000")) // CHUNKS
BATCH = 500
ALL_CUTS = os.environ.get("CHANGEFEED_CUTS") == "all"
MOST = 150  # records of a history that are cut
IN_SCHEMA = 16  # of so many bytes of a schema within a record, one is a place to cut
SCHEMA = '"schema":{'
TRAILERS = (b"\0", b"{", b"\0" * 8, b"\xff" * 8)

Record = dict[str, Any]
_WHOLE: dict[str, list[Record]] = {}  # case -> its whole records


def places_of(data: bytes) -> Iterator[int]:
    """Every byte outside of schemas within the record, and some bytes of these schemas, different ones in each run."""
    at = 0
    for start, end in _schemas(data):
        yield from range(at, start)
        yield from range(start, end) if ALL_CUTS else range(start + SEED % IN_SCHEMA, end, IN_SCHEMA)
        at = end
    yield from range(at, len(data))


def _schemas(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each schema of Kafka Connect in the bytes."""
    text, at = data.decode("latin-1"), 0  # a character a byte
    while (at := text.find(SCHEMA, at)) >= 0:
        start = at + len(SCHEMA) - 1
        _, at = json.JSONDecoder().raw_decode(text, start)
        yield start, at


def cut(record: Record, part: str, places: Iterator[int]) -> Iterator[Record]:
    for place in places:
        yield {**record, part: record[part][:place]}


def checked_parts(case: Case | History, record: Record) -> tuple[str, ...]:
    """The parts of a record in which damage shows: a protocol may have keys of any bytes."""
    any_key = getattr(own(case.protocol, "silent"), "has_any_key", lambda record: False)
    return ("value",) if any_key(record) else ("key", "value")


def longer(record: Record, parts: tuple[str, ...]) -> Iterator[Record]:
    for part in parts:
        for trailer in TRAILERS if record[part] else ():
            yield {**record, part: record[part] + trailer}


def check_adds_nothing(case: Case | History, decoder: Decoder, record: Record, damaged: list[Record]) -> None:
    """Asserts that each damaged record is dead, or has no value and the same events as the whole record, none of them a row.

    A tombstone whose key names no row is an event with its bytes.
    """
    nothing = getattr(own(case.protocol, "silent"), "NOTHING", ())
    damaged = [other for other in damaged if other["value"] not in nothing]
    changes = decoder.decode(record_batch(damaged))
    assert not changes.tables
    dead = {letter.place.record for letter in changes.dead}
    tombstones = {event.place.record for event in changes.control if "tombstone" in event.origin}
    for event in changes.control:
        assert event.place.record not in dead
        if event.place.record in tombstones:
            continue
        whole = decoder.decode(record_batch([record]))
        assert not whole.tables
        assert [str(e.place) for e in whole.control] == [str(event.place)]
    assert all(place in dead | tombstones or not record["value"] for place, record in enumerate(damaged))
    assert all(letter.error for letter in changes.dead)


def whole_records(case: Case | History) -> list[Record]:
    """The records that decode without a dead letter and have an event, each by itself; computed once per process.

    If events may span several records, headers number these; headers are left out, as records are tried in any order.
    """
    if str(case) not in _WHOLE:
        _WHOLE[str(case)] = _complete_records(case)
    return _WHOLE[str(case)]


def _complete_records(case: Case | History) -> list[Record]:
    alone = protocol(case.protocol).capabilities.fragments
    columns = ["topic", "partition", "offset", "key", "value"] + ([] if alone else ["headers"])
    whole = _whole(decode(case), case.records.select(columns).to_pylist())
    return _whole(decode(case, record_batch(whole)), whole) if alone else whole


def some(records: list[Record]) -> list[Record]:
    """All records if they are few, else an evenly spaced sample."""
    return records if ALL_CUTS else records[:: -(-len(records) // MOST) or 1]


def _whole(changes: Decoded, rows: list[Record]) -> list[Record]:
    places = [letter.place.record for letter in changes.dead]
    full = {row for batch in changes.tables for row in batch.rows.column("record").to_pylist()}
    full |= {event.place.record for event in changes.control}
    return [record for place, record in enumerate(rows) if place in full and place not in places]


@pytest.mark.heavy
@pytest.mark.parametrize("case", by_turns(CASES, 3), ids=str)
def test_vector_cut_at_every_byte_is_dead(case: Case) -> None:
    decoder = reference(case)
    for record in whole_records(case):
        for part in checked_parts(case, record):
            damaged = list(cut(record, part, places_of(record[part] or b"")))
            if damaged:
                check_adds_nothing(case, decoder, record, damaged)


@pytest.mark.heavy
@pytest.mark.parametrize("history", by_turns(HISTORIES, 3, first=1), ids=str)
def test_history_cut_anywhere_is_dead(history: History) -> None:
    rng, decoder = random.Random(SEED), reference(history)
    for record in some(whole_records(history)):
        for part in checked_parts(history, record):
            size = len(record[part] or b"")
            places = range(size) if ALL_CUTS else sorted(rng.sample(range(size), min(size, 8)))
            check_adds_nothing(history, decoder, record, list(cut(record, part, iter(places))))


@pytest.mark.heavy
@pytest.mark.parametrize("case", by_turns([*CASES, *HISTORIES], 3, first=2), ids=str)
def test_trailing_bytes_are_dead(case: Case | History) -> None:
    decoder = reference(case)
    for record in some(whole_records(case)):
        check_adds_nothing(case, decoder, record, list(longer(record, checked_parts(case, record))))


def mutated(record: Record, other: Record, rng: random.Random) -> Record:
    """The record with one to four kinds of damage: bytes flipped, dropped, doubled, or taken from another record."""
    parts = {"key": bytearray(record["key"] or b""), "value": bytearray(record["value"] or b"")}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        name = rng.choice(("key", "value", "value"))
        data = parts[name]
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice(b'\0\xff"\\{}[]:,-+.eE0919tfhvupdn\x80\xed')
            case 2:
                del data[at : at + rng.randrange(1, 9)]
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 9)]
            case 4:
                donor = other[name] or b""
                start = rng.randrange(len(donor) + 1)
                data[at : at + rng.randrange(9)] = donor[start : start + rng.randrange(9)]
            case 5:
                data[at:at] = rng.choice((b"1e400", b"-0", b"99999999999999999999", b"null", b'""', b"\\ud800", b"[[["))
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 4))
    resized(parts, record, rng)
    return {**record, **{name: bytes(data) if data else record[name] and b"" for name, data in parts.items()}}


def resized(parts: dict[str, bytearray], record: Record, rng: random.Random) -> None:
    """Corrects the length in front of a single message half of the time, so that damage reaches its content.

    Does nothing for records without such a length.
    """
    if rng.random() < 0.5:
        return
    for name, at in (("key", 8), ("value", 0)):
        data, whole = parts[name], record[name] or b""
        if len(data) >= at + 8 and whole[at : at + 8] == (len(whole) - at - 8).to_bytes(8, "big", signed=True):
            data[at : at + 8] = (len(data) - at - 8).to_bytes(8, "big")


def mutations(case: History, seed: int, count: int) -> Iterator[list[Record]]:
    rng = random.Random(seed)
    records = whole_records(case)[:400]
    records += [record for vector in CASES if vector.protocol == case.protocol for record in whole_records(vector)]
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        yield [mutated(rng.choice(records), rng.choice(records), rng) for _ in range(size)]


def check_accounted(decoded: Decoded, records: int) -> None:
    places = [row for batch in decoded.tables for row in batch.rows.column("record").to_pylist()]
    places += [event.place.record for event in (*decoded.control, *decoded.dead)]
    assert set(places) <= set(range(records))
    for batch in decoded.tables:
        batch.rows.validate(full=True)
    assert lines(decoded)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", sorted({history.protocol for history in HISTORIES}))
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mutated_records_never_crash(chunk: int, protocol: str) -> None:
    recorded = [history for history in HISTORIES if history.protocol == protocol]
    history = recorded[chunk % len(recorded)]
    print(f"CHANGEFEED_SEED={SEED}, chunk {chunk} of {CHUNKS}, {history}")
    decoder = reference(history)
    for damaged in mutations(history, SEED * CHUNKS + chunk, MUTATIONS):
        check_accounted(decoder.decode(record_batch(damaged)), len(damaged))


@pytest.mark.heavy
@pytest.mark.parametrize("history", by_turns(MUTATED, 2), ids=str)
def test_kernel_reads_mutated_records_as_the_reference_does(history: History) -> None:
    twin = compiled(history)
    print(f"CHANGEFEED_SEED={SEED}, {history}")
    for damaged in mutations(history, SEED, 5 * BATCH):
        batch = record_batch(damaged)
        assert lines(compiled(history).decode(batch)) == lines(decode(history, batch))
        check_accounted(twin.decode(batch), len(damaged))
