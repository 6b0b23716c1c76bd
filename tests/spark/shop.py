"""The shop's history in every protocol, and its changes, computed without Spark from the whole log at once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import localcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed import record_log
from changefeed.frames.convert import to_canonical
from changefeed.model.types import ColumnType
from changefeed.stages.decode import RecordReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

SHOP = Path(__file__).parent.parent / "data" / "shop"
Row = dict[str, Any]


@dataclass(frozen=True)
class Log:
    """A recorded history. `doubles` are decimal columns that it sends as doubles."""

    protocol: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    doubles: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.protocol}/{self.name}"

    @property
    def path(self) -> Path:
        return SHOP / self.protocol / f"{self.name}.jsonl.gz"

    def records(self) -> pa.RecordBatch:
        return pa.Table.from_batches(record_log.read(self.path)).combine_chunks().to_batches()[0]

    def reader(self, spark: SparkSession, **options: str) -> DataFrameReader:
        import changefeed.spark

        spark.dataSource.register(changefeed.spark.DataSource)
        settings = {"protocol": self.protocol, **self.options, **options}
        return spark.read.format("changefeed").options(**settings)


def _avro(name: str) -> dict[str, str]:
    return {"schema-registry": str(SHOP / "ticdc-avro" / f"{name}.schemas.json")}


_DECIMALS = ("balance", "total", "price", "amount")
OPEN = Log("ticdc-open", "open-3.newarch")
SPLIT = Log("tencent-dts", "four-partitions-split")
LOGS = [
    OPEN,
    Log("ticdc-open", "open-1.classic"),
    Log("ticdc-avro", "avro-watermark.classic", _avro("avro-watermark.classic")),
    Log("ticdc-avro", "avro-ext.newarch", _avro("avro-ext.newarch") | {"avro-bigint-unsigned-handling-mode": "string"}),
    Log("ticdc-debezium", "dbz-schema.classic", doubles=_DECIMALS),
    Log("ticdc-debezium", "dbz-noschema.newarch", doubles=_DECIMALS),
    Log("debezium-mysql", "mariadb-10.11-schema"),
    Log(
        "debezium-mysql",
        "mysql-8.0.33-noschema",
        {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise"},
    ),
    Log("tencent-dts", "one-partition"),
    SPLIT,
    Log("canal-json", "from-open-3"),
]


def changes(log: Log) -> list[Row]:
    """Every change of the log as the columns of the shape for all tables; images as dicts of Arrow's values."""
    read, rows = RecordReader(log.protocol, log.options), list[Row]()
    for table in read(log.records()).tables:
        for row in table.rows.to_pylist():
            place = {name: row[name] for name in ("topic", "partition", "offset", "index")}
            texts = {name: text.decode() for name, text in row["irregular"]}
            images = {side: row[side] and dict(row[side]) for side in ("before", "after")}
            for name, text in texts.items():
                side = "before" if row["after"] is None or name.startswith("before.") else "after"
                images[side][name.removeprefix("before.")] = text
            name = f"{table.shape.database}.{table.shape.table}"
            common = {key: row[key] for key in ("op", "commit_ts", "commit_time")}
            rows.append({"table": name, **common, "position": place, **images})
    return in_order(rows)


def in_order(rows: list[Row], position: str = "position") -> list[Row]:
    """The rows by their place in the log."""
    return sorted(rows, key=lambda row: tuple(-1 if v is None else v for v in row[position].values()))


def shown(frame: DataFrame) -> list[Row]:
    """The rows of a DataFrame in the shape for all tables; VARIANT as Python's values."""
    with localcontext(prec=100):  # pyspark multiplies the digits of a decimal
        return in_order(
            [{name: _plain(name, value) for name, value in row.asDict().items()} for row in frame.collect()]
        )


def _plain(name: str, value: Any) -> Any:
    from pyspark.sql.types import VariantVal

    if isinstance(value, VariantVal):
        return value.toPython()
    if name == "commit_time":
        return value and value.timestamp()
    return value.asDict() if name == "position" else value


def final(frame: DataFrame, key: str) -> list[Row]:
    """The canonical rows of a table after all of its changes, in the shape for one table with `_before`."""
    kinds = {f.name: f.metadata["mysql"] for f in frame.schema if "mysql" in (f.metadata or {})}
    table = frame.toArrow()
    columns = {name: to_canonical(table.column(name), ColumnType.parse(kind)) for name, kind in kinds.items()}
    order = table.column("_position").to_pylist()
    before = [image and image[key] for image in table.column("_before").to_pylist()]
    keys, ops, ts = (table.column(name).to_pylist() for name in (key, "_op", "_commit_ts"))

    def placed(row: int) -> tuple[Any, ...]:
        dated = (ts[row], ops[row] != "read", ops[row] != "delete")
        return (*dated, *(-1 if v is None else v for v in order[row].values()))

    rows: dict[Any, Row] = {}
    for row in sorted(range(len(keys)), key=placed):
        if before[row] is not None:
            rows.pop(before[row], None)
        if ops[row] == "delete":
            rows.pop(keys[row], None)
        else:
            rows[keys[row]] = {name: values[row] for name, values in columns.items()}
    return list(rows.values())


def expected(table: str) -> list[Row]:
    """The rows that were recorded with the history, at its end."""
    with gzip.open(SHOP / "expected" / "final" / f"{table}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def comparable(rows: list[Row], columns: Iterator[str] | list[str], doubles: tuple[str, ...]) -> list[str]:
    """The rows as texts that are equal if the rows are: decimals that were sent as doubles, JSON without its spaces."""
    names = list(columns)
    texts = []
    for row in rows:
        values = {name: row[name] for name in names}
        values |= {name: values[name] and float(values[name]) for name in doubles if name in values}
        if values.get("meta") is not None:
            values["meta"] = json.loads(values["meta"])
        texts.append(json.dumps(values, sort_keys=True))
    return sorted(texts)
