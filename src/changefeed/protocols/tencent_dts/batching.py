"""Entries to groups: which ones share an Entries, and which rows share an entry.

Rule 1. Entries that were read from one group are one group again.
Rule 2. Others share one with those before them on the same topic and partition, while its bytes stay within
        max_data_bytes. DDL, heartbeats and checkpoints are alone; with merge_entries=false all are.
Rule 3. Rows with the same header and columns, of which the later ones were not first in their entry, are one entry.
Rule 4. Groups leave in the order in which they were begun.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from changefeed.model.position import Place
from changefeed.protocols.tencent_dts.envelope import Origin, unknown, write_entry
from changefeed.protocols.tencent_dts.framing import PS, SHARD
from changefeed.protocols.tencent_dts.messages import BEGIN, COMMIT, DML, ENTRIES
from changefeed.protocols.tencent_dts.rows import WireRow, dml_event
from changefeed.wire import protobuf

_SHARED = frozenset({BEGIN, COMMIT, DML})


@dataclass(slots=True)
class OpenEntry:
    """A DML entry that more rows may join."""

    header: bytes
    row: WireRow
    origin: Origin
    changes: list[bytes]

    def written(self) -> bytes:
        """The whole entry."""
        body = dml_event(self.row.kind, self.row.columns, self.changes, unknown(self.origin, "body"))
        return write_entry(DML, self.origin, self.header, body)


@dataclass(slots=True)
class OpenGroup:
    """A group that is being filled; `source` is the record its events were read from, None for new ones."""

    place: Place
    source: int | None
    stream: Origin
    envelopes: Origin | None
    shared: bool
    entries: list[bytes] = field(default_factory=list)
    size: int = 0
    rows: OpenEntry | None = None

    def data(self) -> bytes:
        """The bytes of its Entries."""
        unknown = base64.b64decode((self.envelopes or {}).get("entries", ""), validate=True)
        return protobuf.write(ENTRIES, {"items": self.entries, protobuf.UNKNOWN: unknown})

    def close_rows(self) -> None:
        """No more rows join the last entry."""
        if self.rows is not None:
            self.add(self.rows.written())
            self.rows = None

    def add(self, entry: bytes) -> None:
        """Takes an entry in."""
        self.entries.append(entry)
        self.size += _size(entry)


def _size(entry: bytes) -> int:
    """Bytes of an entry in its Entries."""
    return len(protobuf.sized(1, entry))


class Groups:
    """Collects entries into groups."""

    def __init__(self, most: int, merge: bool) -> None:
        self._most, self._merge = most, merge
        self._open: dict[tuple[str, int], OpenGroup] = {}
        self._groups: list[OpenGroup] = []

    def add(self, place: Place, source: int | None, origin: Origin, kind: int, header: bytes, body: Any) -> None:
        """Adds a control event's entry; `source` as in `OpenGroup`."""
        entry = write_entry(kind, origin, header, body)
        self._group(place, source, origin, kind in _SHARED, _size(entry)).add(entry)

    def add_row(self, place: Place, source: int | None, origin: Origin, header: bytes, row: WireRow) -> None:
        """Adds a row: to the entry before it, or as a new one."""
        group = self._open.get((place.topic, place.partition))
        if group is not None and group.rows is not None and group.source == source and origin.get("row"):
            rows = group.rows
            if (rows.header, rows.row.kind, rows.row.columns) == (header, row.kind, row.columns):
                rows.changes.append(row.change)
                return
        entry = OpenEntry(header, row, origin, [row.change])
        if source is None and "row" not in origin:
            whole = entry.written()
            self._group(place, source, origin, True, _size(whole)).add(whole)
        else:
            self._group(place, source, origin, True, 0).rows = entry

    def take(self) -> list[OpenGroup]:
        """All groups so far."""
        for group in self._groups:
            group.close_rows()
        done, self._open, self._groups = self._groups, {}, []
        return done

    def _group(self, place: Place, source: int | None, origin: Origin, shared: bool, size: int) -> OpenGroup:
        """The group that an entry of this size goes to."""
        group = self._open.get((place.topic, place.partition))
        if group is not None:
            group.close_rows()
            fits = self._merge and shared and group.shared and group.size + size <= self._most
            if group.source == source and (source is not None or fits):
                return group
        stream = {name: origin[name] for name in (PS, SHARD) if name in origin}
        envelopes = None if source is None else origin.get("envelopes") or {}
        group = OpenGroup(place, source, stream, envelopes, shared)
        self._open[place.topic, place.partition] = group
        self._groups.append(group)
        return group
