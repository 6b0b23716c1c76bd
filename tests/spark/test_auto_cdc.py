"""Arguments for `create_auto_cdc_flow`: applied by its rule in Spark SQL, they give the rows that were recorded.

The function itself is not in the Spark that is pinned here: what runs is its rule, for each key the row of the highest sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import changefeed.spark
from changefeed.errors import ConfigError
from tests.spark.shop import OPEN, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("table", ["customers", "orders"])
def test_the_last_row_of_each_key_unless_it_is_a_delete(table: str, spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    changes = OPEN.reader(spark, table=f"shop.{table}", before="true").load(str(OPEN.path))
    flow = changefeed.spark.auto_cdc_arguments(["id"])
    rows = changefeed.spark.auto_cdc(changes, ["id"])
    whole = f.max_by(f.struct(*rows.columns), f.col(flow["sequence_by"])).alias("last")
    last = rows.groupBy(*flow["keys"]).agg(whole).select("last.*").where(f"not ({flow['apply_as_deletes']})")
    target = last.drop(*flow["except_column_list"])
    wanted = {int(row["id"]): row for row in expected(table)}
    assert {int(row["id"]) for row in target.select("id").collect()} == set(wanted)
    assert not set(wanted[next(iter(wanted))]) - set(target.columns)
    name = "name" if table == "customers" else "status"
    assert {int(r["id"]): r[name] for r in target.collect()} == {key: row[name] for key, row in wanted.items()}


def test_a_moved_key_is_a_delete_and_an_upsert(spark: SparkSession) -> None:
    place = "named_struct('topic', 't', 'partition', 0, 'offset', 1L, 'index', 0)"
    changes = spark.sql(
        f"select 'update' _op, 5L _commit_ts, now() _commit_time, {place} _position, 2 id, 'b' v, "
        "named_struct('id', 1, 'v', 'a') _before"
    )
    rows = changefeed.spark.auto_cdc(changes, ["id"]).orderBy("_sequence").collect()
    assert [(r["_op"], r["id"], r["v"]) for r in rows] == [("delete", 1, "a"), ("update", 2, "b")]


def test_changes_without_the_old_image_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError) as caught:
        changefeed.spark.auto_cdc(spark.sql("select 'insert' _op, 1 id"), ["id"])
    assert str(caught.value) == (
        "changefeed: the changes have no column _commit_ts, _commit_time, _position, _before: read one table, with `before`"
    )


def test_the_function_is_not_in_the_spark_of_this_line() -> None:
    """When this test fails, the function itself can be tested."""
    import pyspark

    assert pyspark.__version__.startswith("4.1.")
    source = (Path(pyspark.__file__).parent / "pipelines" / "api.py").read_text()
    assert "create_auto_cdc_flow" not in source
