"""Collects records to groups, whose envelopes together contain one Entries message; checks the sequence of records.

    record      08 01 │ 10 03 │ 18 01 │ 22 … data          version 1, total 3, index 1
    header      ps = "117"                                 sequence number in its partition, or in its shard of it

Rule 1. A stream is a topic, a partition and, if there is a header ShardId, a shard. Each stream has its own numbers and groups.
Rule 2. A record whose ps has been seen is a repetition and is ignored. If ps skips numbers, records are missing: the record is
        refused, or with on_gap=warn decoded with a warning. In a shard ps may begin again with 1. Without ps nothing is checked.
Rule 3. The data with index 0 … total - 1 follow each other in a stream. Otherwise the open group is refused, and so is the
        record, unless it begins a group. Then envelopes are refused up to the next index 0.
Rule 4. total 0 with index 0 is read as total 1.
Rule 5. A group has at most max_group_bytes of data and 65 536 records; there are as many streams at most.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.position import Place
from changefeed.protocols.tencent_dts.messages import ENVELOPE
from changefeed.protocols.tencent_dts.options import Options
from changefeed.wire import protobuf

MAX_RECORDS = MAX_STREAMS = 65_536
PS, SHARD = "ps", "ShardId"
_PS = re.compile(rb"\d{1,20}", re.ASCII)
_log = logging.getLogger(__name__)
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One record. `row` counts the kept records of incomplete groups first, then those of the batch."""

    row: int
    place: Place
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> bytes | None:
        """Returns the value of a header; None if the record does not have it.

        Raises:
            ProtocolError: the record has the header more than once.
        """
        values = [value for key, value in self.headers if key == name]
        if len(values) > 1:
            raise ProtocolError(f"the header {name} occurs {len(values)} times", reason="ps")
        return values[0] if values else None


def read_records(records: pa.RecordBatch, start: int, stop: int, first: int) -> Iterator[StreamRecord]:
    """Reads the records `start` to `stop` of a batch; `first`: number of kept records before the batch."""
    names = ("topic", "partition", "offset", "key", "value", "headers")
    columns = [records.column(name).slice(start, stop - start).to_pylist() for name in names]
    for row, (topic, partition, offset, key, value, headers) in enumerate(zip(*columns, strict=True), start):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield StreamRecord(first + row, Place(topic, partition, offset, None, row), key, value, pairs)


@dataclass(slots=True)
class Group:
    """The records of a group so far, and their envelopes."""

    total: int
    records: list[StreamRecord] = field(default_factory=list)
    envelopes: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0

    def add(self, record: StreamRecord, envelope: dict[str, Any]) -> None:
        """Adds the next record with its envelope."""
        self.records.append(record)
        self.envelopes.append(envelope)
        start, end = envelope.get("data", (0, 0))
        self.size += end - start

    def copy(self) -> Group:
        """Returns a copy of the group."""
        return Group(self.total, list(self.records), list(self.envelopes), self.size)

    @classmethod
    def alone(cls, record: StreamRecord) -> Group:
        """Creates the group of a single record.

        Raises:
            ProtocolError: the record's value is not an envelope.
        """
        group = cls(1)
        group.add(record, _read_envelope(record))
        return group

    @property
    def complete(self) -> bool:
        """Whether the group has all of its envelopes."""
        return len(self.records) >= self.total

    def data(self) -> tuple[bytes, int, int]:
        """The joined data of the envelopes, as (bytes, start, end)."""
        parts = [
            (record.value or b"", *e.get("data", (0, 0)))
            for record, e in zip(self.records, self.envelopes, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        whole = b"".join(value[start:end] for value, start, end in parts)
        return whole, 0, len(whole)

    @property
    def sizes(self) -> list[int]:
        """Number of bytes of data in each envelope."""
        return [end - start for start, end in (e.get("data", (0, 0)) for e in self.envelopes)]


@dataclass(slots=True)
class Refused:
    """Records that do not form a complete group, and the reason."""

    records: list[StreamRecord]
    error: ProtocolError


@dataclass(slots=True)
class StreamState:
    """The state of one stream of records."""

    last: int | None = None
    group: Group | None = None


StreamKey = tuple[str, int, bytes | None]
StreamStates = dict[StreamKey, tuple[int | None, Group | None]]


class Streams:
    """Joins records to groups, stream by stream: topic, partition and shard."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._streams: dict[StreamKey, StreamState] = {}

    def add(self, record: StreamRecord) -> Iterator[Group | Refused]:
        """Adds a record; returns the group that it completes, or the refusal of a group or of the record itself."""
        try:
            shard = record.header(SHARD)
            stream = self._stream((record.place.topic, record.place.partition, shard))
            number = self._number(record)
            if number is not None and self._repeated(stream, number, shard):
                return
        except ProtocolError as error:
            yield Refused([record], error)
            return
        expected, stream.last = stream.last, stream.last if number is None else number
        if None not in (expected, number) and number != 1 and number != (expected or 0) + 1:
            text = f"ps is {number} after {expected}: records are missing"
            if self._options.on_gap == "error":
                yield from _refused(stream, record, ProtocolError(text, reason="ps-gap"))
                return
            _log.warning("tencent-dts: %s (%s)", text, record.place)
        yield from self._join(stream, record)

    def skip(self, topic: str, partition: int, shard: bytes | None, first: int, count: int) -> bool:
        """Skips records that are a group each and have consecutive ps; False if they do not follow the last record."""
        try:
            stream = self._stream((topic, partition, shard))
        except ProtocolError:
            return False
        if stream.group is not None or (stream.last is not None and first != stream.last + 1):
            return False
        stream.last = first + count - 1
        return True

    def mark(self) -> StreamStates:
        """Returns the state of all streams."""
        return {key: (stream.last, stream.group and stream.group.copy()) for key, stream in self._streams.items()}

    def rewind(self, mark: StreamStates) -> None:
        """Restores a state of `mark`."""
        self._streams = {key: StreamState(last, group and group.copy()) for key, (last, group) in mark.items()}

    def open(self) -> list[StreamRecord]:
        """Returns the records of incomplete groups, in the order in which they came."""
        groups = (stream.group for stream in self._streams.values() if stream.group is not None)
        return sorted((record for group in groups for record in group.records), key=lambda record: record.row)

    def renumber(self, rows: dict[int, int]) -> None:
        """Changes the row numbers of the records of incomplete groups."""
        for stream in self._streams.values():
            if stream.group is not None:
                stream.group.records = [
                    StreamRecord(rows[r.row], r.place, r.key, r.value, r.headers) for r in stream.group.records
                ]

    def _stream(self, key: StreamKey) -> StreamState:
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) == MAX_STREAMS:
                raise ProtocolError(
                    f"the records have more than {MAX_STREAMS} partitions and shards", reason="too-large"
                )
            stream = self._streams[key] = StreamState()
        return stream

    def _number(self, record: StreamRecord) -> int | None:
        value = record.header(PS)
        if value is None:
            if self._options.require_ps:
                raise ProtocolError("the header ps is missing", reason="ps")
            return None
        if not _PS.fullmatch(value) or int(value) >= 2**64:
            raise ProtocolError(f"the header ps is {value[:40]!r}, expected a number", reason="ps")
        return int(value)

    @staticmethod
    def _repeated(stream: StreamState, number: int, shard: bytes | None) -> bool:
        return stream.last is not None and number <= stream.last and not (shard is not None and number == 1)

    def _join(self, stream: StreamState, record: StreamRecord) -> Iterator[Group | Refused]:
        try:
            envelope = _read_envelope(record)
        except ProtocolError as error:
            yield Refused([record], error)
            return
        total, index = envelope.get("total", 0) or 1, envelope.get("index", 0)
        group = stream.group
        if index == 0:
            if group is not None:
                yield Refused(group.records, _contradiction(group, "the next one begins", record))
            group = stream.group = Group(total)
        elif group is None:
            text = f"envelope {index + 1} of {total} without the ones before it"
            yield Refused([record], ProtocolError(text, reason="incomplete-group"))
            return
        elif total != group.total or index != len(group.records):
            yield from _refused(
                stream, record, _contradiction(group, f"envelope {index + 1} of {total} follows", record)
            )
            return
        group.add(record, envelope)
        if group.size > self._options.max_group_bytes:
            stream.group = None
            text = f"a group of envelopes with more than {self._options.max_group_bytes} bytes (max_group_bytes)"
            yield Refused(group.records, ProtocolError(text, reason="too-large"))
        elif group.complete:
            stream.group = None
            yield group


def _refused(stream: StreamState, record: StreamRecord, error: ProtocolError) -> Iterator[Refused]:
    """Refuses a record, and the group that it has broken."""
    before = stream.group.records if stream.group is not None else []
    stream.group = None
    yield Refused([*before, record], error)


def _contradiction(group: Group, what: str, record: StreamRecord) -> ProtocolError:
    text = f"{len(group.records)} of {group.total} envelopes of a group are there, then {what}"
    return ProtocolError(f"{text} at {record.place}", reason="incomplete-group")


def _read_envelope(record: StreamRecord) -> dict[str, Any]:
    if record.value is None:
        raise SchemaError("the record has no value")
    if record.value[:1] == b"{":
        text = "the record is JSON: only subscriptions in ProtoBuf format can be read"
        raise ProtocolError(text, reason="bad-protobuf", byte=0)
    envelope = protobuf.read(ENVELOPE, record.value)
    version = envelope.get("version", 0)
    if version != 1:
        raise ProtocolError(f"envelope has version {version}, expected 1", reason="version")
    total, index = envelope.get("total", 0), envelope.get("index", 0)
    if index >= max(total, 1):
        raise ProtocolError(
            f"envelope has index {index}, but its group has {total} envelopes", reason="incomplete-group"
        )
    if total > 1 and "data" not in envelope:
        raise SchemaError(f"envelope {index + 1} of {total} has no data")
    if total > MAX_RECORDS:
        raise ProtocolError(f"group has {total} envelopes, expected at most {MAX_RECORDS}", reason="too-large")
    return envelope
