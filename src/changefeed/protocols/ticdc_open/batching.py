"""Rows to records: which messages share one.

    Length(record) = len(key) + len(value) + 36         36 = what Kafka adds at most

Rule 1. Rows share a record while topic and partition are the same, at most max-batch-size of them, and
        Length(record) + len(event key) + len(event value) + 16 stays within max-message-bytes.
Rule 2. Rows that were read from one Open Protocol record stay together, and apart from others; limits still apply.
Rule 3. Schema changes and resolved marks are records of their own.
Rule 4. Records leave in the order in which they were begun.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from changefeed.model.position import Place
from changefeed.protocols.ticdc_open import framing

OVERHEAD = 36
FRAME = 16  # the two lengths in front of an event's key and value
VERSION = 8


def alone(key: bytes, value: bytes) -> int:
    """Length of the record that holds this one event."""
    return len(key) + len(value) + OVERHEAD + FRAME + VERSION


@dataclass(slots=True)
class Open:
    """A record that is still being filled. `source` is the record its rows came in, None for rows from elsewhere."""

    place: Place
    source: int | None
    length: int = OVERHEAD + VERSION
    messages: list[tuple[bytes, bytes]] = field(default_factory=list)


class Batches:
    """Collects messages into records."""

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._open: dict[tuple[str, int], Open] = {}
        self._records: list[Open] = []

    def add_row(self, place: Place, source: int | None, key: bytes, value: bytes) -> None:
        """Adds a row's message; `source` as in `Open`."""
        size = len(key) + len(value) + FRAME
        record = self._open.get((place.topic, place.partition))
        if (
            record is None
            or record.source != source
            or len(record.messages) >= self._max_rows
            or record.length + size > self._max_bytes
        ):
            record = Open(place, source)
            self._open[place.topic, place.partition] = record
            self._records.append(record)
        record.messages.append((key, value))
        record.length += size

    def add_alone(self, place: Place, key: bytes, value: bytes) -> None:
        """Adds a message that has a record to itself; rows after it begin a new one."""
        self._open.pop((place.topic, place.partition), None)
        self._records.append(Open(place, None, messages=[(key, value)]))

    def take(self) -> list[tuple[Place, bytes, bytes]]:
        """All records so far: place of the first message, key, value."""
        done = [(record.place, *framing.join(record.messages)) for record in self._records]
        self._open, self._records = {}, []
        return done
