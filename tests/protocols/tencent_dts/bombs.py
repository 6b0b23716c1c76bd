"""Bombs of tencent-dts: protobuf within protobuf, texts in it, envelopes that announce more envelopes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocols.conformance.bombs import MIB, Bomb
from tests.protocols.tencent_dts import records as dts


def _nested(levels: int) -> bytes:
    data = b"x"
    for _ in range(levels):
        data = b"\x22" + _varint(len(data)) + data
    return data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _sized(tag: bytes, data: bytes) -> bytes:
    return tag + _varint(len(data)) + data


def bombs() -> Iterator[Bomb]:
    """The bombs of tencent-dts."""
    header = _sized(b"\x0a", b"\x18\x02")  # of a DML entry
    wholes = {
        "messages in each other": _nested(1000),
        "groups in each other": b"\x0b" * 1_000_000,
        "groups, closed": b"\x0b" * 100_000 + b"\x0c" * 100_000,
        "a length of 2^63": b"\x22" + b"\xff" * 9 + b"\x01",
        "a varint without end": b"\x08" + b"\xff" * 1_000_000,
        "a tag without end": b"\xff" * 1_000_000,
        "a tag of 2^63": b"\xf8" + b"\xff" * 8 + b"\x01\x01",
        "the version, often": b"\x08\x01" * 300_000,
        "an envelope of 2^32-1": dts.envelope(b"", 2**32 - 1, 2**32 - 2),
    }
    for name, value in wholes.items():
        yield Bomb("tencent-dts", name, value)
    events = {
        "many entries": b"\x0a\0" * (MIB // 2),
        "many bad entries": b"\x0a\0" * 60_000,
        "many columns": _sized(b"\x0a", header + _sized(b"\x12", _sized(b"\x12", b"\x12\0" * (MIB // 2)))),
        "many unknown fields": _sized(b"\x0a", b"\xf8\x7f\x01" * (MIB // 2)),
        "many properties": _sized(b"\x0a", _sized(b"\x0a", b"\x18\x02" + b"\x7a\0" * (MIB // 2)) + b"\x12\0"),
        "a number of a million digits": dts.data_of(dts.inserted("int", dts.number(3, "9" * MIB))),
    }
    for name, data in events.items():
        yield Bomb("tencent-dts", name, dts.envelope(data))
    texts = {
        "a large exponent": dts.inserted("decimal(65,30)", dts.number(12, "1e999999999")),
        "an enum of quotes": dts.inserted("enum(" + "'" * MIB, dts.string(b"x")),
        "a type of brackets": dts.inserted("int" + "(" * MIB, dts.string(b"x")),
        "a type of digits": dts.inserted("decimal(" + "9" * MIB + ")", dts.string(b"x")),
        "a statement of brackets": dts.entry(3, {"ddlEvent": {"sql": "(" * 100_000}}),
        "a statement of columns": dts.entry(3, {"ddlEvent": {"sql": "CREATE TABLE t (" + "a int," * 100_000}}),
    }
    for name, entry in texts.items():
        yield Bomb("tencent-dts", name, dts.envelope(dts.data_of(entry)), harmless=True)
