"""Splits the bytes of an Entries message into records, and describes records that were split or numbered in another way.

    ps = 116           ps = 117           ps = 118
    08 01 10 03 22 …   08 01 10 03 18 01 22 …   08 01 10 03 18 02 22 …       max_data_bytes of data in all but the last

Rule 1. Records are plain if their data is split at max_data_bytes, their offsets and ps count up to those of the last record,
        and they have the headers ps and then ShardId, no key, and no properties. For a group that is not plain, `envelopes`
        in the origin of its first event has the differences:

            total        how many records it had, if not one; 0 as it was sent
            sizes        bytes of data of each, where they were cut at other places
            offsets  keys  headers  properties  unknown      of each record
            entries      unknown fields of the Entries

Rule 2. The same records are written again if the entries fill the same number of them. Otherwise their partition continues
        with its own numbers from there, like a new partition.
Rule 3. The records of a partition are returned in the order of their offsets.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from changefeed.model.position import Place
from changefeed.protocols.tencent_dts.envelope import Origin, write_pairs
from changefeed.protocols.tencent_dts.framing import MAX_RECORDS, PS, SHARD, Group
from changefeed.protocols.tencent_dts.messages import ENVELOPE
from changefeed.protocols.tencent_dts.shapes import pairs
from changefeed.wire import protobuf


def cut(size: int, most: int) -> list[int]:
    """Splits `size` bytes into pieces of at most `most`; returns the sizes of the pieces."""
    whole, rest = divmod(size, most)
    return [most] * whole + ([rest] if rest or not whole else [])


def stream_of(group: Group) -> Origin:
    """Returns the members of the origin of a group's events that come from the headers of its last record."""
    last = group.records[-1]
    number, shard = last.header(PS), last.header(SHARD)
    stream: Origin = {} if number is None else {PS: int(number)}
    return stream if shard is None else {**stream, SHARD: _text(shard)}


def envelopes_of(group: Group, entries: Mapping[str, Any], most: int) -> Origin:
    """Returns `envelopes` of the origin: how a group's records, and their Entries, differ from plain ones."""
    records, sizes, count = group.records, group.sizes, len(group.records)
    members: Origin = {}
    if count > 1 or not group.envelopes[0].get("total"):
        members["total"] = count if count > 1 else 0
    if sizes != cut(sum(sizes), most):
        members["sizes"] = sizes
    offsets, last = [r.place.offset for r in records], records[-1].place.offset
    if offsets != list(range(last - count + 1, last + 1)):
        members["offsets"] = offsets
    if any(r.key is not None for r in records):
        members["keys"] = [_text(r.key) for r in records]
    plain = _plain_headers(stream_of(group), count)
    if [list(r.headers) for r in records] != plain:
        members["headers"] = [[[key, _text(value)] for key, value in r.headers] for r in records]
    if any("properties" in e for e in group.envelopes):
        members["properties"] = [pairs(e.get("properties", [])) for e in group.envelopes]
    if any(protobuf.UNKNOWN in e for e in group.envelopes):
        members["unknown"] = [base64.b64encode(e.get(protobuf.UNKNOWN, b"")).decode() for e in group.envelopes]
    if protobuf.UNKNOWN in entries:
        members["entries"] = base64.b64encode(entries[protobuf.UNKNOWN]).decode()
    return members


def _plain_headers(stream: Origin, count: int) -> list[list[tuple[str, bytes]]]:
    """Returns the plain headers of `count` records; `stream` has the number of the last one."""
    shard = [(SHARD, _bytes(stream[SHARD]))] if stream.get(SHARD) is not None else []
    if PS not in stream:
        return [shard] * count
    return [[(PS, str(stream[PS] - count + number).encode()), *shard] for number in range(1, count + 1)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _bytes(value: str | None) -> bytes:
    return (value or "").encode("utf-8", "surrogateescape")


@dataclass(slots=True)
class Numbers:
    """The next offset of a partition, and the ps of each of its shards; `counts`: whether the encoder assigns the numbers."""

    offset: int = -1
    ps: defaultdict[str | None, int] = field(default_factory=lambda: defaultdict(int))
    counts: bool = False


class Cutter:
    """Writes groups as records; remembers the next numbers of each partition."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers: defaultdict[tuple[str, int], Numbers] = defaultdict(Numbers)

    def records(self, place: Place, data: bytes, stream: Origin, envelopes: Origin | None) -> list[dict[str, Any]]:
        """Returns the records of a group; `envelopes`: differences of the original records from plain ones, None if new."""
        numbers, shard = self._numbers[place.topic, place.partition], stream.get(SHARD)
        sizes = (envelopes or {}).get("sizes") or []
        if sum(sizes) != len(data) or min(sizes, default=0) < 0:
            sizes = cut(len(data), self._most)
        count = len(sizes)
        if count > MAX_RECORDS:
            raise ValueError(
                f"one group would have {count} envelopes, at most {MAX_RECORDS} are allowed: raise max_data_bytes"
            )
        if envelopes is None or numbers.counts or count != (envelopes.get("total", 1) or 1):
            numbers.counts = True
            if envelopes is None or PS in stream:
                stream = {**stream, PS: numbers.ps[shard] + count}
            envelopes, place = {}, Place(place.topic, place.partition, numbers.offset + count)
        numbers.offset = max(numbers.offset, place.offset)
        numbers.ps[shard] = stream.get(PS, numbers.ps[shard])
        return self._written(place, data, sizes, stream, envelopes)

    def _written(
        self, place: Place, data: bytes, sizes: list[int], stream: Origin, envelopes: Origin
    ) -> list[dict[str, Any]]:
        count, at, records = len(sizes), 0, []
        offsets = envelopes.get("offsets") or range(place.offset - count + 1, place.offset + 1)
        keys, headers = envelopes.get("keys") or [None] * count, _plain_headers(stream, count)
        if "headers" in envelopes:
            headers = [[(key, value and _bytes(value)) for key, value in of_one] for of_one in envelopes["headers"]]
        properties, unknown = envelopes.get("properties") or [[]] * count, envelopes.get("unknown") or [""] * count
        for index, size in enumerate(sizes):
            envelope = {
                "version": 1,
                "total": 0 if envelopes.get("total") == 0 else count,
                "index": index,
                "data": data[at : at + size] or None,
                "properties": write_pairs(properties[index]),
                protobuf.UNKNOWN: base64.b64decode(unknown[index], validate=True),
            }
            at += size
            records.append(
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "offset": offsets[index],
                    "key": None if keys[index] is None else _bytes(keys[index]),
                    "value": protobuf.write(ENVELOPE, envelope),
                    "headers": [{"key": key, "value": value} for key, value in headers[index]],
                }
            )
        return records


def in_place(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts the records of each partition by offset: groups of several shards interleave."""
    places: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for at, record in enumerate(records):
        places[record["topic"], record["partition"]].append(at)
    ordered = list(records)
    for rows in places.values():
        by_offset = sorted((records[at] for at in rows), key=lambda record: int(record["offset"]))
        for at, record in zip(rows, by_offset, strict=True):
            ordered[at] = record
    return ordered
