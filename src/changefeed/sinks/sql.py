"""Generates Spark SQL for every table format that Spark writes: MERGE, and the expressions of a rewrite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from changefeed.frames.reshape import family
from changefeed.frames.retype import retyped
from changefeed.frames.types import SinkType, sink_type
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.sinks.base import IRREGULAR, Constant, ConvertedFrom, Expression, IrregularUpdate, Null, Rewrite

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
        self, old: ColumnType, new: ColumnType, *, widening: bool = False
    ) -> Literal["none", "rewrite"] | None:
        """See `TypeMap`."""
        sql = _converted("c", old, new, widening)
        return None if sql is None else "none" if sql == "c" else "rewrite"


def _converted(name: str, old: ColumnType, new: ColumnType, widening: bool) -> str | None:
    """Returns SQL that converts the expression `name` to the new type; None if MySQL's rule is unknown."""
    kind, same = sink_type(new).sql, sink_type(old).sql == sink_type(new).sql
    if widening and same:
        return name
    sql = retyped(name, old, new)
    if not widening:
        return name if same and sql == f"CAST({name} AS {kind})" else sql
    exact = family(old) in ("integer", "date") or (family(old) == "decimal" and sink_type(old).sql != "string")
    if sql is None and exact and old.name != "boolean" and kind == "string":
        sql = f"CAST({name} AS string)"
    if sql is None and family(old) == "text" and kind == "binary":
        sql = f"CAST({name} AS binary)"
    return sql


def rewrite_sql(write: Rewrite, kept: Iterable[str]) -> list[str]:
    """Returns the columns of a SELECT that computes the new rows from the old ones; `kept`: the metadata columns."""
    columns = zip(write.table.columns, write.expressions, strict=True)
    selected = [f"{_expression(column, e)} AS {quoted(column.name)}" for column, e in columns]
    for name in kept:
        sql = _texts(write.texts) if name == IRREGULAR and write.texts is not None else quoted(name)
        selected.append(f"{sql} AS {quoted(name)}")
    return selected


def _expression(column: Column, expression: Expression) -> str:
    kind = sink_type(column.type).sql
    match expression:
        case Null():
            return f"CAST(NULL AS {kind})"
        case Constant(value=dict(value)):
            return f"unbase64('{value['base64']}')"
        case Constant(value=value):
            return text(str(value)) if kind == "string" else f"CAST({text(str(value))} AS {kind})"
        case ConvertedFrom():
            sql = _converted(quoted(expression.column), expression.type, column.type, expression.widening)
            assert sql is not None, "the planner asks `conversion` first"
            return sql


def _texts(texts: IrregularUpdate) -> str:
    """Returns SQL for the map of irregular texts after a rewrite, with columns renamed as in the table."""
    sql = f"coalesce({quoted(IRREGULAR)}, CAST(map() AS map<string,string>))"
    if texts.dropped:
        sql = f"map_filter({sql}, (k, v) -> k NOT IN ({', '.join(text(name) for name in texts.dropped)}))"
    if texts.renamed:
        cases = " ".join(f"WHEN {text(old)} THEN {text(new)}" for old, new in texts.renamed.items())
        sql = f"transform_keys({sql}, (k, v) -> CASE k {cases} ELSE k END)"
    if texts.added:
        sql = f"map_concat({sql}, map({', '.join(f'{text(n)}, {text(t)}' for n, t in texts.added.items())}))"
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
