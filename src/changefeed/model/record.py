"""Kafka records as Python values; as Arrow columns they have the schema `batch.RECORDS`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from changefeed.errors import SchemaError
from changefeed.model.batch import RECORDS, record_batch


class Record(NamedTuple):
    """One Kafka record. A tuple of the same values, or a dict with these names, can be used instead.

    Attributes:
        key, value: the bytes, or None.
        topic: the topic's name, without a colon.
        partition: the partition, from 0.
        offset: the offset, from 0; None: the decoder numbers the records itself.
        timestamp: the record's time, with a time zone.
        headers: (name, value) pairs; a value may be None.
    """

    key: bytes | None
    value: bytes | None
    topic: str = "records"
    partition: int = 0
    offset: int | None = None
    timestamp: datetime | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Records: TypeAlias = pa.RecordBatch | pa.Table | Iterable[Record | tuple[Any, ...] | dict[str, Any]]


def batch_of(records: Records, first: int = 0) -> pa.RecordBatch:
    """Converts records to an Arrow batch with the columns of `RECORDS`.

    Args:
        records: an Arrow batch or table with some of these columns, or `Record`s, tuples or dicts.
        first: offset of the first record, if the records have no offsets.

    Raises:
        SchemaError: a record has an unknown name, or a value of a wrong type.
    """
    try:
        if isinstance(records, pa.RecordBatch | pa.Table):
            return _filled(records, first)
        return record_batch(_row(_record(record), number) for number, record in enumerate(records, first))
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SchemaError(
            f"expected records of key, value, topic, partition, offset, timestamp and headers: {error}"
        ) from error


def records_of(batch: pa.RecordBatch) -> list[Record]:
    """Converts an Arrow batch with the columns of `RECORDS` to a list of records."""
    records = []
    for row in batch.to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        place = row["topic"], row["partition"], row["offset"]
        records.append(Record(row["key"], row["value"], *place, row["timestamp"], headers))
    return records


def _record(value: tuple[Any, ...] | dict[str, Any]) -> Record:
    if isinstance(value, Record):
        return value
    return Record(**value) if isinstance(value, dict) else Record(*value)


def _row(record: Record, number: int) -> dict[str, Any]:
    headers = [{"key": name, "value": value} for name, value in record.headers]
    time = None if record.timestamp is None else record.timestamp.astimezone(UTC)
    offset = number if record.offset is None else record.offset
    return {**record._asdict(), "offset": offset, "timestamp": time, "headers": headers}


def _filled(records: pa.RecordBatch | pa.Table, first: int) -> pa.RecordBatch:
    table = pa.table(records)
    for name in table.column_names:
        if name not in RECORDS.names:
            raise ValueError(f"unknown column {name}")
    count = len(table)
    if not count:
        return record_batch([])
    absent = {
        "topic": pa.array(["records"] * count, pa.string()),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestampType": pa.array([0] * count, pa.int32()),
        "headers": pa.array([[]] * count, RECORDS.field("headers").type),
    }
    columns = [
        table.column(f.name).cast(f.type).combine_chunks() if f.name in table.column_names
        else absent.get(f.name, pa.nulls(count, f.type))
        for f in RECORDS
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=RECORDS).combine_chunks().to_batches()[0]
