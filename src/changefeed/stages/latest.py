"""latest: many changes of a key -> the one that counts.

Changes are ordered by commit_ts, then by where they lie in their partition: one key's changes are all in one partition
or ordered by commit_ts alone. The last change wins. A partial image sets the columns that it carries and leaves the
rest to the change before it; a delete cuts that off.

    _has is NULL everywhere     the last row of each key
    some are partial            column by column, the last value since the last delete
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from changefeed.model.definition import Table

_ORDER = ("_ts", "_topic", "_partition", "_offset", "_index", "_half")


def latest(changes: DataFrame, table: Table, *, partial: bool) -> DataFrame:
    """One row a key: what `stages.changes` returned, reduced to the state after the last change.

    With `partial`, `_has` tells which columns are known; a column that is not keeps its value in the sink's table.
    """
    from pyspark.sql import functions as F

    keys = [f"c{i}" for i, c in enumerate(table.columns) if c.name in table.keys]
    order = F.struct(*_ORDER)
    if not partial:
        whole = F.max_by(F.struct(*changes.columns), order).alias("last")
        return changes.groupBy(*keys).agg(whole).select("last.*")
    return _merged(changes, table, keys, order)


def _merged(changes: DataFrame, table: Table, keys: list[str], order: Column) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    same_key = Window.partitionBy(*keys)
    cut = F.max(F.when(F.col("_deleted"), order)).over(same_key)
    since = changes.withColumn("_cut", cut).where(F.col("_cut").isNull() | (order >= F.col("_cut")))
    values = [f"c{i}" for i in range(len(table.columns)) if f"c{i}" not in keys]
    carried = {name: ~F.col("_deleted") & (F.col("_has").isNull() | F.col("_has")[int(name[1:])]) for name in values}
    last = F.max_by(F.struct(*[c for c in changes.columns if c not in values and c not in keys]), order).alias("last")
    sets = [F.max_by(F.when(carried[n], F.struct(n)), F.when(carried[n], order)).alias(n) for n in values]
    known = F.array(
        *[
            F.lit(True) if f"c{i}" in keys else F.col(f"c{i}").isNotNull() | F.col("was_deleted")
            for i in range(len(table.columns))
        ]
    )
    found = since.groupBy(*keys).agg(last, F.max(F.col("_cut").isNotNull()).alias("was_deleted"), *sets)
    kept = [c for c in changes.columns if c not in values and c not in keys and c != "_has"]
    return found.select(
        *[F.col(c) if c in keys else F.col(c)[c].alias(c) for c in [f"c{i}" for i in range(len(table.columns))]],
        known.alias("_has"),
        *[F.col("last")[c].alias(c) for c in kept],
    )
