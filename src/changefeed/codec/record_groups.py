"""Kernel and reference for protocols whose events span several records: records are grouped first, then groups decoded.

    records ─ kernel ─▶ runs of plain records, which the reference skips at once
                 └─ other records, one by one ─▶ reference ─▶ groups, refusals, incomplete groups
    groups ─▶ kernel ─▶ rows and marks of the registered shapes
                 └─ unmatched ─▶ reference: the first unknown entry ─▶ a new shape, or its events; then retry

Rule 1. Only the reference keeps the sequence of records: the kernel finds the records of a batch that look plain and have
        consecutive numbers, and the reference decides whether they follow the last one that it has seen.
Rule 2. The position of a group is that of its last record. Groups of several records go to the kernel as their joined bytes.
Rule 3. A group may contain thousands of rows, so the reference decodes only the unmatched entries of it; it decodes the whole
        group if an entry is dead or alone, or if there are too many. Unmatched groups are decoded in order, because shapes
        are registered in the order in which the reference makes them.
Rule 4. The kernel returns transaction marks in columns; they are merged with the reference's control events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, runtime_checkable
from typing import Protocol as Interface

import pyarrow as pa

from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.codec.placement import Places, completed, headers_of, joined
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter, Instant, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.protocols.base import FragmentDecoder

_MOST_PARTS = 64
Run = tuple[int, int, int, bytes | None]  # the first row, how many, the first sequence number, the shard


@runtime_checkable
class RecordGroup(Interface):
    """The records of a complete group."""

    def data(self) -> tuple[bytes, int, int]:
        """The joined data of the records: bytes, start and end in them."""
        ...


Refused = Any  # what `follow` returns for records that it refuses; anything that is not a RecordGroup


@runtime_checkable
class GroupDecoder(FragmentDecoder, Interface):
    """A reference decoder that groups records separately from decoding them; `KernelTwin.record_groups` declares it."""

    def follow(self, records: pa.RecordBatch, start: int, stop: int) -> Iterator[tuple[int, RecordGroup | Refused]]:
        """Yields complete groups of records of a batch, and refusals, each with the row number of the deciding record."""
        ...

    def skip(self, records: pa.RecordBatch, run: Run) -> bool:
        """Skips consecutive records that are whole groups; returns False if the first is not the next in its sequence."""
        ...

    def alone(self, records: pa.RecordBatch, row: int) -> RecordGroup:
        """Returns the group of one record of a batch that `skip` has passed."""
        ...

    def keep(self, records: pa.RecordBatch) -> None:
        """Forgets all records except those of incomplete groups, after a batch has been decoded."""
        ...

    def read(self, groups: Iterable[Any]) -> Decoded:
        """Decodes groups and refusals, in their order."""
        ...

    def entry(self, group: Any, start: int, end: int, index: int) -> Decoded | None:
        """Decodes one entry of a group; None if it must be decoded together with its group.

        Args:
            group: the group that contains the entry.
            start, end: position of the entry in the group's data.
            index: index of its first event.
        """
        ...

    def origin(self, group: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Returns members that a group adds to the origins of all its events, and to the origin of the first."""
        ...

    def is_for_kernel(self, table: TableBatch) -> bool:
        """Whether the kernel may register the shape of these rows."""
        ...


@dataclass(slots=True)
class GroupedRecords:
    """A batch of records, its groups, and the events decoded so far.

    Attributes:
        places, headers: positions and headers of the records, in the form that the kernel expects.
        rows: row numbers of records that are a group, or the last record of one.
        known: row number -> groups of several records, and refusals.
        refused: row numbers with a refusal; the reference decodes their groups.
        more: arguments for the kernel by name, one value per record, for the known groups: their data, and members to add
            to the origins of their events.
        stops: row number of an unmatched group -> its first unmatched entry: start and end in the data of the group, and
            the index of its first event.
    """

    records: pa.RecordBatch
    places: Places
    headers: pa.Array
    rows: list[int] = field(default_factory=list)
    known: dict[int, list[RecordGroup | Refused]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    more: dict[str, pa.Array] = field(default_factory=dict)
    stops: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    tables: list[TableBatch] = field(default_factory=list)
    control: list[Control] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)

    def add(self, answer: Decoded) -> None:
        """Adds the events of a result of the reference."""
        self.tables += answer.tables
        self.control += answer.control
        self.dead += answer.dead


class GroupKernelDecoder(KernelDecoder):
    """A kernel, and the reference that groups records and makes shapes."""

    _reference: GroupDecoder
    _kernel: Any

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        batch = self._follow(records)
        unmatched, at = self._run(batch, batch.rows), 0
        while at < len(unmatched):
            before = len(self._shapes)
            at += self._settle(batch, unmatched[at])
            if len(self._shapes) > before and at < len(unmatched):
                unmatched, at = self._run(batch, unmatched[at:]), 0
        self._reference.keep(records)
        control = sorted(batch.control, key=lambda event: (event.place.record, event.place.index or 0))
        return Decoded(joined(batch.tables), control, batch.dead)

    def waiting(self) -> pa.RecordBatch:
        """The records of incomplete groups; see `protocols.base.FragmentDecoder`."""
        return self._reference.waiting()

    def _follow(self, records: pa.RecordBatch) -> GroupedRecords:
        """Groups the records."""
        batch, at = GroupedRecords(records, Places(records), headers_of(records)), 0
        topics, partitions = records.column("topic").cast(pa.binary()), records.column("partition")
        arrays = records.column("key"), records.column("value"), batch.headers, topics, partitions
        for run in self._kernel.runs(*arrays):
            start, count, *_ = run
            self._add(batch, at, start)
            at = start + count
            if self._reference.skip(records, run):
                batch.rows.extend(range(start, at))
            else:
                self._add(batch, start, at)
        self._add(batch, at, len(records))
        batch.more = self._described(batch)
        return batch

    def _add(self, batch: GroupedRecords, start: int, stop: int) -> None:
        """Adds records one by one."""
        if start == stop:
            return
        for row, group in self._reference.follow(batch.records, start, stop):
            if row not in batch.known:
                batch.rows.append(row)
            batch.known.setdefault(row, []).append(group)
            if not isinstance(group, RecordGroup):
                batch.refused.add(row)

    def _described(self, batch: GroupedRecords) -> dict[str, pa.Array]:
        """Returns `GroupedRecords.more`."""
        if not batch.known:
            return {}
        columns: dict[str, list[bytes | None]] = {
            name: [None] * len(batch.records) for name in ("data", "all", "first")
        }
        for row, groups in batch.known.items():
            for group in groups:
                if isinstance(group, RecordGroup) and row not in batch.refused:
                    columns["data"][row] = _data(group)
                    for name, members in zip(("all", "first"), self._reference.origin(group), strict=True):
                        columns[name][row] = b"," + canonical(members)[1:-1].encode() if members else None
        return {name: pa.array(values, pa.large_binary()) for name, values in columns.items()}

    def _run(self, batch: GroupedRecords, rows: list[int], skips: Sequence[tuple[int, int]] = ()) -> list[int]:
        """Adds the events that the kernel decodes from some groups; returns the row numbers of the other groups, in order."""
        records, mine = batch.records, batch.refused
        asked = pa.array([row for row in rows if row not in mine] if mine else rows, pa.int32())
        arrays = records.column("key"), records.column("value"), asked
        decoded, unmatched, marks, stops = self._kernel.decode(
            *arrays, headers=batch.headers, **batch.more, skips=skips
        )
        batch.tables += completed(self._shapes, decoded, batch.places)
        batch.control += _marks(marks, records)
        left = unmatched.to_pylist()
        for row, stop in zip(left, stops, strict=True):
            batch.stops.pop(row, None)
            if stop is not None:
                batch.stops[row] = stop
        return sorted([*left, *mine.intersection(rows)]) if mine else left

    def _settle(self, batch: GroupedRecords, row: int) -> bool:
        """Decodes an unmatched group with the reference; False if a shape was registered and the kernel must retry the group."""
        parts: list[Decoded] = []
        skips: list[tuple[int, int]] = []
        while len(parts) < _MOST_PARTS and (part := self._part(batch, row)) is not None:
            registered = self._register(part.tables)
            if registered and not parts:
                return False
            if not registered:
                parts.append(part)
                skips.append((batch.stops[row][0], sum(map(len, part.tables)) + len(part.control)))
            if not self._run(batch, [row], skips):
                for part in parts:
                    batch.add(part)
                return True
        self.unmatched += 1
        answer = self._reference.read(self._groups(batch, row))
        batch.add(answer)
        self._register(answer.tables)
        return True

    def _part(self, batch: GroupedRecords, row: int) -> Decoded | None:
        """Decodes the first unmatched entry of a group with the reference; None if the whole group must be decoded."""
        groups = self._groups(batch, row)
        if len(groups) == 1 and isinstance(groups[0], RecordGroup) and row in batch.stops:
            return self._reference.entry(groups[0], *batch.stops[row])
        return None

    def _groups(self, batch: GroupedRecords, row: int) -> list[RecordGroup | Refused]:
        return batch.known[row] if row in batch.known else [self._reference.alone(batch.records, row)]

    def _register(self, tables: list[TableBatch]) -> bool:
        self._count(tables)
        return super()._register([table for table in tables if self._reference.is_for_kernel(table)])


def _data(group: RecordGroup) -> bytes:
    whole, start, end = group.data()
    return whole[start:end]


def _marks(marks: pa.RecordBatch, records: pa.RecordBatch) -> Iterator[TransactionMark]:
    """Yields transaction marks from their columns."""
    rows = marks.column("record")
    positions = [records.column(name).take(rows).to_pylist() for name in ("topic", "partition", "offset")]
    places = map(Place, *positions, marks.column("index").to_pylist(), rows.to_pylist())
    seconds = marks.column("commit_time").cast(pa.int64()).to_pylist()
    times = [None if s is None else Instant(s * 1_000_000, 0) for s in seconds]
    columns = (marks.column(name).to_pylist() for name in ("begins", "id", "origin"))
    for place, time, begins, transaction, origin in zip(places, times, *columns, strict=True):
        status = "begin" if begins else "end"
        yield TransactionMark(status, transaction, place, instant=time, origin=json.loads(origin))
