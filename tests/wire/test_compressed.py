"""Compressed texts as the producers' libraries write them; `tests/data/wire/compressed.json` has their digests.

Lengths are those at which a library goes over to other tables, and others between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest
import snappy

from changefeed.wire import lz4_frame
from changefeed.wire.compression import deflate, guessed, inflate

_THEIRS = json.loads((Path(__file__).parents[1] / "data/wire/compressed.json").read_text())
_LENGTHS = (
    1,
    14,
    15,
    31,
    32,
    100,
    300,
    511,
    512,
    1000,
    4095,
    4096,
    9000,
    16383,
    16384,
    40000,
    65535,
    65536,
    65537,
    90000,
)
_READ = {"snappy": snappy.decompress, "lz4": lz4.frame.decompress}


def noise(seed: str, count: int) -> bytes:
    """Bytes in which nothing repeats."""
    return hashlib.shake_128(seed.encode()).digest(count)


def rows(count: int) -> bytes:
    """JSON of many small columns, cut off."""
    drawn = noise("rows", count)
    columns = (
        f'{{"c{a % 20}":{{"t":{b % 20},"f":65,"v":"{drawn[b : b + c % 9].hex()}"}}}}'
        for a, b, c in zip(drawn, drawn[1:], drawn[2:], strict=False)
    )
    return "".join(columns).encode()[:count]


def texts() -> Iterator[tuple[str, bytes]]:
    """Texts by name."""
    for count in _LENGTHS:
        yield f"rows-{count}", rows(count)
        yield f"same-{count}", b"x" * count
        yield f"noise-{count}", noise("n", count)
    yield "noise again", noise("again", 300) * 9
    yield "long noise again", noise("again", 3000) * 30
    yield "far", noise("far", 600) + noise("between", 66_000) + noise("far", 600)
    yield "farther", noise("far", 600) + noise("between", 140_000) + noise("far", 600)
    yield "noise, rows", noise("n", 40_000) + rows(40_000)
    yield "rows, noise, rows", rows(1000) + noise("n", 70_000) + rows(1000)
    yield "several blocks", rows(50_000) * 100


TEXTS = dict(texts())


@pytest.mark.heavy
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("compression", _READ)
def test_compressed_texts_are_the_producers(compression: str, name: str) -> None:
    packed = deflate(TEXTS[name], compression)
    assert hashlib.sha256(packed).hexdigest()[:16] == _THEIRS[name][compression]
    assert _READ[compression](packed) == TEXTS[name] == inflate(packed, compression, 1 << 24)


def test_every_recorded_digest_is_tested() -> None:
    assert _THEIRS.keys() == TEXTS.keys()


def test_the_empty_text() -> None:
    assert deflate(b"", "snappy") == b"\0" == bytes(pa.Codec("snappy").compress(b"", asbytes=True))
    assert lz4.frame.decompress(deflate(b"", "lz4")) == b""


@pytest.mark.parametrize("data, total", [(b"", 0x02CC5D05), (b"abc", 0x32D153FF)])
def test_checksums_are_xxhash(data: bytes, total: int) -> None:
    assert lz4_frame.xxh32(data) == total


@pytest.mark.parametrize("compression", _READ)
def test_the_compression_is_detected_from_the_first_bytes(compression: str) -> None:
    for text in (b'{"payload":{}}', rows(60) + b'{"payload":', b'{"payload":' + noise("n", 70_000)):
        shown = text.startswith(b'{"payload":')
        assert guessed(text, b'{"payload":') == "none"
        assert guessed(deflate(text, compression), b'{"payload":') == (
            compression if shown or compression == "lz4" else "none"
        )
