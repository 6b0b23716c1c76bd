"""Harnesses for the contract of event sinks: they provide the sink and read its records; see `event_conformance.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from changefeed.model.batch import Decoded, record_batch
from changefeed.model.event import Resolved
from changefeed.model.position import Place
from changefeed.protocols.base import Encoder
from changefeed.sinks.events import EventSink

Row = dict[str, Any]
Make = Callable[[], Encoder]
Hook = Callable[[], None]


class Harness(Protocol):
    """An event sink under test."""

    def topic(self, partitions: int = 1) -> str:
        """The name of a new topic."""
        ...

    def sink(self, encoder: Make, owner: str = "changefeed:test:1") -> EventSink:
        """The sink, opened again; every call sees the same records."""
        ...

    def records(self) -> list[Row]:
        """The records that a reader of the target sees, in order within each partition."""
        ...

    def at(self, place: str, hook: Hook) -> None:
        """Calls the hook once, right `before` or `after` the next append takes effect; the append raises the hook's error."""
        ...


@dataclass
class Once:
    """Hooks that are called once."""

    hooks: dict[str, Hook] = field(default_factory=dict)

    def __call__(self, place: str) -> None:
        self.hooks.pop(place.removeprefix("append."), lambda: None)()


class Plain:
    """An encoder that writes a record for each resolved event: its commit_ts, at the mark's position."""

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        return record_batch(
            {"topic": e.place.topic, "partition": e.place.partition, "value": str(e.commit_ts).encode()}
            for e in changes.control
            if isinstance(e, Resolved)
        )


def marks(topic: str, *commit_ts: int, partition: int = 0) -> Decoded:
    """Changes that `Plain` writes one record for each of."""
    places = (Place(topic, partition, n, record=n) for n in range(len(commit_ts)))
    return Decoded(control=[Resolved(ts, place) for place, ts in zip(places, commit_ts, strict=True)])


@dataclass
class Given:
    """An encoder that ignores the changes and writes the test's records."""

    rows: list[Row]

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        return record_batch(self.rows)


def written_by_encoder(rows: list[Row]) -> list[Row]:
    """The columns of records that an encoder writes."""
    names = ("topic", "partition", "key", "value")
    return [{**{name: row[name] for name in names}, "headers": row["headers"] or []} for row in rows]
