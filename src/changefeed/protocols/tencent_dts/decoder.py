r"""Decodes records to changes, one record at a time: the reference decoder, which checks everything and guesses nothing.

    record ─ framing ─▶ group ─ envelope ─▶ entry ─▶ control event
                │          │                 └─ images, shapes ─▶ rows ─▶ table batches
                │          └─ an entry that fails is a dead letter; the other entries of its group are decoded
                └─ repetitions are skipped; gaps and broken groups: dead letters for all of their records

Rule 1. The position of an event is that of the record that completed its group. The index counts the events of the group,
        with a dead entry as one.
Rule 2. One row is one event; if an entry has several rows, the origin's `row` is the number of the row, from 0.
Rule 3. The origin's `envelopes` of the first event of a group describes how the group's records differ from those that would
        be written: see `grouping`.
Rule 4. An incomplete group is kept for the next batch; `waiting` returns its records. A new decoder that gets them first
        continues in the same way.
Rule 5. If a group of several records has a dead entry, all of its records become dead letters: one record alone has no meaning.
Rule 6. `byte` of a dead letter counts in the record's value; it is None if the data of several records were joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from changefeed.columnar.families import Families
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import RECORDS, BatchBuilder, Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter, Heartbeat, Instant, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import TableShape, canonical
from changefeed.protocols.base import Stores
from changefeed.protocols.tencent_dts import messages as m
from changefeed.protocols.tencent_dts.ddl import schema_change
from changefeed.protocols.tencent_dts.envelope import DtsEntry, Origin, keep_unknown, read_entry
from changefeed.protocols.tencent_dts.framing import Group, Refused, StreamRecord, Streams, read_records
from changefeed.protocols.tencent_dts.grouping import envelopes_of, stream_of
from changefeed.protocols.tencent_dts.images import DecodedRow, Span, read_row
from changefeed.protocols.tencent_dts.options import NAME, Options
from changefeed.protocols.tencent_dts.shapes import LIMIT, Described, Family, WireColumn, describe, wire_columns
from changefeed.wire import protobuf

_HINT = ' Is "protocol" right for this topic?'
_MAX_DEAD = 100
_POSTGRES = tuple(f'{{"sourceType":{m.SOURCES["pgsql"]}{end}' for end in ",}")
_PLACELESS = Place("", 0, 0)
_UNIT = "s"
_PLAIN: Mapping[str, Any] = MappingProxyType({})
Run = tuple[int, int, int, bytes | None]  # the first row, how many, the first ps, the shard


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A row, with the fields of the entry that it was in."""

    op: str
    row: DecodedRow
    commit_time: int | None
    transaction: dict[str, Any] | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class DeadEntry:
    """An entry that cannot be read; `number` counts from 1."""

    error: ProtocolError
    number: int
    table: tuple[str | None, str | None]


Event = EntryRow | Control


class Decoder:
    """Decodes records in the order of their offsets. Remembers incomplete groups, sequence numbers and shapes."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._streams = Streams(options)
        self._waiting = pa.RecordBatch.from_pylist([], schema=RECORDS)
        self._describe = lru_cache(LIMIT)(describe)
        self._wire = lru_cache(LIMIT)(self._wire_columns)
        self._families: Families[Family] = Families()

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`."""
        answer = self.read(group for _, group in self.follow(records, 0, len(records)))
        self.keep(records)
        return answer

    def follow(self, records: pa.RecordBatch, start: int, stop: int) -> Iterator[tuple[int, Group | Refused]]:
        """Yields the groups that records of a batch complete, and refusals, each with the row of the deciding record."""
        for record in read_records(records, start, stop, len(self._waiting)):
            for group in self._streams.add(record):
                yield record.place.record, group

    def skip(self, records: pa.RecordBatch, run: Run) -> bool:
        """Skips consecutive records that are a group each; False if the first is not the next in the sequence."""
        row, count, number, shard = run
        topic, partition = (records.column(name)[row].as_py() for name in ("topic", "partition"))
        return self._streams.skip(topic, partition, shard, number, count)

    def alone(self, records: pa.RecordBatch, row: int) -> Group:
        """Returns the group of one record of a batch that `skip` has passed."""
        return Group.alone(next(read_records(records, row, row + 1, len(self._waiting))))

    def origin(self, group: Group, entries: Mapping[str, Any] = _PLAIN) -> tuple[Origin, Origin]:
        """Returns the members that a group adds to the origins of all its events, and to the origin of the first."""
        envelopes = envelopes_of(group, entries, self._options.max_data_bytes)
        return stream_of(group), {"envelopes": envelopes} if envelopes else {}

    def read(self, groups: Iterable[Group | Refused]) -> Decoded:
        """Decodes groups and refusals, in their order."""
        rows = BatchBuilder(_UNIT)
        control: list[Control] = []
        dead: list[DeadLetter] = []
        for group in groups:
            if isinstance(group, Refused):
                dead += self._letters(group)
            else:
                self._group(group, rows, control, dead)
        return Decoded(rows.build(), control, dead)

    def entry(self, group: Group, start: int, end: int, index: int) -> Decoded | None:
        """Decodes one entry in the data of a group; None if it has a group of its own, is dead, or has no event.

        Args:
            group: the group that contains the entry.
            start, end: position of the entry in the group's data.
            index: index of the entry's first event.
        """
        data, first, last = group.data()
        if index == 0 and end == last - first:
            return None
        try:
            events = list(self._entry(read_entry(data, first + start, first + end), data))
        except ProtocolError:
            return None
        answer, rows = Decoded(), BatchBuilder(_UNIT)
        stream, extra = self.origin(group)
        for number, event in enumerate(events, index):
            place = replace(group.records[-1].place, index=number)
            _add(event, place, {**stream, **({} if number else extra)}, rows, answer.control)
        answer.tables.extend(rows.build())
        return answer if events else None

    def is_for_kernel(self, table: TableBatch) -> bool:
        """Whether the kernel may register the shape of these rows; not if its types are those of PostgreSQL."""
        return not table.rows.column("origin")[0].as_py().startswith(_POSTGRES)

    def forget(self) -> None:
        """Drops the shapes, but not the records of incomplete groups."""
        self._families.forget()

    def mark(self) -> tuple[pa.RecordBatch, Any]:
        """The incomplete groups, and the position in each partition; see `protocols.base.OrderedDecoder`."""
        return self._waiting, self._streams.mark()

    def rewind(self, mark: tuple[pa.RecordBatch, Any]) -> None:
        """Restores a state of `mark`."""
        self._waiting, streams = mark
        self._streams.rewind(streams)

    def waiting(self) -> pa.RecordBatch:
        """The records of incomplete groups; see `protocols.base.FragmentDecoder`."""
        return self._waiting

    def keep(self, records: pa.RecordBatch) -> None:
        """Drops all records except those of incomplete groups, after a batch has been decoded."""
        rows = [record.row for record in self._streams.open()]
        before = len(self._waiting)
        if rows or before:
            old = self._waiting.take(pa.array([row for row in rows if row < before], pa.int64()))
            new = records.take(pa.array([row - before for row in rows if row >= before], pa.int64()))
            self._waiting = pa.concat_batches([old, new.select(RECORDS.names).cast(RECORDS)])
            self._streams.renumber({row: number for number, row in enumerate(rows)})

    def _group(self, group: Group, rows: BatchBuilder, control: list[Control], dead: list[DeadLetter]) -> None:
        try:
            data, start, end = group.data()
            entries = protobuf.read(m.ENTRIES, data, start, end)
            if start < end and "items" not in entries:
                raise SchemaError("data has no entry", byte=start)
            events = list(self._events(data, entries.get("items", [])))
        except ProtocolError as error:
            whole = ProtocolError(str(error), reason=error.reason, byte=_byte_of(error, group))
            dead += self._letters(Refused(group.records, whole), _HINT)
            return
        last = group.records[-1]
        there = [event for event in events if not isinstance(event, DeadEntry)]
        stream, first = self.origin(group, entries)
        for index, event in enumerate(events):
            place = replace(last.place, index=index) if len(events) > 1 else last.place
            extra = {**stream, **(first if there and event is there[0] else {})}
            if isinstance(event, DeadEntry):
                dead.append(_entry_letter(event, last, place, group))
            else:
                _add(event, place, extra, rows, control)
        if len(group.records) > 1 and len(there) < len(events):
            text = f"an entry of its group is dead, which ends at {last.place}"
            rest = Refused(group.records[:-1], ProtocolError(text, reason="incomplete-group"))
            tables = {event.table for event in events if isinstance(event, DeadEntry)}
            database, table = tables.pop() if len(tables) == 1 else (None, None)
            dead += (replace(one, database=database or None, table=table or None) for one in self._letters(rest))

    def _letters(self, refused: Refused, hint: str = "") -> Iterator[DeadLetter]:
        """Returns a dead letter for each refused record; records of earlier batches come first."""
        for record in refused.records:
            before = record.row < len(self._waiting)
            yield _letter(refused.error, record, replace(record.place, record=0) if before else record.place, hint)

    def _events(self, data: bytes, spans: list[Span]) -> Iterator[Event | DeadEntry]:
        """Yields the events of an Entries message; for each entry either all of its events or none."""
        failed = 0
        for number, span in enumerate(spans, 1):
            header: dict[str, Any] = {}
            try:
                entry = read_entry(data, *span)
                header = entry.header
                events: list[Event | DeadEntry] = [*self._entry(entry, data)]
            except ProtocolError as error:
                failed += 1
                if failed > _MAX_DEAD:
                    text = f"more than {_MAX_DEAD} entries cannot be read, the last: {error}"
                    raise ProtocolError(text, reason="too-large", byte=error.byte) from error
                events = [DeadEntry(error, number, (header.get("schemaName"), header.get("tableName")))]
            yield from events

    def _entry(self, entry: DtsEntry, data: bytes) -> Iterator[Event]:
        header, body, origin = entry.header, entry.body, entry.origin
        seconds, gtid = header.get("timestamp") or None, header.get("gtid", "")
        time = None if seconds is None else Instant(seconds * 1_000_000, 0)
        sequence = header.get("seqId") or None
        if entry.kind != m.DML:
            origin |= {name: header[name] for name in ("schemaName", "tableName") if name in header}
        match entry.kind:
            case m.DML:
                yield from self._rows(entry, data, seconds, sequence)
            case m.DDL:
                yield schema_change(header, body, origin, time, _PLACELESS)
            case m.BEGIN | m.COMMIT:
                origin |= {name: body[name] for name in ("transactionId", "threadId") if body.get(name)}
                status = "begin" if entry.kind == m.BEGIN else "end"
                mark = gtid or body.get("transactionId", "")
                yield TransactionMark(status, mark, _PLACELESS, instant=time, origin=origin)
            case m.HEARTBEAT:
                origin |= {"epoch": body.get("epoch", 0)}
                yield Heartbeat(_PLACELESS, time, origin)
            case m.CHECKPOINT:
                origin["checkpoint"] = {
                    "syncedGtid": body.get("syncedGtid", ""),
                    "fakeGtid": bool(body.get("fakeGtid", 0)),
                    "fileName": body.get("fileName", ""),
                    "position": body.get("position", 0),
                }
                yield Heartbeat(_PLACELESS, time, origin, sequence)

    def _rows(self, entry: DtsEntry, data: bytes, seconds: int | None, sequence: int | None) -> Iterator[EntryRow]:
        event = protobuf.read(m.DML_EVENT, data, *entry.body)
        kind, header = event.get("dmlEventType", m.INSERT), entry.header
        if kind not in m.OPS:
            raise ProtocolError(f"DML type {kind} is unknown", reason="unknown-kind", byte=entry.body[0])
        keep_unknown(entry.origin, "body", event)
        columns = self._columns(data, event.get("columns", []))
        postgres = header.get("sourceType", 0) == m.SOURCES["pgsql"]
        names = header.get("schemaName", ""), header.get("tableName", "")
        transaction = {"id": header["gtid"]} if header.get("gtid") else None

        counts: dict[int, tuple[Family, int]] = {}

        def family(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> Family:
            described = (*names, columns, postgres, before, after)
            match = self._families.of(described, lambda: Family(*described))
            counts.setdefault(id(match), (match, len(match.shapes)))
            return match

        spans: list[Span] = event.get("rows", [])
        try:
            for number, span in enumerate(spans):
                row = read_row(data, span, kind, columns, family, self._wire)
                row.origin = {**entry.origin, **({"row": number} if len(spans) > 1 else {}), **row.origin}
                yield EntryRow(m.OPS[kind], row, seconds, transaction, sequence)
        except ProtocolError:
            for counted, count in counts.values():
                counted.shapes.truncate(count)  # shapes of dead rows
            raise

    def _columns(self, data: bytes, spans: list[Span]) -> tuple[Described, ...]:
        try:
            return self._describe(tuple(data[start:end] for start, end in spans))
        except ProtocolError as error:
            raise type(error)(str(error), reason=error.reason, byte=spans[0][0]) from error

    def _wire_columns(self, shape: TableShape) -> tuple[WireColumn, ...]:
        return wire_columns(shape, self._options)


def _add(event: Event, place: Place, extra: Origin, rows: BatchBuilder, control: list[Control]) -> None:
    """Adds an event at a position; `extra`: the members that the group adds to its origin."""
    if not isinstance(event, EntryRow):
        control.append(replace(event, place=place, origin={**event.origin, **extra}))
        return
    row = event.row
    rows.add(
        row.shape,
        place,
        event.op,
        before=row.before,
        after=row.after,
        sequence=event.sequence,
        commit_time=event.commit_time,
        transaction=event.transaction,
        origin=canonical({**row.origin, **extra}),
        irregular=row.irregular,
    )


def _byte_of(error: ProtocolError, group: Group) -> int | None:
    """Returns the byte offset in the record's value; None if the data of several records were joined."""
    return error.byte if len(group.records) == 1 else None


def _entry_letter(dead: DeadEntry, last: StreamRecord, place: Place, group: Group) -> DeadLetter:
    """Returns the dead letter of an entry, at the position of the last record of its group."""
    error = ProtocolError(
        f"{dead.error} in entry {dead.number}", reason=dead.error.reason, byte=_byte_of(dead.error, group)
    )
    database, table = dead.table
    return replace(_letter(error, last, place), database=database or None, table=table or None)


def _letter(error: ProtocolError, record: StreamRecord, place: Place, hint: str = "") -> DeadLetter:
    """Returns the dead letter of a record."""
    at = "" if error.byte is None else f" at byte {error.byte}"
    where = f"{place.topic}:{place.partition}:{place.offset}"
    text = f"{NAME}: {error}{at} ({where}){'.' if hint else ''}{hint}"
    return DeadLetter(error.reason, text, NAME, place, record.key, record.value, record.headers, error.byte)
