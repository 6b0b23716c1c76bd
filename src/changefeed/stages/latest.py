"""latest: all changes of a key -> one row with the state after the last of them.

Changes are ordered by commit_ts, then by topic, partition and offset. A commit_ts is one transaction, for which TiDB sends
the final state of each key, in any order: if one row leaves a key and another takes it, the key exists afterwards. So
within a commit_ts deletes come first, in whichever partition they are. A snapshot row comes before all changes at its own
commit_ts: it is the state before them. Changes without commit_ts are ordered by their partition and offset only.

The last change wins. A partial image sets the columns that it carries and leaves the others to earlier changes, back to
the last delete.

    _has is NULL in all rows    the last row of each key
    some rows are partial       for each column, the last value since the last delete
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from changefeed.model.definition import Table


def latest(changes: DataFrame, table: Table, *, partial: bool) -> DataFrame:
    """Reduces the result of `stages.changes` to one row per key: its state after the last change.

    With `partial`, `_has` flags the columns that are known; the others keep their values in the sink's table.
    """
    from pyspark.sql import functions as F

    keys = [f"c{i}" for i, c in enumerate(table.columns) if c.name in table.keys]
    if not partial:
        whole = F.max_by(F.struct(*changes.columns), _order()).alias("last")
        return changes.groupBy(*keys).agg(whole).select("last.*")
    return _merged(changes, table, keys)


def last_reading(changes: DataFrame) -> DataFrame:
    """Returns the changes of a table without a key, with each snapshot row once.

    A snapshot that was interrupted is taken again, at the same binlog position if nothing was written since. All rows of
    a table have the time at which the snapshot of that table began, in whole seconds: only the rows of the last snapshot
    are kept. Rows of an incremental snapshot have individual times, and all of them are kept.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    same_place, time = Window.partitionBy("_ts"), F.col("_time")
    read = F.col("_op") == "read"
    whole = F.min(F.when(read, F.date_trunc("second", time) == time)).over(same_place)
    last = F.max(F.when(read, time)).over(same_place)
    counted = changes.withColumn("_counts", ~read | ~whole | (time == last))
    return counted.where(F.coalesce("_counts", F.lit(True))).drop("_counts")


def _order() -> Column:
    from pyspark.sql import functions as F

    dated = F.col("_ts").isNotNull()
    reads_first = F.when(dated, F.col("_op") != "read").alias("_changed")
    deletes_first = F.when(dated, F.col("_half")).alias("_kept")
    return F.struct("_ts", reads_first, deletes_first, "_topic", "_partition", "_offset", "_index", "_half")


def _merged(changes: DataFrame, table: Table, keys: list[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = _order()
    same_key = Window.partitionBy(*keys)
    cut = F.max(F.when(F.col("_deleted"), order)).over(same_key)
    since = changes.withColumn("_cut", cut).where(F.col("_cut").isNull() | (order >= F.col("_cut")))
    names = {f"c{i}": c.name for i, c in enumerate(table.columns)}
    values = [c for c in names if c not in keys]
    carried = {c: ~F.col("_deleted") & (F.col("_has").isNull() | F.col("_has")[int(c[1:])]) for c in values}
    others = [c for c in changes.columns if c not in names and c not in ("_has", "_irregular")]
    # a value and its irregular text come from the same change
    sets = [
        F.max_by(
            F.when(carried[c], F.struct(F.col(c).alias("value"), F.col("_irregular")[names[c]].alias("text"))),
            F.when(carried[c], order),
        ).alias(c)
        for c in values
    ]
    last = F.max_by(F.struct(*others), order).alias("last")
    merged = since.groupBy(*keys).agg(last, F.max(F.col("_cut").isNotNull()).alias("cut"), *sets)
    known = [F.lit(True) if c in keys else F.col(c).isNotNull() | F.col("cut") for c in names]
    texts = F.array(*[F.struct(F.lit(names[c]), F.col(c)["text"]) for c in values])
    irregular_texts = F.map_from_entries(F.filter(texts, lambda entry: entry["text"].isNotNull()))
    return merged.select(
        *[F.col(c) if c in keys else F.col(c)["value"].alias(c) for c in names],
        F.array(*known).alias("_has"),
        irregular_texts.cast("map<string,string>").alias("_irregular"),
        *[F.col("last")[c].alias(c) for c in others],
    )
