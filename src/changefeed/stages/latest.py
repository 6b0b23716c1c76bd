"""latest: all changes of a key -> one row with the state after the last of them.

The order of changes, which `sinks.apply.latest` and `pipeline.pending.memory` compute without Spark:

Rule 1. Changes are ordered by commit_ts. A snapshot row comes before all changes at its own commit_ts: it is the state before
them. Changes without commit_ts have the order of their topic, partition, offset and event only.
Rule 2. Changes of a key that have one commit_ts and are in one partition keep their order there, by offset and event: a REPLACE
of several rows writes a row, deletes it and writes it again in one event of the binlog.
Rule 3. A key has changes at one commit_ts in two partitions only if a row left the key in one of them, and another row took it in
the other: the key exists afterwards. So the partitions in which its last change at the commit_ts is a delete come first, then the
others; each group by topic and partition.
Rule 4. With `final_states`, a commit_ts is a transaction of TiDB, of which each row is sent in its final state, in any order. An
update that moves a row leaves the old key before any row takes it. A second delete or a second write of a key in a partition is
the first one sent again, perhaps without the rest: if there is one, deletes come first.

    commit_ts 7    partition 0       partition 1       the key afterwards
                   write, delete     -                 does not exist
                   delete            write             exists
                   write, delete     write             exists, as in partition 1

The last change wins. A partial image sets the columns that it carries and leaves the others to earlier changes, back to
the last delete.

    _has is NULL in all rows    the last row of each key
    some rows are partial       for each column, the last value since the last delete
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from changefeed.model.definition import Table

_ORDER = "_order"  # column: a change's place in the order of all changes of its key


def latest(changes: DataFrame, table: Table, *, partial: bool, final_states: bool = False) -> DataFrame:
    """Reduces the result of `stages.changes` to one row per key: its state after the last change.

    With `partial`, `_has` flags the columns that are known; the others keep their values in the sink's table.
    `final_states`: see Rule 4.
    """
    from pyspark.sql import functions as F

    keys = [f"c{i}" for i, c in enumerate(table.columns) if c.name in table.keys]
    ordered = _ordered(changes, keys, final_states=final_states)
    if partial:
        return _merged(ordered, table, keys).select(*changes.columns)
    whole = F.max_by(F.struct(*changes.columns), _ORDER).alias("last")
    return ordered.groupBy(*keys).agg(whole).select("last.*")


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


def _ordered(changes: DataFrame, keys: list[str], *, final_states: bool) -> DataFrame:
    """The changes, with their order as the column `_ORDER`; those of a key are in one partition of Spark."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    changed = F.when(F.col("_ts").isNotNull(), F.col("_op") != "read")
    together = Window.partitionBy(*keys, "_ts", changed, "_topic", "_partition")
    place = [F.col(name) for name in ("_offset", "_index", "_half")]
    if final_states:
        repeats = F.greatest(F.sum(F.col("_half")).over(together), F.sum(1 - F.col("_half")).over(together)) > 1
        moved = F.col("_op") == "update"
        place.insert(0, F.when(F.col("_ts").isNotNull(), ~F.col("_deleted") | ~(repeats | moved)).alias("_kept"))
    written = F.when(F.col("_ts").isNotNull(), F.max_by(~F.col("_deleted"), F.struct(*place)).over(together))
    order = F.struct("_ts", changed.alias("_changed"), written.alias("_written"), "_topic", "_partition", *place)
    return changes.repartition(*keys).withColumn(_ORDER, order)


def _merged(changes: DataFrame, table: Table, keys: list[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = F.col(_ORDER)
    same_key = Window.partitionBy(*keys)
    cut = F.max(F.when(F.col("_deleted"), order)).over(same_key)
    since = changes.withColumn("_cut", cut).where(F.col("_cut").isNull() | (order >= F.col("_cut")))
    names = {f"c{i}": c.name for i, c in enumerate(table.columns)}
    values = [c for c in names if c not in keys]
    carried = {c: ~F.col("_deleted") & (F.col("_has").isNull() | F.col("_has")[int(c[1:])]) for c in values}
    others = [c for c in changes.columns if c not in names and c not in ("_has", "_irregular", _ORDER)]
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
