"""Kernel and reference where an event may lie in several records: records become groups first, and groups are read.

    records ─ kernel ─▶ runs of plain records, which the reference passes at once
                 └─ the others, one by one ─▶ reference ─▶ groups, refusals, records that wait
    groups ─▶ kernel ─▶ rows and marks of the shapes that it has learned
                 └─ odd ─▶ reference: the first entry that is not known ─▶ a new shape, or its events; once more

Rule 1. How records follow each other is the reference's state, and nobody else's: the kernel says which records of a batch
        look plain and count up, and the reference whether they follow the last one that it has seen.
Rule 2. A group lies where its last record lies. Groups of several records go to the kernel as their joined bytes.
Rule 3. A group may hold thousands of rows. So the reference reads of it what the kernel does not know, entry by entry; all of
        it where an entry is dead or alone, and where there are too many. Odd groups are read in their order, as shapes
        are taught in the order in which the reference makes them.
Rule 4. Marks of transactions come out of the kernel in columns; they are put between the reference's control events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changefeed.codec.decoding import Pair
from changefeed.codec.placement import Places, completed, headers_of, joined
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter, Instant, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.protocols.tencent_dts.decoder import Decoder
from changefeed.protocols.tencent_dts.fragments import Group, Refused

_MOST_PARTS = 64
_POSTGRES = ('{"sourceType":2,', '{"sourceType":2}')


@dataclass(slots=True)
class Batch:
    """A batch of records, and what has been found in it.

    Attributes:
        places, headers: of the records, as the kernel and its tables take them.
        rows: records that are a group, or the last of one.
        known: by row, groups that are not a plain record, and what is refused.
        refused: rows at which something is refused; their groups are the reference's.
        more: of the known groups, by the names of the kernel's arguments, one a record: their data, and what they add to
            the origins of their events.
        stops: the first entry of an odd group that the kernel does not know: where it lies in the data of the group, and
            the index of its first event.
    """

    records: pa.RecordBatch
    places: Places
    headers: pa.Array
    rows: list[int] = field(default_factory=list)
    known: dict[int, list[Group | Refused]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    more: dict[str, pa.Array] = field(default_factory=dict)
    stops: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    tables: list[TableBatch] = field(default_factory=list)
    control: list[Control] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)

    def add(self, answer: Decoded) -> None:
        """Takes in what the reference says."""
        self.tables += answer.tables
        self.control += answer.control
        self.dead += answer.dead


class Grouped(Pair):
    """A kernel and the reference that follows the records and teaches it."""

    _reference: Decoder
    _kernel: Any

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        batch = self._follow(records)
        odd, at = self._run(batch, batch.rows), 0
        while at < len(odd):
            before = len(self._shapes)
            at += self._settle(batch, odd[at])
            if len(self._shapes) > before and at < len(odd):
                odd, at = self._run(batch, odd[at:]), 0
        self._reference.keep(records)
        control = sorted(batch.control, key=lambda event: (event.place.record, event.place.index or 0))
        return Decoded(joined(batch.tables), control, batch.dead)

    def waiting(self) -> pa.RecordBatch:
        """The records of incomplete groups; see `protocols.base.FragmentDecoder`."""
        return self._reference.waiting()

    def _follow(self, records: pa.RecordBatch) -> Batch:
        """Makes groups of the records."""
        batch, at = Batch(records, Places(records), headers_of(records)), 0
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

    def _add(self, batch: Batch, start: int, stop: int) -> None:
        """Follows records one by one."""
        if start == stop:
            return
        for row, found in self._reference.follow(batch.records, start, stop):
            if row not in batch.known:
                batch.rows.append(row)
            batch.known.setdefault(row, []).append(found)
            if isinstance(found, Refused):
                batch.refused.add(row)

    def _described(self, batch: Batch) -> dict[str, pa.Array]:
        """See `Batch.more`."""
        if not batch.known:
            return {}
        columns: dict[str, list[bytes | None]] = {
            name: [None] * len(batch.records) for name in ("data", "all", "first")
        }
        for row, found in batch.known.items():
            for group in found:
                if isinstance(group, Group) and row not in batch.refused:
                    columns["data"][row] = _data(group)
                    for name, members in zip(("all", "first"), self._reference.origin(group), strict=True):
                        columns[name][row] = b"," + canonical(members)[1:-1].encode() if members else None
        return {name: pa.array(values, pa.large_binary()) for name, values in columns.items()}

    def _run(self, batch: Batch, rows: list[int], skips: Sequence[tuple[int, int]] = ()) -> list[int]:
        """Appends what the kernel finds in some of the groups; returns the rows of the others, in order."""
        records, mine = batch.records, batch.refused
        asked = pa.array([row for row in rows if row not in mine] if mine else rows, pa.int32())
        arrays = records.column("key"), records.column("value"), asked
        found, odd, marks, stops = self._kernel.decode(*arrays, headers=batch.headers, **batch.more, skips=skips)
        batch.tables += completed([(self._shapes[number], table) for number, table in found], batch.places)
        batch.control += _marks(marks, records)
        left = odd.to_pylist()
        for row, stop in zip(left, stops, strict=True):
            batch.stops.pop(row, None)
            if stop is not None:
                batch.stops[row] = stop
        return sorted([*left, *mine.intersection(rows)]) if mine else left

    def _settle(self, batch: Batch, row: int) -> bool:
        """Reads what is odd in a group; False if the kernel has learned a shape from that, and is to look at it again."""
        parts: list[Decoded] = []
        skips: list[tuple[int, int]] = []
        while len(parts) < _MOST_PARTS and (part := self._part(batch, row)) is not None:
            learned = self._teach(part.tables)
            if learned and not parts:
                return False
            if not learned:
                parts.append(part)
                skips.append((batch.stops[row][0], sum(map(len, part.tables)) + len(part.control)))
            if not self._run(batch, [row], skips):
                for part in parts:
                    batch.add(part)
                return True
        self.odd += 1
        answer = self._reference.read(self._groups(batch, row))
        batch.add(answer)
        self._teach(answer.tables)
        return True

    def _part(self, batch: Batch, row: int) -> Decoded | None:
        """What the reference says of the first entry of an odd group that the kernel does not know."""
        match self._groups(batch, row):
            case [Group() as group] if row in batch.stops:
                return self._reference.entry(group, *batch.stops[row])
        return None

    def _groups(self, batch: Batch, row: int) -> list[Group | Refused]:
        return batch.known[row] if row in batch.known else [self._reference.alone(batch.records, row)]

    def _teach(self, tables: list[TableBatch]) -> bool:
        """What type texts of PostgreSQL mean is not taught."""
        return super()._teach([t for t in tables if not t.rows.column("origin")[0].as_py().startswith(_POSTGRES)])


def _data(group: Group) -> bytes:
    whole, start, end = group.data()
    return whole[start:end]


def _marks(found: pa.RecordBatch, records: pa.RecordBatch) -> Iterator[TransactionMark]:
    """Marks of transactions off their columns."""
    rows = found.column("record")
    lies = [records.column(name).take(rows).to_pylist() for name in ("topic", "partition", "offset")]
    places = map(Place, *lies, found.column("index").to_pylist(), rows.to_pylist())
    seconds = found.column("commit_time").cast(pa.int64()).to_pylist()
    times = [None if s is None else Instant(s * 1_000_000, 0) for s in seconds]
    said = (found.column(name).to_pylist() for name in ("begins", "id", "origin"))
    for place, time, begins, mark, origin in zip(places, times, *said, strict=True):
        status = "begin" if begins else "end"
        yield TransactionMark(status, mark, place, commit_time=time, origin=json.loads(origin))
