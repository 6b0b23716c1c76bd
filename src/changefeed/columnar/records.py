"""Records one by one, and the dead letters they become."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from changefeed.errors import ProtocolError
from changefeed.model.event import DeadLetter
from changefeed.model.position import Place

Headers = tuple[tuple[str, bytes | None], ...]


def each_record(records: pa.RecordBatch) -> Iterator[tuple[Place, bytes | None, bytes | None, Headers]]:
    """Place, key, value and headers of each record; `records` has the columns of `model.batch.RECORDS`."""
    columns = [records.column(name).to_pylist() for name in ("topic", "partition", "offset", "key", "value", "headers")]
    for row, (topic, partition, offset, key, value, headers) in enumerate(zip(*columns, strict=True)):
        found = tuple((header["key"], header["value"]) for header in headers or ())
        yield Place(topic, partition, offset, None, row), key, value, found


def dead_letter(
    protocol: str,
    error: ProtocolError,
    place: Place,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    hint: str = "",
    within: str = "",
) -> DeadLetter:
    """The letter of a record that contradicts its protocol.

    Args:
        hint: a sentence behind the error, as a question worth asking.
        within: which message of the record it is about, as ` in message 2 of 3`.
    """
    at = "" if error.byte is None else f" at byte {error.byte}"
    where = f"{place.topic}:{place.partition}:{place.offset}"
    text = f"{protocol}: {error}{within}{at} ({where}){'.' if hint else ''}{hint}"
    return DeadLetter(error.reason, text, protocol, place, key, value, headers, error.byte)
