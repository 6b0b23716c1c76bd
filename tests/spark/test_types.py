"""Every type of docs/reference/types.md is converted correctly: to VARIANT, to a table's columns, and back to records."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import changefeed.spark
from changefeed.errors import ConfigError
from changefeed.frames.types import sink_type
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.definition import Table
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.spark.shapes import AllTables, OneTable
from changefeed.spark.types import column_type, spark_schema
from changefeed.spark.variant import variants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
_PLACE = {"srid": 4326, "wkb": b"\x01\x02"}
# For each type: a value of the core, and its value in VARIANT if that differs.
VALUES: dict[str, tuple[Any, Any]] = {
    "tinyint": (-128, ...), "tinyint unsigned": (255, ...),
    "smallint": (-(2**15), ...), "smallint unsigned": (2**16 - 1, ...),
    "mediumint": (-(2**23), ...), "mediumint unsigned": (2**24 - 1, ...),
    "int": (-(2**31), ...), "int unsigned": (2**32 - 1, ...),
    "bigint": (-(2**63), ...), "bigint unsigned": (2**64 - 1, ...),
    "year": (2155, ...), "bit(10)": (1023, ...), "bit(64)": (2**64 - 1, ...), "float": (1.5, ...), "double": (0.1, ...),
    "decimal(12,2)": (Decimal("-1234567890.12"), ...), "decimal(65,30)": (Decimal("1.5"), "1." + "5".ljust(30, "0")),
    "decimal": ("12.5000", ...), "date": (date(2026, 1, 2), ...), "datetime(3)": (datetime(2026, 1, 2, 3, 4, 5, 678000), ...),
    "timestamp(6)": (datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), ...), "time(3)": ("-838:59:59.000", ...),
    "char(10)": ("a", ...), "varchar(40)": ("", ...), "longtext": ("ü\n", ...), "mediumtext": ("'", ...),
    "text": ("\0", ...), "tinytext": ("t", ...), "binary(4)": (b"\0\1\2\3", ...), "varbinary(40)": (b"", ...),
    "blob": (b"\xff", ...), "longblob": (b"l", ...), "mediumblob": (b"m", ...), "tinyblob": (b"t", ...),
    "json": ('{"a": 1}', ...), "enum('a','b')": ("b", ...), "set('a','b')": ("a,b", ...), "enum": (2, ...), "set": (2**63, ...),
    **dict.fromkeys(
        ("geometry", "geometrycollection", "linestring", "multilinestring", "multipoint", "multipolygon", "point", "polygon"),
        (_PLACE, ...),
    ),
    "vector(3)": ([1.5, 2.0, -3.0], ...), "boolean": (True, ...), "null": (None, ...),
}  # fmt: skip
COLUMNS = tuple(Column(f"c{n}", ColumnType.parse(name)) for n, name in enumerate(VALUES))
TABLE = Table("test", "types", COLUMNS)


def test_commit_time_is_a_timestamp_in_both_shapes() -> None:
    one = OneTable(Table("shop", "t", (Column("id", ColumnType.parse("int")),)), False, "null", False)
    for schema, name in ((AllTables(False).schema, "commit_time"), (one.schema, "_commit_time")):
        assert schema.field(name).type == pa.timestamp("us", tz="UTC")
        assert spark_schema(schema)[name].dataType.simpleString() == "timestamp"


def test_the_table_of_this_test_has_the_types_of_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "types.md").read_text()
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(VALUES)


def _decoded() -> Decoded:
    """A row with a value of each type, and one with NULLs."""
    values = [value for value, _ in VALUES.values()]
    builder, shape = BatchBuilder("us"), TableShape("test", "types", COLUMNS)
    whole = dict(zip((c.name for c in COLUMNS), values, strict=True))
    builder.add(shape, Place("t", 0, 0), "insert", before=None, after=whole, commit_ts=1, commit_time=0)
    builder.add(shape, Place("t", 0, 1), "insert", before=None, after=dict.fromkeys(whole), commit_ts=2, commit_time=0)
    return Decoded(tables=builder.build())


def _is(actual: Any, wanted: Any) -> bool:
    return bool(actual == wanted) and isinstance(actual, bytes) == isinstance(wanted, bytes)


def test_variants_hold_every_value() -> None:
    from pyspark.sql.types import VariantVal

    [rows] = AllTables(letters=False).batches(_decoded())
    with localcontext(prec=100):
        [values, nulls] = [VariantVal(v["value"], v["metadata"]).toPython() for v in rows.column("after").to_pylist()]
    wanted = [value if other is ... else other for value, other in VALUES.values()]
    assert [(c.name, str(c.type)) for c, w in zip(COLUMNS, wanted, strict=True) if not _is(values[c.name], w)] == []
    assert nulls == dict.fromkeys(c.name for c in COLUMNS)
    assert rows.column("before").to_pylist() == [None, None]


def _frame(spark: SparkSession, shape: AllTables | OneTable) -> DataFrame:
    [rows] = shape.batches(_decoded())
    return spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter([rows]), spark_schema(shape.schema))


def test_spark_reads_every_value_of_both_shapes(spark: SparkSession) -> None:
    everything: AllTables | OneTable = AllTables(letters=False)
    one: AllTables | OneTable = OneTable(TABLE)
    tables = [_frame(spark, shape) for shape in (everything, one)]
    texts = [f"cast(after:c{n} as string) c{n}" for n in range(len(COLUMNS))]
    shown = tables[0].selectExpr("to_json(after) text", *texts).collect()
    assert '"c9":18446744073709551615' in shown[0].text
    assert '"c18":"2026-01-02"' in shown[0].text
    assert {shown[1][f"c{n}"] for n in range(len(COLUMNS))} == {None}
    typed = tables[1].toArrow()
    for column, (value, other) in zip(COLUMNS, VALUES.values(), strict=True):
        [actual, null] = typed.column(column.name).to_pylist()
        kind = sink_type(column.type).sql
        assert actual == (value if other is ... else other), (str(column.type), kind)
        assert null is None


def test_a_schema_selects_the_columns() -> None:
    schema = spark_schema(OneTable(TABLE).schema)
    assert [column_type(field) for field in schema.fields[4:]] == [column.type for column in COLUMNS]
    for field in schema.fields:
        field.metadata = {}
    widest = [sink_type(column_type(field)).sql for field in schema.fields[4:]]
    assert widest == [sink_type(column.type).sql for column in COLUMNS]


def test_a_column_that_no_table_has_is_refused() -> None:
    from pyspark.sql.types import DayTimeIntervalType, StructField

    with pytest.raises(ConfigError) as caught:
        column_type(StructField("c", DayTimeIntervalType()))
    assert str(caught.value).startswith(
        "changefeed: column c: no MySQL type corresponds to interval day to second: use decimal(p,s) or one of "
    )


def test_values_that_their_type_cannot_hold_are_texts_in_variants() -> None:
    image = pa.array(
        [{"d": None, "b": 1}, None, {"d": None, "b": None}], pa.struct([("d", pa.date32()), ("b", pa.int8())])
    )
    column = variants(image, {"d": {0: b"0000-00-00"}, "b": {2: b"\xff"}}).to_pylist()
    from pyspark.sql.types import VariantVal

    read = [v and VariantVal(v["value"], v["metadata"]).toPython() for v in column]
    assert read == [{"d": "0000-00-00", "b": 1}, None, {"d": None, "b": b"\xff"}]


def test_an_object_of_many_columns_is_found_by_name(spark: SparkSession) -> None:
    """Spark does a binary search, in Java's order, in objects of 32 fields or more; above 255, field numbers take two bytes."""
    names = [f"{letter}{n}" for n in range(100) for letter in ("a", "Z", "\uff5e", "\U0001f600")]
    image = pa.StructArray.from_arrays([pa.array([n], pa.int32()) for n in range(len(names))], names=names)
    [value] = variants(image).to_pylist()
    rows = pa.record_batch([variants(image)], ["v"])
    frame = spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter([rows]), "v variant")
    row = frame.selectExpr(*(f"variant_get(v, '$[\"{name}\"]', 'int') n{n}" for n, name in enumerate(names))).collect()[
        0
    ]
    assert list(row) == list(range(len(names)))
    assert len(value["value"]) < 7000


def test_every_value_comes_back_from_a_log_that_was_written(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(changefeed.spark.DataSource)
    skipped = {"null", "boolean", "enum", "set", "decimal", "vector(3)"}  # not declared so, or not in this protocol
    table = Table("test", "types", tuple(c for c in COLUMNS if str(c.type) not in skipped))
    [rows] = OneTable(table, strict=False).batches(_decoded())
    frame = spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter([rows]), spark_schema(rows.schema))
    settings = {"protocol": "tencent-dts", "table": "test.types"}
    frame.write.format("changefeed").options(**settings).mode("append").save(str(tmp_path / "log"))
    back = spark.read.format("changefeed").options(**settings).load(str(tmp_path / "log")).toArrow()
    for column in table.columns:
        wanted = rows.column(column.name).to_pylist()
        assert back.column(column.name).to_pylist() == wanted, str(column.type)
