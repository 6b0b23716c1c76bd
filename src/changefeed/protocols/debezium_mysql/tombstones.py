"""Finds the tombstones of a batch that are deletes: those whose own delete is not there.

    offset     5           6           7             8             12                    13
    record     insert 1    delete 1    tombstone 1   insert 2      tombstone 3           insert 4
    sequence   700         800         that of 6     900           a delete: 900         1000

Rule 1. The connector writes a tombstone right behind the delete of its row. If the record at the offset before it is a delete,
        the tombstone has no event. Otherwise its delete is gone: the topic is compacted, or a transform leaves only tombstones.
Rule 2. A tombstone has no place in the order of its own. It comes after the record before it in its partition: its sequence is
        that of the last row there, else one less than that of the next, which no other event has. A higher one would say that
        the rest of the last row's event has been read.
Rule 3. A tombstone that its partition's records in a batch begin with may follow a delete of an earlier batch, which this decoder
        may not have read. It is a delete then, too, which `stages.lone_tombstones` leaves out. But if it names no row, it
        becomes a heartbeat, which changes no table, instead of a dead letter.
Rule 4. Old converters (KAFKA-3832) write a tombstone as the value `{"schema":null,"payload":null}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.connect.parts import NULL
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import SchemaChange
from changefeed.model.shared_rows import adjacent, column_of_tables
from changefeed.protocols.debezium_mysql import names

Deletes = dict[tuple[str, int], int]  # topic and partition -> offset of the last delete


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The record of a tombstone, and its place among the rows.

    Attributes:
        record: its number in the batch.
        sequence: its place in the order; None if no row of its partition is in the batch.
        follows: whether it follows its own delete; None if the record before it is not known.
    """

    record: int
    sequence: int | None
    follows: bool | None


def is_tombstone(value: bytes | None) -> bool:
    """Whether a record with this value is a tombstone."""
    return value is None or value == NULL


def find(records: pa.RecordBatch, decoded: Decoded, deletes: Deletes) -> list[Tombstone]:
    """Returns the tombstones of a batch but those that follow from a delete in it; notes the last deletes in `deletes`.

    Args:
        records: the batch.
        decoded: the events of its other records.
        deletes: of earlier batches.
    """
    values = records.column("value")
    marks = pc.or_(pc.is_null(values), pc.fill_null(pc.equal(values, pa.scalar(NULL, values.type)), False))
    rows = adjacent(decoded.tables)
    deleted = _deleted(rows)
    if not pc.any(marks).as_py():
        if len(deleted):
            _note(records.take(pa.array(deleted)), deletes)
        return []
    lone = _located(records, marks.to_numpy(zero_copy_only=False), rows, decoded.control, deleted, deletes)
    if len(deleted):
        _note(records.take(pa.array(deleted)), deletes)
    return lone


def _deleted(tables: list[TableBatch]) -> np.ndarray:
    """The numbers of the records that are deletes."""
    if not tables:
        return np.array([], np.int64)
    is_delete = pc.equal(column_of_tables(tables, "op"), "delete")
    return np.asarray(column_of_tables(tables, "record").filter(is_delete), np.int64)


def _note(records: pa.RecordBatch, deletes: Deletes) -> None:
    last = pa.table(records.select(["topic", "partition", "offset"]).columns, ["topic", "partition", "offset"])
    for line in last.group_by(["topic", "partition"]).aggregate([("offset", "max")]).to_pylist():
        deletes[line["topic"], line["partition"]] = line["offset_max"]


def _located(
    records: pa.RecordBatch,
    marks: np.ndarray,
    tables: list[TableBatch],
    control: Iterable[object],
    deleted: np.ndarray,
    deletes: Deletes,
) -> list[Tombstone]:
    topics = records.column("topic").dictionary_encode()
    topic, partition = topics.indices.to_numpy(), records.column("partition").to_numpy()
    offset = records.column("offset").to_numpy()
    order = np.lexsort((offset, partition, topic))
    starts = np.r_[True, (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)]
    at = np.arange(len(order))
    first = np.maximum.accumulate(np.where(starts, at, 0))  # of the partition of each place in the order
    stops = np.r_[starts[1:], True]
    final = np.minimum.accumulate(np.where(stops, at, len(order))[::-1])[::-1]
    sequence, known = (numbers[order] for numbers in _sequences(len(order), tables, control))
    before = np.maximum.accumulate(np.where(known, at, -1))
    after = np.minimum.accumulate(np.where(known, at, len(order))[::-1])[::-1]
    is_delete = np.zeros(len(order), bool)
    is_delete[deleted] = True
    places = np.flatnonzero(marks[order])
    previous = order[np.maximum(places - 1, 0)]
    is_first = places == first[places]
    is_own = ~is_first & is_delete[previous] & (offset[previous] == offset[order[places]] - 1)
    is_plain = records.column("value").is_null().to_numpy(zero_copy_only=False)[order[places]]
    located = []
    for i, own in zip(places[~(is_own & is_plain)], is_own[~(is_own & is_plain)], strict=True):
        record = int(order[i])
        follows: bool | None = bool(own)
        if i == first[i]:
            last = deletes.get((topics.dictionary[topic[record]].as_py(), int(partition[record])))
            follows = True if last == offset[record] - 1 else None
        place = None
        if before[i] >= first[i]:
            place = int(sequence[before[i]])
        elif after[i] <= final[i]:
            place = max(int(sequence[after[i]]) - 1, 0)
        located.append(Tombstone(record, place, follows))
    return sorted(located, key=lambda one: one.record)


def _sequences(count: int, tables: list[TableBatch], control: Iterable[object]) -> tuple[np.ndarray, np.ndarray]:
    """The sequence of each record, and whether it has one."""
    sequences, known = np.zeros(count, np.uint64), np.zeros(count, bool)
    if tables:
        of_rows = column_of_tables(tables, "sequence")
        records = column_of_tables(tables, "record").filter(pc.is_valid(of_rows)).to_numpy()
        sequences[records], known[records] = of_rows.drop_null().to_numpy(), True
    for event in control:
        if isinstance(event, SchemaChange) and event.sequence is not None:
            sequences[event.place.record], known[event.place.record] = event.sequence, True
    return sequences, known


def spelled(tables: Iterable[TableBatch]) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Returns topic, and database and table as topics spell them -> their names."""
    names_by_topic = {}
    for table in tables:
        database, name = table.shape.database, table.shape.table
        topic = table.shared.column("topic")[table.start].as_py()
        names_by_topic[topic, names.in_topic(database), names.in_topic(name)] = database, name
    return names_by_topic
