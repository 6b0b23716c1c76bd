"""Spark's types of a result's columns, and the MySQL types of a schema that a user gives.

A column's MySQL type travels in its metadata, under `mysql`; `key` marks those of the handle key. Without the type, it is the
widest that a sink keeps as Spark's:

    Spark           MySQL             Spark            MySQL
    tinyint … int   the same          date             date
    bigint          bigint            timestamp        timestamp(6)
    float, double   the same          timestamp_ntz    datetime(6)
    decimal(p,s)    decimal(p,s)      boolean          boolean
    string          longtext          array<float>     vector
    binary          longblob          struct<srid:bigint,wkb:binary>   geometry
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.errors import ConfigError
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.spark.known import split_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

OWN = ("_op", "_commit_ts", "_commit_time", "_position", "_before", "_irregular", "_dead_letter")
_MYSQL = {
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp(6)",
    "timestamp_ntz": "datetime(6)",
    "boolean": "boolean",
    "string": "longtext",
    "binary": "longblob",
    "array<float>": "vector",
    "struct<srid:bigint,wkb:binary>": "geometry",
}


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow columns; a column's MySQL type goes along in its metadata."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = []
    for one in schema:
        texts = {name.decode(): text.decode() for name, text in (one.metadata or {}).items()}
        metadata = {name: texts[name] for name in ("mysql", "key") if name in texts}
        fields.append(
            StructField(one.name, from_arrow_type(one.type, prefer_timestamp_ntz=True), True, metadata or None)
        )
    return StructType(fields)


def column_type(field: StructField) -> ColumnType:
    """The MySQL type of a column of a Spark schema.

    Raises:
        ConfigError: no MySQL column is kept as such a type.
    """
    sql = field.dataType.simpleString()
    mysql = (field.metadata or {}).get("mysql")
    if mysql is not None and sink_type(ColumnType.parse(mysql)).sql == sql:
        return ColumnType.parse(mysql)
    if sql.startswith("decimal("):
        return ColumnType.parse(sql)
    if sql not in _MYSQL:
        raise ConfigError(
            f"changefeed: column {field.name}: no column of MySQL is read as {sql}; it can be decimal(p,s) or one of "
            f"{', '.join(_MYSQL)}"
        )
    return ColumnType.parse(_MYSQL[sql])


def table_of(name: str, schema: StructType) -> Table:
    """The table whose columns a user's schema has; columns of a change (`_op`, …) are not among them."""
    database, table = split_name(name)
    marked = [(f, (f.metadata or {}).get("key") == "true") for f in schema if f.name.lower() not in OWN]
    columns = tuple(Column(f.name, column_type(f), key=key or None) for f, key in marked)
    return Table(database, table, columns, tuple(c.name for c in columns if c.key))
