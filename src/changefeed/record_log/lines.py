"""Records as JSON Lines.

    {"topic":"shop","partition":0,"offset":41,"timestamp":1767225600123,"key":"AAAB","value":null,"headers":[["k","AA=="]]}

`key`, `value` and the values of headers are base64 or null; `key_text` and `value_text` are UTF-8 instead, for logs written by
hand. Defaults: `topic` is the file's stem, `partition` 0, `offset` the line's number from 0, and there are no headers.
`timestamp` is in milliseconds. Any other member of a line is an error.

A last line without line feed is a record if it is complete: the beginning of a JSON object is never valid JSON. The records
before a damaged place are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from changefeed.errors import SourceError, UnsupportedError
from changefeed.model.batch import RECORDS
from changefeed.model.position import TOPIC_RULE
from changefeed.record_log.batches import BATCH_BYTES
from changefeed.record_log.position import LogPosition
from changefeed.record_log.stream import compression, lines

_Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=-(2**63 // 1000), le=2**63 // 1000)]
_TOPIC = "^[^:]+$"
_Topic = Annotated[str, msgspec.Meta(pattern=_TOPIC)]
_Headers = list[tuple[str, bytes | None]]
_UNSET = msgspec.UNSET
_OTHER_FILES = {
    b"\xef\xbb\xbf": "begins with a byte order mark, which must be removed",
    b"\x1f\x8b": "is gzip, and needs a name that ends with .jsonl.gz",
    b"\x28\xb5\x2f\xfd": "is Zstandard, and needs a name that ends with .jsonl.zst",
    b"PAR1": "is Parquet, and needs a name that ends with .parquet",
}


class _Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    topic: _Topic | msgspec.UnsetType = _UNSET
    partition: _Int32 = 0
    offset: _Int64 | msgspec.UnsetType = _UNSET
    timestamp: _Milliseconds | None = None
    key: bytes | msgspec.UnsetType | None = _UNSET
    value: bytes | msgspec.UnsetType | None = _UNSET
    key_text: str | msgspec.UnsetType | None = _UNSET
    value_text: str | msgspec.UnsetType | None = _UNSET
    headers: _Headers = []


class _Where(msgspec.Struct):
    topic: _Topic | msgspec.UnsetType = _UNSET
    partition: _Int32 = 0


_decode = msgspec.json.Decoder(_Record).decode
_decode_where = msgspec.json.Decoder(_Where).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode_into


def read(
    path: Path, *, batch_size: int, start: int, stop: int | None, at: LogPosition, copy: Path | None = None
) -> Iterator[pa.RecordBatch]:
    """The records `start` to `stop`; `at` is a cursor at or before `start`, at which `copy` begins."""
    first = at.records if at.bytes or copy else 0
    text = lines(path, at.bytes) if copy is None else lines(copy)
    wanted = islice(enumerate(text, first), start - first, None if stop is None else stop - first)
    topic = default_topic(path)
    rows: list[tuple[Any, ...]] = []
    size = 0
    try:
        for number, line in wanted:
            rows.append(_row(line, number, path, topic))
            size += len(line)
            if len(rows) >= batch_size or size >= BATCH_BYTES:
                yield _batch(rows)
                rows, size = [], 0
    except SourceError:
        if rows:
            yield _batch(rows)
        raise
    if rows:
        yield _batch(rows)


def advance(path: Path, at: LogPosition, limit: int | None) -> LogPosition:
    """The cursor `limit` complete records after `at`, or after the last one."""
    records, size = (at.records, at.bytes) if at.bytes else (0, 0)
    for line in lines(path, at.bytes):
        if (limit is not None and records >= at.records + limit) or not _whole(line):
            break
        records += 1
        size += _length(line)
    return LogPosition(records, size if compression(path) is None else 0)


def scan(path: Path, at: LogPosition) -> tuple[dict[str, dict[int, int]], LogPosition]:
    """See `record_log.scan`; members other than topic and partition are not read."""
    topics: dict[str, dict[int, int]] = {}
    topic = default_topic(path)
    number, size = (at.records, at.bytes) if at.bytes else (0, 0)
    for line in lines(path, at.bytes):
        if not _whole(line):
            break
        try:
            where = _decode_where(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _no_record(path, number, line, error) from error
        number += 1
        topics.setdefault(topic if where.topic is _UNSET else where.topic, {})[where.partition] = number
        size += _length(line)
    return topics, LogPosition(number, size if compression(path) is None else 0)


def _length(line: bytes) -> int:
    """The line's length including its line feed, even if the line feed has not been written yet."""
    return len(line) if line[-1:] == b"\n" else len(line) + 1


def _whole(line: bytes) -> bool:
    if line[-1:] == b"\n":
        return True
    try:
        _decode_any(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def default_topic(path: Path) -> str:
    """The topic of records and events without one: the file's stem, up to a colon, which would end it in positions."""
    return path.name.split(".jsonl")[0].replace(":", "_") or "records"


def _row(line: bytes, number: int, path: Path, topic: str) -> tuple[Any, ...]:
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _no_record(path, number, line, error) from error
    time = record.timestamp
    return (
        _body(record.key, record.key_text, "key", path, number),
        _body(record.value, record.value_text, "value", path, number),
        topic if record.topic is _UNSET else record.topic,
        record.partition,
        number if record.offset is _UNSET else record.offset,
        None if time is None else time * 1000,
        0,
        record.headers,
    )


def _body(data: Any, text: Any, name: str, path: Path, number: int) -> bytes | None:
    if text is _UNSET:
        return None if data is _UNSET else data
    if data is not _UNSET:
        raise SourceError(f"{path}:{number + 1}: it has both `{name}` and `{name}_text`: give only one of them")
    return None if text is None else text.encode()


def _no_record(path: Path, number: int, line: bytes, error: Exception) -> SourceError:
    if not line.strip():
        return SourceError(f"{path}:{number + 1}: an empty line is not a record")
    for start, what in _OTHER_FILES.items():
        if number == 0 and line.startswith(start):
            return SourceError(f"{path} is not JSON Lines: it {what}")
    if line[-1:] != b"\n" and not isinstance(error, msgspec.ValidationError):
        return SourceError(f"{path}:{number + 1}: the last line is incomplete: {len(line)} bytes, and no line feed yet")
    message = f"{TOPIC_RULE} - at `$.topic`" if repr(_TOPIC) in str(error) else error
    return SourceError(f"{path}:{number + 1}: {message}")


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), RECORDS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


class _Line(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def encode(batch: pa.RecordBatch) -> bytearray:
    """The lines of these records, each with its line feed.

    Raises:
        UnsupportedError: a timestamp is finer than a millisecond, or a record has no topic, partition or offset.
    """
    text = bytearray()
    times = batch.column("timestamp").cast(pa.int64())
    names = ("topic", "partition", "offset", "key", "value", "headers")
    columns = [batch.column(name).to_pylist() for name in names]
    for topic, partition, offset, key, value, headers, us in zip(*columns, times.to_pylist(), strict=True):
        if topic is None or partition is None or offset is None:
            raise UnsupportedError(f"a record lacks its topic, partition or offset: {topic}:{partition}:{offset}")
        if us is not None and us % 1000:
            raise UnsupportedError(
                f"{topic}:{partition}:{offset}: its timestamp has microseconds, JSON Lines hold milliseconds"
            )
        pairs = [(h["key"], h["value"]) for h in headers or ()]
        line = _Line(topic, partition, offset, None if us is None else us // 1000, key, value, pairs)
        _encode(line, text, -1)
        text += b"\n"
    return text
