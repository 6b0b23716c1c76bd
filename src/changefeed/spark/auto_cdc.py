"""Prepares a table's changes, and the arguments, for Spark's `create_auto_cdc_flow`.

`create_auto_cdc_flow` of `pyspark.pipelines` keeps a table of a declarative pipeline equal to its upstream. It exists on
Databricks, and in open-source Spark from 4.2 on; Spark 4.1 has pipelines, but not this function. Its source consists of
upserts and deletes by key, with a column that orders them:

    @dp.temporary_view
    def order_changes():
        return changefeed.spark.auto_cdc(read_orders(), keys=["id"])

    dp.create_streaming_table("orders")
    dp.create_auto_cdc_flow("orders", "order_changes", **changefeed.spark.auto_cdc_arguments(["id"]))

Rule 1. Changes are ordered by commit_ts; then rows that a snapshot read come before changes, and deletes before the row
        that took the key in the same transaction; then by position.
Rule 2. An update that changes the key becomes two rows: the old key deleted, the new one written. So the changes must have
        `_before` (option `before`). If the producer sends no image before the change, the old row remains.
Rule 3. The columns that describe a change (`_op`, `_commit_ts`, …) are not written to the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError
from changefeed.spark.types import OWN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SEQUENCE = "_sequence"
_CHANGE = OWN[:4]


def auto_cdc_arguments(keys: Sequence[str]) -> dict[str, Any]:
    """Returns the arguments `keys`, `sequence_by`, `apply_as_deletes` and `except_column_list` for the rows of `auto_cdc`."""
    return {
        "keys": list(keys),
        "sequence_by": _SEQUENCE,
        "apply_as_deletes": "_op = 'delete'",
        "except_column_list": [*_CHANGE, _SEQUENCE],
    }


def auto_cdc(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Converts a table's changes to upserts and deletes by key, with the column `_sequence` for their order.

    Args:
        changes: the changes of one table, read with option `before`.
        keys: names of the columns that identify a row.

    Raises:
        ConfigError: the changes have no column `_before`, or lack a key column.
    """
    from pyspark.sql import functions as f

    missing = [name for name in (*_CHANGE, "_before", *keys) if name not in changes.columns]
    if missing or not keys:
        raise ConfigError(
            f"changefeed: the changes have no column {', '.join(missing) or 'of a key'}: read one table, with `before`"
        )
    columns = [name for name in changes.columns if name not in OWN]
    other = reduce(lambda a, b: a | b, (~f.col(k).eqNullSafe(f.col("_before")[k]) for k in keys))
    moved = (f.col("_op") == "update") & f.col("_before").isNotNull() & other
    row = _row(columns, f.col("_op"), None)
    both = f.when(moved, f.array(_row(columns, f.lit("delete"), "_before"), row)).otherwise(f.array(row))
    single = changes.where(f.col("_op").isNotNull())  # dead letters are not
    rows = single.select(*_CHANGE[1:], f.explode(both).alias("row")).select(*_CHANGE[1:], "row.*")
    order = {
        "commit_ts": f.col("_commit_ts"),
        "changed": f.col("_op") != "read",
        "kept": f.col("_op") != "delete",
        "position": f.col("_position"),
    }
    return rows.withColumn(_SEQUENCE, f.struct(*(column.alias(name) for name, column in order.items())))


def _row(columns: Sequence[str], op: Column, image: str | None) -> Column:
    from pyspark.sql import functions as f

    values = [f.col(name) if image is None else f.col(image)[name].alias(name) for name in columns]
    return f.struct(op.alias("_op"), *values)
