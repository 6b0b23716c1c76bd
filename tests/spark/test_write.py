"""Changes are written as record logs in any protocol, from either shape, and are the same when they are read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import changefeed.spark
from changefeed.protocols import PROTOCOLS
from changefeed.protocols import protocol as by_name
from tests.spark.shop import OPEN, comparable, expected, final, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def ordered(changes: DataFrame, position: str) -> DataFrame:
    return changes.repartition(f"{position}.topic", f"{position}.partition").sortWithinPartitions(position)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS.keys() - {"ticdc-avro"}))  # which needs a schema registry
def test_a_table_written_in_a_protocol_is_the_same_table(protocol: str, spark: SparkSession, tmp_path: Path) -> None:
    changes = OPEN.reader(spark, table="shop.customers", before="true").load(str(OPEN.path))
    settings = {"protocol": protocol, "table": "shop.customers"}
    known = by_name(protocol)
    extension = {"enable-tidb-extension": "true"} if hasattr(known.options(), "enable_tidb_extension") else {}
    ordered(changes, "_position").write.format("changefeed").options(**settings, **extension).mode("append").save(
        f"{tmp_path}/log"
    )
    assert [path for path in (tmp_path / "log").iterdir() if path.suffix != ".parquet"] == []
    back = spark.read.format("changefeed").options(**settings, **extension, before="true").load(f"{tmp_path}/log")
    wanted, columns = expected("customers"), list(expected("customers")[0])
    if "members" not in known.capabilities_of(known.read_options(extension)).carries:
        columns.remove("flags")  # in these protocols a SET is its bits, and rows alone have no definition
    doubles = ("balance",) if protocol == "ticdc-debezium" else ()
    assert comparable(final(back, "id"), columns, doubles) == comparable(wanted, columns, doubles)


@pytest.mark.heavy
def test_all_tables_written_again_are_the_same_changes(spark: SparkSession, tmp_path: Path) -> None:
    """`tencent-dts` has the types of values in its records."""
    only = "table in ('shop.orders', 'shop.customers', 'shop.refunds')"
    changes = OPEN.reader(spark).load(str(OPEN.path)).where(only)
    settings = {"protocol": "tencent-dts"}
    ordered(changes, "position").write.format("changefeed").options(**settings).mode("append").save(f"{tmp_path}/log")
    back = spark.read.format("changefeed").options(**settings).load(f"{tmp_path}/log")

    def content(frame: DataFrame) -> list[tuple[object, ...]]:
        return sorted(
            (r["table"], r["op"], str(r["before"]), str(r["after"]), r["position"]["partition"]) for r in shown(frame)
        )

    assert content(back) == content(changes)


def test_a_log_is_added_to_and_never_replaced(spark: SparkSession, tmp_path: Path) -> None:
    changes = OPEN.reader(spark, table="shop.refunds").load(str(OPEN.path)).coalesce(1)
    settings = {"protocol": "ticdc-open", "table": "shop.refunds"}
    write = changes.write.format("changefeed").options(**settings)
    write.mode("append").save(str(tmp_path / "log"))
    write.mode("append").save(str(tmp_path / "log"))
    assert [path.name[:26] for path in sorted((tmp_path / "log").iterdir())] == [f"{n:020}-00000" for n in (0, 1)]
    back = spark.read.format("changefeed").options(**settings).load(str(tmp_path / "log"))
    assert back.count() == 2 * changes.count()
    with pytest.raises(Exception, match="a log cannot be overwritten: write with mode `append`"):
        write.mode("overwrite").save(str(tmp_path / "log"))
    assert len(list((tmp_path / "log").iterdir())) == 2


def test_a_row_that_is_not_a_change_ends_the_write_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select 'insert' _op, 1 id union all select null, 2").coalesce(1)
    write = rows.write.format("changefeed").options(protocol="ticdc-open", table="a.t", keys="id").mode("append")
    with pytest.raises(Exception, match="the row at changefeed:0:1 has the op None, which is not one of insert, "):
        write.save(str(tmp_path / "log"))
    assert not list((tmp_path / "log").iterdir())


def test_rows_made_by_hand_are_written_with_the_types_of_their_columns(spark: SparkSession) -> None:
    rows = spark.sql("select 'insert' _op, 7L _commit_ts, 1 id, 'x' name, date'2026-01-02' day")
    records = changefeed.spark.encode(rows, "tencent-dts", "a.t", default_topic="mine", keys={"a.t": ["id"]})
    assert records.columns == ["key", "value", "topic", "partition", "headers"]
    numbered = records.selectExpr("*", "monotonically_increasing_id() offset")
    [row] = changefeed.spark.decode(numbered, "tencent-dts", "a.t").collect()
    assert (row["_op"], row["id"], row["name"], str(row["day"]), row["_position"].topic) == (
        "insert",
        1,
        "x",
        "2026-01-02",
        "mine",
    )
