"""Converts between Spark types and MySQL types of columns.

The metadata of a column contain its MySQL type, under `mysql`, and `key` for columns of the handle key. Without metadata, the
MySQL type is the widest that becomes this Spark type:

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
    """Converts an Arrow schema to a Spark schema; the metadata of a column contain its MySQL type."""
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
    """Returns the MySQL type of a column of a Spark schema.

    Raises:
        ConfigError: no MySQL type corresponds to the Spark type.
    """
    sql = field.dataType.simpleString()
    mysql = (field.metadata or {}).get("mysql")
    if mysql is not None and sink_type(ColumnType.parse(mysql)).sql == sql:
        return ColumnType.parse(mysql)
    if sql.startswith("decimal("):
        return ColumnType.parse(sql)
    if sql not in _MYSQL:
        raise ConfigError(
            f"changefeed: column {field.name}: no MySQL type corresponds to {sql}: use decimal(p,s) or one of "
            f"{', '.join(_MYSQL)}"
        )
    return ColumnType.parse(_MYSQL[sql])


def table_of(name: str, schema: StructType) -> Table:
    """Returns a table with the columns of a user's schema, without the columns that describe a change (`_op`, …)."""
    database, table = split_name(name)
    marked = [(f, (f.metadata or {}).get("key") == "true") for f in schema if f.name.lower() not in OWN]
    columns = tuple(Column(f.name, column_type(f), key=key or None) for f, key in marked)
    return Table(database, table, columns, tuple(c.name for c in columns if c.key))
