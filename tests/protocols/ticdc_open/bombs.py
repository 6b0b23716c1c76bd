"""Bombs of ticdc-open: lengths in front of keys and values, JSON in both, compressed values."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from tests.protocols.conformance.bombs import CHARGES, MIB, Bomb, inflating

_VERSION = struct.pack(">Q", 1)
_OPEN_KEY = b'{"ts":463267594595935302,"scm":"shop","tbl":"orders","t":1}'


def _framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">Q", len(body)) + body for body in bodies)


def _open_record(name: str, value: bytes, key: bytes = _OPEN_KEY, **more: Any) -> Bomb:
    return Bomb("ticdc-open", name, _framed(value), _VERSION + _framed(key), **more)


def bombs() -> Iterator[Bomb]:
    """The bombs of ticdc-open."""
    for name, charge in CHARGES.items():
        yield _open_record(f"a value of {name}", f'{{"u":{{"id":{{"t":3,"h":true,"f":11,"v":{charge}}}}}}}'.encode())
        yield _open_record(f"an image of {name}", f'{{"u":{charge}}}'.encode())
    column = '{"t":3,"f":0,"v":1}'
    image = ",".join(f'"c{n}":{column}' for n in range(8_000))
    yield _open_record("an image of many columns", f'{{"u":{{{image}}}}}'.encode())
    deep = '{"ts":' + "[" * 100_000
    yield _open_record("a deep key", b'{"u":{}}', deep.encode())
    for name, length in (("2^63", 2**63), ("2^64-1", 2**64 - 1), ("2^40", 2**40)):
        framed = struct.pack(">Q", length) + b"{}"
        yield Bomb("ticdc-open", f"a value of {name} bytes", framed, _VERSION + _framed(_OPEN_KEY))
        yield Bomb("ticdc-open", f"a key of {name} bytes", _framed(b"{}"), _VERSION + framed)
    nothing = struct.pack(">Q", 0) * 20_000
    yield Bomb("ticdc-open", "many empty messages", nothing, _VERSION + nothing)
    text = "{" + '"v":"' + "A" * 100 + "\\" * 1_000_001 + '"}'
    yield _open_record("backslashes", f'{{"u":{{"id":{text}}}}}'.encode())
    vector = json.dumps("[" + "1," * 200_000 + "1]")
    yield _open_record("a long vector", f'{{"u":{{"v":{{"t":225,"f":0,"v":{vector}}}}}}}'.encode())
    for kind in ("snappy", "lz4"):
        options = {"large-message-handle-compression": kind, "max-inflated-bytes": MIB}
        yield _open_record(f"{kind} of zeros", inflating(kind, 64 * MIB), options=options)
        yield _open_record(f"{kind} with a length of 4 GiB", b"\xff\xff\xff\xff\x0f" + b"\0" * 16, options=options)
