"""Combines messages to records.

    Length(record) = len(key) + len(value) + 36         36 = what Kafka adds at most

Rule 1. Consecutive rows with the same topic and partition share a record: at most max-batch-size of them, as long as
        Length(record) + len(event key) + len(event value) + 16 is at most max-message-bytes.
Rule 2. Rows that were read from one Open Protocol record stay together, separate from others, within the same limits.
Rule 3. A schema change or resolved event has a record of its own.
Rule 4. Records are returned in the order in which they were begun.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.position import Place
from changefeed.protocols.ticdc_open import framing

OVERHEAD = 36
FRAME = 16  # the two lengths in front of an event's key and value
VERSION = 8


def alone(key: bytes, value: bytes) -> int:
    """Returns the length of a record with only this event."""
    return len(key) + len(value) + OVERHEAD + FRAME + VERSION


@dataclass(slots=True)
class Open:
    """A record to which messages are added. `source`: the record from which its rows were read; None for foreign rows."""

    place: Place
    source: int | None
    length: int = OVERHEAD + VERSION
    rows: int = 0
    keys: list[bytes] = field(default_factory=list)  # framed, one message or more
    values: list[bytes] = field(default_factory=list)

    def add(self, keys: bytes, values: bytes, rows: int) -> None:
        """Adds messages, each preceded by its length."""
        self.keys.append(keys)
        self.values.append(values)
        self.length += len(keys) + len(values)
        self.rows += rows


class Batches:
    """Collects messages into records."""

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._open: dict[tuple[str, int], Open] = {}
        self._records: list[Open] = []

    def add_row(self, place: Place, source: int | None, key: bytes, value: bytes) -> None:
        """Adds a row's message; `source` as in `Open`."""
        self._for(place, source, len(key) + len(value) + FRAME).add(framing.framed(key), framing.framed(value), 1)

    def _for(self, place: Place, source: int | None, size: int) -> Open:
        """Returns the record for a row of this size: the current one, or a new one."""
        record = self._open.get((place.topic, place.partition))
        if (
            record is None
            or record.source != source
            or record.rows >= self._max_rows
            or record.length + size > self._max_bytes
        ):
            record = Open(place, source)
            self._open[place.topic, place.partition] = record
            self._records.append(record)
        return record

    def add_rows(self, lines: pa.RecordBatch) -> None:
        """Adds messages of rows: topic, partition, offset, source; key and value are framed."""
        keys, values = _Frames(lines.column("key")), _Frames(lines.column("value"))
        ends = list(map(add, keys.ends, values.ends))
        offsets = lines.column("offset")
        for start, end in _stretches(lines):
            topic, partition, source = (lines.column(name)[start].as_py() for name in _SHARED)
            while start < end:
                place = Place(topic, partition, offsets[start].as_py())
                record = self._for(place, source, ends[start + 1] - ends[start])
                most = min(end, start + self._max_rows - record.rows)
                room = self._max_bytes - record.length
                after = max(start + 1, bisect_right(ends, ends[start] + room, start, most + 1) - 1)
                record.add(keys.between(start, after), values.between(start, after), after - start)
                start = after

    def add_alone(self, place: Place, key: bytes, value: bytes) -> None:
        """Adds a message with a record of its own; later rows begin a new record."""
        self._open.pop((place.topic, place.partition), None)
        record = Open(place, None)
        record.add(framing.framed(key), framing.framed(value), 1)
        self._records.append(record)

    def take(self) -> list[tuple[Place, bytes, bytes]]:
        """Returns all records: position of the first message, key, value."""
        done = [(record.place, *framing.record(record.keys, record.values)) for record in self._records]
        self._open, self._records = {}, []
        return done


_SHARED = ("topic", "partition", "source")


def _stretches(lines: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yields ranges of consecutive rows with the same position and source."""
    changes = pa.repeat(pa.scalar(False), len(lines) - 1)
    for name in _SHARED:
        column = lines.column(name)
        column = column.fill_null(-1) if column.null_count else column
        changes = pc.or_(changes, pc.not_equal(column[1:], column[:-1]))
    return pairwise([0, *(at + 1 for at in pc.indices_nonzero(changes).to_pylist()), len(lines)])


class _Frames:
    """Framed texts that are contiguous in an Arrow array."""

    def __init__(self, texts: pa.Array) -> None:
        _, ends, data = texts.buffers()
        array = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, ends], offset=texts.offset)
        self.ends: list[int] = array.to_pylist()
        self._data = memoryview(data)

    def between(self, start: int, end: int) -> bytes:
        """Returns the bytes of the texts `start` to `end`."""
        return bytes(self._data[self.ends[start] : self.ends[end]])
