"""Generates Spark SQL for every table format that Spark writes: MERGE, and the expressions of a rewrite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from changefeed.frames.retype import UNKNOWN, Details
from changefeed.frames.types import SinkType, sink_type
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.sinks.expressions import conversion_between, conversion_of, converted
from changefeed.sinks.writes import IRREGULAR, Constant, ConvertedFrom, Expression, Null, Rewrite

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

# metadata column -> expression over a change `s` of `stages.changes`
METADATA_SQL = {
    "_commit_ts": "s._ts",
    "_commit_time": "s._time",
    "_op": "s._op",
    "_position": "concat_ws(':', s._topic, s._partition, s._offset, s._index)",
    IRREGULAR: "s._irregular",
}


class SparkTypes:
    """The types of sinks that Spark writes; see `frames.types` for types, `frames.retype` for conversions."""

    def sink_type(self, type: ColumnType) -> SinkType:
        """See `TypeMap`."""
        return sink_type(type)

    def conversion(
        self, old: ColumnType, new: ColumnType, *, widening: bool = False, details: Details = UNKNOWN
    ) -> Literal["none", "rewrite"] | None:
        """See `TypeMap`."""
        made = conversion_between(old, new, widening=widening, details=details)
        if made is None:
            return None
        same = self.sink_type(old).sql == self.sink_type(new).sql
        return "none" if made.is_copy or (made.is_cast and same) else "rewrite"


def rewritten(rows: DataFrame, write: Rewrite, kept: Iterable[str]) -> DataFrame:
    """Returns the new rows of a table, computed from the old ones; `kept`: the metadata columns."""
    from pyspark.sql.functions import expr

    columns: list[SparkColumn] = []
    for column, expression in zip(write.table.columns, write.expressions, strict=True):
        sql = expression_sql(column, expression)
        values = expr(sql) if sql is not None else _in_python(column, expression)
        columns.append(values.alias(column.name))
    for name in kept:
        sql = texts_sql(write) if name == IRREGULAR and write.texts is not None else quoted(name)
        columns.append(expr(sql).alias(name))
    return rows.select(columns)


def expression_sql(column: Column, expression: Expression) -> str | None:
    """Returns the values of a column in SQL; None if Spark's SQL does not have the conversion."""
    match expression:
        case Null():
            return f"CAST(NULL AS {sink_type(column.type).sql})"
        case Constant(value=value):
            return _constant(value, column.type)
        case ConvertedFrom(column=name):
            made, sql = conversion_of(expression, column.type), quoted(name)
            if not made.is_cast:
                return None
            if not made.is_copy:
                sql = f"CAST({sql} AS {sink_type(column.type).sql})"
            return sql if expression.null is None else f"coalesce({sql}, {_constant(expression.null, column.type)})"


def _in_python(column: Column, expression: Expression) -> SparkColumn:
    """Returns a column that Spark's Python workers compute."""
    from pyspark.sql.functions import col
    from pyspark.sql.pandas.functions import arrow_udf

    assert isinstance(expression, ConvertedFrom)
    old, new = expression.type, column.type

    def values(array: pa.Array) -> pa.Array:
        return converted(array.cast(sink_type(old).arrow), expression, new)

    # the stubs lack the form that finds the kind of function in its annotations
    made: SparkColumn = arrow_udf(values, sink_type(new).sql)(col(quoted(expression.column)))  # type: ignore[call-overload]
    return made


def _constant(value: str | dict[str, str], new: ColumnType) -> str:
    kind = sink_type(new).sql
    if isinstance(value, dict):
        return f"unbase64('{value['base64']}')"
    return text(value) if kind == "string" else f"CAST({text(value)} AS {kind})"


def texts_sql(write: Rewrite) -> str:
    """Returns SQL for the map of irregular texts after a rewrite, with columns renamed as in the table."""
    texts = write.texts
    assert texts is not None
    nothing = "CAST(map() AS map<string,string>)"
    sql = f"coalesce({quoted(IRREGULAR)}, {nothing})"
    if texts.dropped:
        sql = f"map_filter({sql}, (k, v) -> k NOT IN ({', '.join(text(name) for name in texts.dropped)}))"
    if texts.renamed:
        cases = " ".join(f"WHEN {text(old)} THEN {text(new)}" for old, new in texts.renamed.items())
        sql = f"transform_keys({sql}, (k, v) -> CASE k {cases} ELSE k END)"
    if texts.added:
        sql = f"map_concat({sql}, map({', '.join(f'{text(n)}, {text(t)}' for n, t in texts.added.items())}))"
    columns = zip(write.table.columns, write.expressions, strict=True)
    sources = {c.name: e.column for c, e in columns if isinstance(e, ConvertedFrom)}
    for name, zero in texts.nulls.items():
        old = sources[name]
        lacks = f"{quoted(old)} IS NULL AND element_at({quoted(IRREGULAR)}, {text(old)}) IS NULL"
        sql = f"map_concat({sql}, if({lacks}, map({text(name)}, {text(zero)}), {nothing}))"
    return sql


def quoted(name: str) -> str:
    """Quotes a name for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """Formats a string as a Spark SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def merge_sql(target: str, source: str, table: Table, extra: dict[str, str], *, partial: bool) -> str:
    """Returns the MERGE statement that applies the changes in the view `source` to `target`.

    Args:
        target: the table's name in SQL.
        source: a view with the columns of `stages.changes`, one row per key.
        table: the target's columns and keys; it must have a key.
        extra: metadata column of the target -> expression over the source.
        partial: whether `_has` flags the columns that a row carries; other columns keep their values and irregular texts.
    """
    place = {c.name: i for i, c in enumerate(table.columns)}
    on = " AND ".join(f"t.{quoted(k)} = s.c{place[k]}" for k in table.keys)

    def value(name: str) -> str:
        new = f"s.c{place[name]}"
        return f"CASE WHEN s._has[{place[name]}] THEN {new} ELSE t.{quoted(name)} END" if partial else new

    def ours(name: str, expression: str) -> str:
        return _irregular_texts(table, expression) if partial and name == IRREGULAR else expression

    sets = [f"t.{quoted(c.name)} = {value(c.name)}" for c in table.columns]
    sets += [f"t.{quoted(name)} = {ours(name, expression)}" for name, expression in extra.items()]
    names = [quoted(c.name) for c in table.columns] + [quoted(name) for name in extra]
    values = [f"s.c{i}" for i in range(len(table.columns))] + list(extra.values())
    return (
        f"MERGE INTO {target} t USING {source} s ON {on} "
        "WHEN MATCHED AND s._deleted THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)} "
        f"WHEN NOT MATCHED AND NOT s._deleted THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
    )


def _irregular_texts(table: Table, new: str) -> str:
    """Returns SQL for the irregular texts after a MERGE: the change's, and old ones of columns that it does not carry."""
    columns = ", ".join(text(c.name) for c in table.columns)
    carried = f"coalesce(get(s._has, CAST(array_position(array({columns}), k) AS int) - 1), true)"
    kept = f"map_filter(t.{quoted(IRREGULAR)}, (k, v) -> NOT {carried})"
    return f"CASE WHEN t.{quoted(IRREGULAR)} IS NULL THEN {new} ELSE map_concat({kept}, {new}) END"
