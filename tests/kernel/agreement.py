"""Kernel and reference side by side: they must decode the same records to the same changes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from changefeed.codec import decoding
from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols.base import Decoder, Stores
from tests.kernel.differing import difference

HISTORIES = Path(__file__).parents[1] / "data" / "shop" / "ticdc-open"
NAMES = ("open-1.classic", "open-3.newarch")


def history(name: str) -> list[dict[str, Any]]:
    """The records of a recorded history."""
    with gzip.open(HISTORIES / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [_record(json.loads(line)) for line in lines]


def _record(line: dict[str, Any]) -> dict[str, Any]:
    bodies = {name: base64.b64decode(line[name]) for name in ("key", "value")}
    return {**bodies, **{name: line[name] for name in ("topic", "partition", "offset")}}


def made(records: Sequence[tuple[bytes | None, bytes | None]]) -> pa.RecordBatch:
    """A batch of these keys and values."""
    rows = [
        {"key": key, "value": value, "topic": "t", "partition": at % 3, "offset": at}
        for at, (key, value) in enumerate(records)
    ]
    return record_batch(rows)


def framed(messages: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Key and value of the record that holds these messages."""
    key = (1).to_bytes(8, "big") + b"".join(len(k).to_bytes(8, "big") + k for k, _ in messages)
    return key, b"".join(len(v).to_bytes(8, "big") + v for _, v in messages)


def unframed(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """The messages of a sound record."""
    return list(zip(_parts(key[8:]), _parts(value), strict=True))


def _parts(data: bytes) -> Iterator[bytes]:
    while data:
        end = 8 + int.from_bytes(data[:8], "big")
        yield data[8:end]
        data = data[end:]


class Both:
    """A reference and a kernel that see the same batches, one after the other."""

    def __init__(self, protocol: str = "ticdc-open", stores: Stores | None = None, **options: Any) -> None:
        named = {name.replace("_", "-"): value for name, value in options.items()}
        self.reference: Decoder = decoding.decoder(protocol, named, stores, kernel="off")
        self.pair = decoding.decoder(protocol, named, stores, kernel="on")

    @property
    def unmatched(self) -> int:
        """The number of records that the kernel left to the reference."""
        assert isinstance(self.pair, KernelDecoder)
        return self.pair.unmatched

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """The changes; asserts that both decode the same."""
        expected, changes = self.reference.decode(records), self.pair.decode(records)
        assert difference(expected, changes) is None
        return changes


def topical(records: list[tuple[bytes | None, bytes | None]], topics: list[str] | None = None) -> pa.RecordBatch:
    """A batch of these keys and values, in these topics."""
    topics = topics or ["t"] * len(records)
    return record_batch(
        {"key": key, "value": value, "topic": topic, "partition": 0, "offset": at}
        for at, ((key, value), topic) in enumerate(zip(records, topics, strict=True))
    )


def both_of_avro(texts: dict[int, str], **options: Any) -> Both:
    """`Both` for ticdc-avro, with these schemas."""
    return Both("ticdc-avro", Stores(get_schema=texts.__getitem__), **options)
