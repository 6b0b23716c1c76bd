"""Harnesses for the contract of table sinks: they provide the sink and read its tables; see `conformance.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.sinks.base import Applied, Changes, TableSink, WriteRequest, write_alone
from changefeed.sinks.writes import METADATA_COLUMNS, Load, Write, WriteId  # fmt: skip
from changefeed.stages.changes import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


class Harness(Protocol):
    """A sink under test."""

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        """The sink for an owner; every call sees the same tables."""
        ...

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        """The rows of a table at a version, the newest if none is given."""
        ...


def table(*columns: str, name: str = "orders") -> Table:
    """A table; `*id int` is a key column named id."""
    made = []
    for text in columns:
        column, _, kind = text.partition(" ")
        made.append(Column(column.lstrip("*"), ColumnType.parse(kind), key=column.startswith("*")))
    return Table("shop", name, tuple(made), tuple(c.name for c in made if c.key))


@dataclass(frozen=True)
class Given:
    """Changes made by hand: rows of values by column name; None for a value that a partial change does not carry.

    Attributes:
        table: the table that is written.
        after: rows that exist after the changes.
        deleted: keys of deleted rows.
        carried: the columns that partial changes carry; None if changes are complete.
        others: values of columns such as `_time`, the same for all rows; the rest has usual ones.
    """

    table: Table
    after: tuple[Row, ...] = ()
    deleted: tuple[Row, ...] = ()
    carried: tuple[str, ...] | None = None
    others: Row = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.after) + len(self.deleted)

    least = read = rows

    @property
    def partial(self) -> bool:
        return self.carried is not None

    @property
    def chunked(self) -> None:
        return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self.table.columns]
        has = None if self.carried is None else [name in self.carried for name in names]
        yield pa.RecordBatch.from_pylist([], schema(self.table))
        for n, row in enumerate([*self.deleted, *self.after]):  # a batch for each row: a sink has to read all of them
            gone = n < len(self.deleted)
            change = (
                {f"c{i}": row.get(name) for i, name in enumerate(names)}
                | {"_deleted": gone, "_has": None if gone else has, "_irregular": [("total", "x")] if not gone else []}
                | {"_ts": 7, "_topic": "t", "_partition": 0, "_offset": n, "_index": 0, "_op": "insert", "_half": 1}
            )
            yield pa.RecordBatch.from_pylist([change | self.others], schema(self.table))

    def frame(self, spark: SparkSession) -> DataFrame:
        frame = spark.createDataFrame(pa.Table.from_batches(self.batches()))
        for number, column in enumerate(self.table.columns):  # Spark takes a time without a zone for one of its session
            if column.type.name == "datetime":
                frame = frame.withColumn(f"c{number}", frame[f"c{number}"].cast("timestamp_ntz"))
        return frame


def apply(sink: TableSink, write: Write, changes: Changes | None, write_id: WriteId, note: str) -> Applied:
    """Makes one write, as the pipeline does."""
    return write_alone(sink, WriteRequest(write, changes, write_id, note))


def sorted_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows without metadata columns, in an order that does not depend on the sink."""
    plain = [{name: value for name, value in row.items() if name not in METADATA_COLUMNS} for row in rows]
    return sorted(plain, key=repr)


# The table and the writes that the cases of the suite have in common.

ORDERS = table("*id int", "note varchar(20)", "total decimal(10,2)")
LOG = table("at int", "note varchar(20)", name="log")
ONE: Row = {"id": 1, "note": "one", "total": Decimal("1.00")}
TWO: Row = {"id": 2, "note": "two", "total": None}
PATH = "shop/orders"


def write(kind: Any, table_: Any = ORDERS, path: str = PATH, **fields: Any) -> Any:
    return kind(path=path, number=1, table=table_, **fields)


def changed(
    *after: Row, of: Any = ORDERS, deleted: tuple[Row, ...] = (), carried: tuple[str, ...] | None = None, **others: Any
) -> Given:
    return Given(of, after, deleted, carried, others)


def loaded(harness: Harness, *rows: Row, metadata: Sequence[str] = ()) -> TableSink:
    """A sink with the table, written in step 1 of epoch 1."""
    sink = harness.sink(metadata=metadata)
    apply(sink, write(Load), changed(*rows), WriteId(1, 1, 1), "{}")
    return sink


def revision(sink: TableSink, path: str = PATH) -> int:
    """The newest revision of a table."""
    there = sink.snapshot(path)
    assert there is not None
    return there.revision


def commit_count(sink: TableSink, path: str = PATH) -> int | None:
    """The number of commits of a table."""
    return sink.distance(path, -1, revision(sink, path))
