"""Kernel and reference where an event may lie in several records: records become groups first, and groups are read.

    records ─ kernel ─▶ runs of plain records, which the reference passes at once
                 └─ the others, one by one ─▶ reference ─▶ groups, refusals, records that wait
    groups ─▶ kernel, odd ones ─▶ reference, as in `kernel`

Rule 1. How records follow each other is the reference's state, and nobody else's: the kernel says which records of a batch
        look plain and count up, and the reference whether they follow the last one that it has seen.
Rule 2. A group lies where its last record lies. Groups of several records go to the kernel as their joined bytes.
Rule 3. Marks of transactions come out of the kernel in columns; they are put between the reference's control events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from changefeed.kernel import Pair, _completed, _headers
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, Instant, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.protocols.tencent_dts.decoder import Decoder
from changefeed.protocols.tencent_dts.fragments import Group, Refused

_POSTGRES = ('{"sourceType":2,', '{"sourceType":2}')


@dataclass(slots=True)
class Groups:
    """What the records of one batch complete.

    Attributes:
        rows: records that are a group, or the last of one; those refused are not among them.
        known: by row, groups that are not a plain record, and what is refused.
        refused: rows at which something is refused; their groups are the reference's.
        more: of the known groups, by the names of the kernel's arguments, one a record: their data, and what they add to
            the origins of their events.
    """

    rows: list[Iterable[int]] = field(default_factory=list)
    known: dict[int, list[Group | Refused]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    more: dict[str, pa.Array] = field(default_factory=dict)


class Grouped(Pair):
    """A kernel and the reference that follows the records and teaches it."""

    _reference: Decoder
    _kernel: Any

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """What the records mean; see `protocols.base.Decoder`."""
        self._groups, self._marks = self._follow(records), list[TransactionMark]()
        found = super().decode(records)
        self._reference.keep(records)
        control: list[Control] = found.control
        if self._marks:
            control = sorted([*control, *self._marks], key=lambda event: (event.place.record, event.place.index or 0))
        return Decoded(found.tables, control, found.dead)

    def waiting(self) -> pa.RecordBatch:
        """The records of incomplete groups; see `protocols.base.FragmentDecoder`."""
        return self._reference.waiting()

    def _start_over(self) -> None:
        """Forgets the shapes, but not how records follow each other."""
        before: Decoder | None = getattr(self, "_reference", None)
        super()._start_over()
        if before is not None:
            before.forget()
            self._reference = before

    def _follow(self, records: pa.RecordBatch) -> Groups:
        groups, at = Groups(), 0
        topics, partitions = records.column("topic").cast(pa.binary()), records.column("partition")
        arrays = records.column("key"), records.column("value"), _headers(records), topics, partitions
        for run in self._kernel.runs(*arrays):
            row, count, *_ = run
            self._add(groups, records, at, row)
            if self._reference.skip(records, run):
                groups.rows.append(range(row, row + count))
            else:
                self._add(groups, records, row, row + count)
            at = row + count
        self._add(groups, records, at, len(records))
        groups.more = self._described(groups, len(records))
        return groups

    def _add(self, groups: Groups, records: pa.RecordBatch, start: int, stop: int) -> None:
        """Follows records one by one."""
        if start == stop:
            return
        fresh: dict[int, list[Group | Refused]] = {}
        for row, found in self._reference.follow(records, start, stop):
            fresh.setdefault(row, []).append(found)
            if isinstance(found, Refused):
                groups.refused.add(row)
        groups.known |= fresh
        groups.rows.append([row for row in fresh if row not in groups.refused])

    def _described(self, groups: Groups, count: int) -> dict[str, pa.Array]:
        """See `Groups.more`."""
        if not groups.known:
            return {}
        columns: dict[str, list[bytes | None]] = {name: [None] * count for name in ("data", "all", "first")}
        for row, [group] in ((row, found) for row, found in groups.known.items() if row not in groups.refused):
            assert isinstance(group, Group)
            whole, start, end = group.data()
            columns["data"][row] = whole[start:end]
            for name, members in zip(("all", "first"), self._reference.origin(group), strict=True):
                columns[name][row] = b"," + canonical(members)[1:-1].encode() if members else None
        return {name: pa.array(values, pa.large_binary()) for name, values in columns.items()}

    def _run_kernel(self, records: pa.RecordBatch, rows: pa.Array | None, tables: list[TableBatch]) -> pa.Array:
        groups = self._groups
        asked = list(chain(*groups.rows)) if rows is None else rows.to_pylist()
        mine = groups.refused if rows is None else groups.refused.intersection(asked)
        if rows is None or mine:
            rows = pa.array([row for row in asked if row not in mine], pa.int32())
        keys, values = records.column("key"), records.column("value")
        found, odd, marks = self._kernel.decode(keys, values, rows, headers=_headers(records), **groups.more)
        tables += (_completed(self._shapes[number], batch, records) for number, batch in found)
        self._marks += _marks(marks, records)
        return pa.array(sorted([*odd.to_pylist(), *mine]), pa.int32()) if mine else odd

    def _ask(self, records: pa.RecordBatch, rows: pa.Array) -> Decoded:
        known = self._groups.known
        groups = (known[row] if row in known else [self._reference.alone(records, row)] for row in rows.to_pylist())
        return self._reference.read(chain.from_iterable(groups))

    def _teach(self, tables: list[TableBatch]) -> bool:
        """What type texts of PostgreSQL mean is not taught."""
        return super()._teach([t for t in tables if not t.rows.column("origin")[0].as_py().startswith(_POSTGRES)])


def _marks(found: pa.RecordBatch, records: pa.RecordBatch) -> Iterable[TransactionMark]:
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
