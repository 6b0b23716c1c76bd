"""Single records of a batch, and dead letters for them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from changefeed.errors import ProtocolError
from changefeed.model.event import DeadLetter
from changefeed.model.position import Place

Headers = tuple[tuple[str, bytes | None], ...]


def each_record(records: pa.RecordBatch) -> Iterator[tuple[Place, bytes | None, bytes | None, Headers]]:
    """Yields position, key, value and headers of each record; `records` has the columns of `model.batch.RECORDS`."""
    columns = [records.column(name).to_pylist() for name in ("topic", "partition", "offset", "key", "value", "headers")]
    for row, (topic, partition, offset, key, value, headers) in enumerate(zip(*columns, strict=True)):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield Place(topic, partition, offset, None, row), key, value, pairs


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
    """Builds the dead letter of a record that violates its protocol.

    Args:
        hint: a sentence after the error, such as a question about the configuration.
        within: the message of the record that has the error, such as ` in message 2 of 3`.
    """
    at = "" if error.byte is None else f" at byte {error.byte}"
    where = f"{place.topic}:{place.partition}:{place.offset}"
    text = f"{protocol}: {error}{within}{at} ({where}){'.' if hint else ''}{hint}"
    return DeadLetter(error.reason, text, protocol, place, key, value, headers, error.byte)
