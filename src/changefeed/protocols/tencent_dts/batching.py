"""Combines rows to entries, and entries to groups, each of which is one Entries message.

Rule 1. Entries that were read from one group become one group again.
Rule 2. Other entries join the group before them on the same topic and partition, as long as it has at most max_data_bytes.
        DDL, heartbeats and checkpoints have a group of their own; with merge_entries=false all entries have.
Rule 3. Rows with the same header and columns share an entry, unless a row was the first of its entry when it was read.
Rule 4. Groups are returned in the order in which they were begun.
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
    """A DML entry to which more rows may be added."""

    header: bytes
    row: WireRow
    origin: Origin
    changes: list[bytes]

    def written(self) -> bytes:
        """The bytes of the entry."""
        body = dml_event(self.row.kind, self.row.columns, self.changes, unknown(self.origin, "body"))
        return write_entry(DML, self.origin, self.header, body)


@dataclass(slots=True)
class OpenGroup:
    """A group to which entries are added; `source` is the record from which its events were read, None for new events."""

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
        """Closes the last entry: no more rows are added to it."""
        if self.rows is not None:
            self.add(self.rows.written())
            self.rows = None

    def add(self, entry: bytes) -> None:
        """Adds an entry."""
        self.entries.append(entry)
        self.size += _size(entry)


def _size(entry: bytes) -> int:
    """Returns the number of bytes of an entry in its Entries message."""
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
        """Returns all groups, and begins with none."""
        for group in self._groups:
            group.close_rows()
        done, self._open, self._groups = self._groups, {}, []
        return done

    def _group(self, place: Place, source: int | None, origin: Origin, shared: bool, size: int) -> OpenGroup:
        """Returns the group for an entry of this size."""
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
