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

import pytest

from changefeed.model.batch import record_batch
from changefeed.protocols.base import Decoder
from tests.examples import by_turns
from tests.protocols.conformance.cases import Case, History, compiled, decode, lines, own, reference
from tests.protocols.conformance.damage import (
    BATCH,
    CASES,
    HISTORIES,
    Record,
    check_accounted,
    mutations,
    whole_records,
)

pytestmark = pytest.mark.slow
MUTATED = [history for history in HISTORIES if history.file.startswith("shop/") or "avro" in history.file]
SEED = int(os.environ.get("CHANGEFEED_SEED") or secrets.randbelow(1 << 40))
CHUNKS = 10
MUTATIONS = int(os.environ.get("CHANGEFEED_MUTATIONS", "2000")) // CHUNKS
ALL_CUTS = os.environ.get("CHANGEFEED_CUTS") == "all"
MOST = 150  # records of a history that are cut
IN_SCHEMA = 16  # of so many bytes of a schema within a record, one is a place to cut
SCHEMA = '"schema":{'
TRAILERS = (b"\0", b"{", b"\0" * 8, b"\xff" * 8)


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


def some(records: list[Record]) -> list[Record]:
    """All records if they are few, else an evenly spaced sample."""
    return records if ALL_CUTS else records[:: -(-len(records) // MOST) or 1]


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
