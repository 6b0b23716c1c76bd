"""The kernel against the reference on recorded histories, whole and mutated."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable

import pytest

from changefeed.model.batch import record_batch
from tests.kernel.agreement import NAMES, Both, framed, history, made, unframed

BATCH = 1000
SEED = int(os.environ.get("CHANGEFEED_SEED") or secrets.randbelow(1 << 40))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [50, 500, 10_000])
def test_kernel_and_reference_agree_on_a_history_in_batches_of(name: str, size: int) -> None:
    records, both = history(name), Both()
    rows = sum(
        len(table)
        for start in range(0, len(records), size)
        for table in both.decode(record_batch(records[start : start + size])).tables
    )
    assert rows == 4629


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_once_the_shapes_are_known_only_control_records_are_unmatched(name: str) -> None:
    records, both = record_batch(history(name)), Both()
    both.decode(records)
    before = both.unmatched
    again = both.decode(records)
    assert both.unmatched - before == len(again.control)


Mutation = Callable[[random.Random, bytes], bytes]
# Replacements for a value: forms that a type supports, nearly supports, or leaves to the reference.
_VALUES = [
    b"null", b"0", b"-0", b"-1", b"1.0", b"1e3", b"007", b"2155", b"2156",
    b"18446744073709551615", b"18446744073709551616",
    b"1e400", b"0.1e-50", b"true", b"{}", b"[]", b'""', b'"x"', b'"0000-00-00"', b'"2026-02-30"', b'"2026-01-02"',
    b'"2026-01-02 03:04:05"', b'"2026-01-02 03:04:05.1"', b'"2026-01-02 03:04:05.123"', b'"0000-00-00 00:00:00"',
    b'"-838:59:59.000"', b'"839:00:00"', b'"00:00:00"', b'"-0.00"', b'"12.5"', b'"1e5"', b'"AAEC"', b'"AAE"', b'"/w=="',
    b'"\\ud83d\\ude00"', b'"\\ud83d"', b'"\\u00e9\\/"', b'"\\\\x41\\\\u00e9"', b'"\\\\101"',
    b'"\xff"', b'"\xc3\xa9"', b'"\t"', b'"[1,2.5]"',
]  # fmt: skip
_TOKENS = [
    b" ",
    b"\n",
    b",",
    b'"',
    b"\\",
    b"{",
    b"}",
    b":",
    b'"h":true,',
    b'"f":65,',
    b'"t":12',
    b'"p":{',
    b"\xff",
    b"\x00",
]


def _flip(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]


def _cut(r: random.Random, data: bytes) -> bytes:
    start, end = sorted(r.choices(range(len(data) + 1), k=2))
    return data[:start] + data[min(end, start + 8) :]


def _insert(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(len(data) + 1)
    return data[:at] + r.choice(_TOKENS) + data[at:]


def _digit(r: random.Random, data: bytes) -> bytes:
    places = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    at = r.choice(places or [0])
    return data[:at] + b"%d" % r.randrange(10) + data[at + 1 :]


def _value(r: random.Random, data: bytes) -> bytes:
    parts = data.split(b'"v":')
    if len(parts) < 2:
        return _flip(r, data)
    at = r.randrange(1, len(parts))
    end = parts[at].find(b"}")
    parts[at] = r.choice(_VALUES) + parts[at][end:]
    return b'"v":'.join(parts)


_JSON: list[Mutation] = [_flip, _cut, _insert, _digit, _value, _value, _value]
_FRAMED: list[Mutation] = [_flip, _cut, _insert]


def _mutated(r: random.Random, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Mostly one JSON text is changed and framed again, so that most changes are seen by more than the framing."""
    if r.random() < 0.1:
        mutation = r.choice(_FRAMED)
        return (mutation(r, key), value) if r.random() < 0.3 else (key, mutation(r, value) if value else b"\0")
    messages = unframed(key, value)
    at = r.randrange(len(messages))
    one, body = messages[at]
    if r.random() < 0.2 or not body:
        one = r.choice(_JSON)(r, one)
    else:
        body = r.choice(_JSON)(r, body)
    messages[at] = one, body
    return framed(messages)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kernel_and_reference_agree_on_mutations_of(name: str) -> None:
    print(f"CHANGEFEED_SEED={SEED}")
    r, both, count = random.Random(SEED), Both(), 2_000
    records = [(record["key"], record["value"]) for record in history(name)]
    dead = 0
    for _ in range(0, count, BATCH):
        batch = [_mutated(r, *r.choice(records)) if r.random() < 0.9 else r.choice(records) for _ in range(BATCH)]
        dead += len(both.decode(made(batch)).dead)
    assert dead > count // 4
    assert both.unmatched < count * 0.95, "some changes leave a sound row, which is the kernel's"
