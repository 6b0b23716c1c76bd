"""Records that are damaged at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import protocol
from tests.protocols.conformance.cases import Case, History, cases, decode, histories, lines

HISTORIES = list(histories())
BATCH = 500
_WHOLE: dict[str, list[Record]] = {}  # case -> its whole records
CASES = list(cases())
Record = dict[str, Any]


def whole_records(case: Case | History) -> list[Record]:
    """The records that decode without a dead letter and have an event, each by itself; computed once per process.

    If events may span several records, headers number these; headers are left out, as records are tried in any order.
    """
    if str(case) not in _WHOLE:
        _WHOLE[str(case)] = _complete_records(case)
    return _WHOLE[str(case)]


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


def _complete_records(case: Case | History) -> list[Record]:
    alone = protocol(case.protocol).capabilities.fragments
    columns = ["topic", "partition", "offset", "key", "value"] + ([] if alone else ["headers"])
    whole = _whole(decode(case), case.records.select(columns).to_pylist())
    return _whole(decode(case, record_batch(whole)), whole) if alone else whole


def _whole(changes: Decoded, rows: list[Record]) -> list[Record]:
    places = [letter.place.record for letter in changes.dead]
    full = {row for batch in changes.tables for row in batch.rows.column("record").to_pylist()}
    full |= {event.place.record for event in changes.control}
    return [record for place, record in enumerate(rows) if place in full and place not in places]
