"""Converts rows of changes to records, for `encode` and for the writers of the data source.

Rule 1. A row's position names the topic, partition and offset of its record; without a position, these are the topic of the
        options, partition 0, and the row's number. Each partition has its own encoder, which keeps the order of rows.
Rule 2. Columns of a single table have the MySQL types in their metadata, as a read returns them, or those of `types.py`; the key
        is the columns in `keys`, or those marked in the metadata. With all tables, VARIANT contains the types: integers are
        `bigint`, decimals have their digits, texts are `longtext`; a column that is NULL in all rows of a batch has no type.
Rule 3. Dead letters cannot be written, and no row is left out: a row without an op ends the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec.encoding import encoder
from changefeed.errors import ConfigError, UnsupportedError
from changefeed.frames.convert import from_sink
from changefeed.frames.partitions import by_partition
from changefeed.model.batch import IRREGULAR, TRANSACTION, Decoded, TableBatch, table_schema
from changefeed.model.definition import Table
from changefeed.model.event import OPS
from changefeed.model.table import TableShape
from changefeed.protocols import protocol
from changefeed.protocols.base import ClosingEncoder, Encoder
from changefeed.spark.shapes import POSITION
from changefeed.spark.types import table_of
from changefeed.spark.untyped import from_variants
from changefeed.stages.transcode import Language, in_partition, refuse_dispatch
from changefeed.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TableKeys = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Plan for converting rows to records. Pickled and sent to the tasks.

    Attributes:
        language: the protocol and its options.
        table: the table of all rows; None for changes of all tables.
        topic: the topic for rows without a position.
        keys: `database.table` -> names of its key columns, for changes of all tables.
    """

    language: Language
    table: Table | None
    topic: str = "changefeed"
    keys: TableKeys = field(default_factory=dict)

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the records of these rows.

        Raises:
            UnsupportedError: the protocol cannot represent a change, or a row is not a change.
        """
        encoders: dict[tuple[str, int], Encoder] = {}
        numbers = count()
        for batch in batches:
            for topic, partition, rows in by_partition(self._placed(batch, numbers)):
                if (topic, partition) not in encoders:
                    options = protocol(self.language.name).read_options(self.language.options)
                    encoders[topic, partition] = encoder(self.language.name, options, stores_of(options))
                yield in_partition(encoders[topic, partition].encode(self.changes(rows)), partition)
        for (_, partition), one in encoders.items():
            if isinstance(one, ClosingEncoder):
                yield in_partition(one.finish(), partition)

    def changes(self, rows: pa.RecordBatch) -> Decoded:
        """Converts rows, with positions in columns of their own, to changes."""
        _check_ops(rows, self._prefix)
        if self.table is None:
            return from_variants(rows, self.keys)
        columns = self.table.columns
        core = {c.name: from_sink(rows.column(c.name), c.type) for c in columns}
        deleted = pc.equal(rows.column("_op"), "delete")
        images = {"after": _image(core, deleted), "before": _image(core, pc.invert(deleted))}
        if "_before" in rows.schema.names:
            before = rows.column("_before")
            parts = dict(zip((f.name for f in before.type), before.flatten(), strict=True))
            images["before"] = _image({c.name: from_sink(parts[c.name], c.type) for c in columns}, pc.is_null(before))
        shape = TableShape(self.table.database, self.table.name, columns)
        return Decoded(tables=[_table_batch(rows, shape, images)])

    @property
    def _prefix(self) -> str:
        return "" if self.table is None else "_"

    def _placed(self, batch: pa.RecordBatch, numbers: Iterator[int]) -> pa.RecordBatch:
        """Returns the rows with topic, partition, offset and index as columns of their own."""
        name = f"{self._prefix}position"
        if name in batch.schema.names:
            position = batch.column(name)
            parts = dict(zip((f.name for f in position.type), position.flatten(), strict=True))
        else:
            parts = {"offset": pa.array([next(numbers) for _ in range(len(batch))], pa.int64())}
        defaults = {"topic": self.topic, "partition": 0, "offset": 0, "index": None}
        for one in POSITION:
            column = parts.get(one.name, pa.nulls(len(batch), one.type))
            column = column if defaults[one.name] is None else pc.fill_null(column, defaults[one.name])
            batch = batch.append_column(one.name, column.cast(one.type))
        return batch


def writing(language: Language, table: str | None, schema: StructType, topic: str, keys: TableKeys) -> WritePlan:
    """Returns the plan for rows with these columns.

    Raises:
        ConfigError: the columns are not those of changes, or an option sends rows to other partitions.
    """
    options = protocol(language.name).read_options(language.options)
    refuse_dispatch(language.name, options)
    names = {name.lower() for name in schema.names}
    if table is None:
        if missing := {"table", "op", "before", "after"} - names:
            raise ConfigError(
                f"changefeed: the rows do not have column {', '.join(sorted(missing))}. Pass changes of all tables, with the "
                "columns that a read returns, or name the table of the rows in `table`"
            )
        return WritePlan(language, None, topic, keys)
    if "_op" not in names:
        raise ConfigError(f"changefeed: the rows of {table} do not have column _op, with one of {', '.join(OPS)}")
    known = table_of(table, schema)
    key = keys.get(table, known.keys)
    if missing := set(key) - {c.name for c in known.columns}:
        raise ConfigError(f"changefeed: option keys: {table} has no column {', '.join(sorted(missing))}")
    columns = tuple(replace(c, key=c.name in key) for c in known.columns)
    return WritePlan(language, replace(known, columns=columns, keys=key), topic, keys)


def _check_ops(rows: pa.RecordBatch, prefix: str) -> None:
    ops = rows.column(f"{prefix}op")
    wrong = pc.indices_nonzero(pc.invert(pc.fill_null(pc.is_in(ops, value_set=pa.array(OPS)), False)))
    if len(wrong):
        row = wrong[0].as_py()
        place = ":".join(str(rows.column(name)[row]) for name in ("topic", "partition", "offset"))
        raise UnsupportedError(
            f"changefeed: the row at {place} has the op {ops[row].as_py()!r}, which is not one of {', '.join(OPS)}. Filter out "
            "rows that are not changes, such as dead letters"
        )


def _image(columns: dict[str, pa.Array], absent: pa.BooleanArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=absent)


def _table_batch(rows: pa.RecordBatch, shape: TableShape, images: dict[str, pa.StructArray]) -> TableBatch:
    size = len(rows)
    names = set(rows.schema.names)

    def column(name: str, kind: pa.DataType) -> pa.Array:
        return rows.column(name).cast(kind) if name in names else pa.nulls(size, kind)

    time = column("_commit_time", pa.timestamp("us", tz="UTC"))
    unit = "us" if pc.any(pc.not_equal(pc.microsecond(time), 0)).as_py() else "ms"
    schema = table_schema(shape, unit)
    columns = {
        "record": pa.array(range(size), pa.int32()),
        **{name: rows.column(name) for name in ("topic", "partition", "offset", "index")},
        "op": rows.column("_op").cast(pa.string()),
        "commit_ts": column("_commit_ts", pa.uint64()),
        "sequence": pa.nulls(size, pa.uint64()),
        "commit_time": time.cast(pa.timestamp(unit, tz="UTC")),
        "transaction": pa.nulls(size, TRANSACTION),
        "origin": pa.nulls(size, pa.string()),
        "irregular": _irregular(rows) if "_irregular" in names else pa.array([[]] * size, IRREGULAR),
        **{side: images[side].cast(schema.field(side).type) for side in images},
    }
    return TableBatch(shape, pa.RecordBatch.from_arrays([columns[f.name] for f in schema], schema=schema))


def _irregular(rows: pa.RecordBatch) -> pa.Array:
    return pa.array(
        [[(k, v.encode()) for k, v in one or ()] for one in rows.column("_irregular").to_pylist()], IRREGULAR
    )
