"""Columns that change: inferred from rows, and by DDL on tables that have rows."""

from __future__ import annotations

import pytest

from changefeed.errors import SchemaError
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.mysql import ddl
from changefeed.mysql.ddl.apply import Altered
from changefeed.mysql.ddl.statements import AlterTable, CreateTable
from changefeed.pipeline.planning import evolution
from changefeed.pipeline.planning.evolution import altered, irregular_defaults, rewritten, widened
from changefeed.sinks.sql import SparkTypes, expression_sql, texts_sql
from changefeed.sinks.writes import Expression, IrregularUpdate, Rewrite


def column(text: str) -> Column:
    name, _, kind = text.partition(" ")
    return Column(name.strip("*"), ColumnType.parse(kind), key=name.startswith("*"))


def shape(*columns: str, after: tuple[str, ...] | None = None) -> TableShape:
    return TableShape("app", "t", tuple(column(c) for c in columns), after=after)


def types(table: Table) -> dict[str, str]:
    return {c.name: str(c.type) for c in table.columns}


def declared(columns: str) -> Table:
    statement = ddl.parse(f"CREATE TABLE app.t ({columns})", None)[0]
    assert isinstance(statement, CreateTable)
    return statement.definition


def change(table: Table, action: str, *, known: bool = True, lenient: bool = False) -> Altered:
    statement = ddl.parse(f"ALTER TABLE app.t {action}", None)[0]
    assert isinstance(statement, AlterTable)
    return altered(table, statement, declared=known, lenient=lenient)


def inferred(table: Table | None, shapes: list[TableShape], *, declared: bool) -> Table:
    """The table for rows, if DDL declares all of its columns and its key, or none of them."""
    undeclared = [c.name for c in table.columns] if table is not None and not declared else []
    return evolution.inferred(table, shapes, undeclared, key_known=declared)


def after(table: Table, action: str, irregular: str = "null") -> dict[str, str] | None:
    altered_to = change(table, action)
    return in_sql(altered_to.table, rewritten(table, altered_to, SparkTypes(), irregular))


def in_sql(
    table: Table, rewrite: tuple[tuple[Expression, ...], IrregularUpdate | None] | None
) -> dict[str, str] | None:
    """Column -> its new values as Spark SQL; None if the rows stay as they are."""
    if rewrite is None:
        return None
    expressions, texts = rewrite
    write = Rewrite(path="app/t", number=1, table=table, expressions=expressions, texts=texts)
    columns = zip(table.columns, expressions, strict=True)
    selected = {c.name: expression_sql(c, e) or f"{getattr(e, 'column', '')} converted" for c, e in columns}
    return selected | ({"_irregular": texts_sql(write)} if texts else {})


def wider_in_sql(before: Table, now: Table) -> dict[str, str] | None:
    expressions = widened(before, now, SparkTypes())
    return None if expressions is None else in_sql(now, (expressions, None))


# Inferred from rows.


def test_an_inferred_table_widens_with_its_rows() -> None:
    table = inferred(None, [shape("*id int", "n int", "d decimal", "e enum")], declared=False)
    assert (types(table), table.keys) == ({"id": "int", "n": "int", "d": "decimal", "e": "enum"}, ("id",))
    wider = inferred(
        table, [shape("*id bigint", "n bigint unsigned"), shape("*id int", "n int", "x date")], declared=False
    )
    assert types(wider) == {"id": "bigint", "n": "decimal(20,0)", "d": "decimal", "e": "enum", "x": "date"}
    assert wider_in_sql(table, wider) == {
        "id": "CAST(`id` AS bigint)",
        "n": "CAST(`n` AS decimal(20,0))",
        "d": "`d`",
        "e": "`e`",
        "x": "CAST(NULL AS date)",
    }


def test_a_declared_table_keeps_its_types_and_takes_new_columns() -> None:
    table = declared("id INT PRIMARY KEY, e ENUM('a','b'), d DECIMAL(10,2)")
    widened_table = inferred(table, [shape("*id bigint", "e enum", "d decimal", "new varchar")], declared=True)
    assert types(widened_table) == {"id": "int", "e": "enum('a','b')", "d": "decimal(10,2)", "new": "varchar"}
    assert wider_in_sql(table, widened_table) is None


def test_types_declared_by_ddl_stay_when_rows_show_less_of_them() -> None:
    table = inferred(None, [shape("*id int")], declared=False)
    table = change(table, "ADD d DECIMAL(10,2), ADD e ENUM('a','b'), ADD f BIT(5), ADD t DATETIME").table
    widened_table = inferred(table, [shape("*id int", "d decimal", "e enum", "f bit", "t datetime(3)")], declared=False)
    assert types(widened_table) == {
        "id": "int", "d": "decimal(10,2)", "e": "enum('a','b')", "f": "bit(5)", "t": "datetime(3)"
    }  # fmt: skip


def test_names_that_differ_in_case_are_one_column() -> None:
    table = inferred(declared("Id INT PRIMARY KEY, Name TEXT"), [shape("*ID int", "NAME text")], declared=True)
    assert (types(table), table.keys) == ({"Id": "int", "Name": "text"}, ("Id",))


def test_a_key_that_appears_later_becomes_the_key() -> None:
    table = inferred(None, [shape("id int")], declared=False)
    assert table.keys == ()
    assert inferred(table, [shape("*id int")], declared=False).keys == ("id",)


@pytest.mark.parametrize(
    "old, new, sql",
    [
        ("int", "decimal", "CAST(`c` AS string)"),
        ("year", "varchar", "CAST(`c` AS string)"),
        ("date", "varchar", "CAST(`c` AS string)"),
        ("decimal(5,2)", "varchar", "CAST(`c` AS string)"),
        ("varchar", "blob", "CAST(`c` AS binary)"),
        ("float", "double", "CAST(`c` AS double)"),
        ("null", "int", "CAST(`c` AS int)"),
    ],
)
def test_widening_a_type_converts_the_old_values(old: str, new: str, sql: str) -> None:
    before = inferred(None, [shape("*id int", f"c {old}")], declared=False)
    expressions = wider_in_sql(before, inferred(before, [shape("*id int", f"c {new}")], declared=False))
    assert expressions == {"id": "`id`", "c": sql}


def test_old_values_that_cannot_be_converted_are_an_error() -> None:
    before = inferred(None, [shape("*id int", "c datetime(3)")], declared=False)
    with pytest.raises(SchemaError) as error:
        wider_in_sql(before, inferred(before, [shape("*id int", "c varchar")], declared=False))
    assert str(error.value) == (
        "column c was datetime(3) and now needs longtext, to which its values cannot be converted"
    )


# DDL on tables that have rows.


@pytest.mark.parametrize(
    "action, wanted",
    [
        ("ADD x INT", None),
        ("MODIFY n VARCHAR(30)", None),
        ("MODIFY m INT", None),
        ("MODIFY e ENUM('a','b','c')", None),
        ("ADD x INT NOT NULL", "CAST('0' AS int)"),
        ("ADD x VARCHAR(9) DEFAULT 'it''s'", "'it\\'s'"),
        ("ADD x DECIMAL(5,2) DEFAULT 1.5", "CAST('1.50' AS decimal(5,2))"),
        ("ADD x VARBINARY(4) DEFAULT 'a'", "unbase64('YQ==')"),
        ("ADD x BIT(3) DEFAULT b'101'", "CAST('5' AS bigint)"),
    ],
)
def test_rows_are_rewritten_only_if_a_new_column_has_a_value(action: str, wanted: str | None) -> None:
    table = declared("id INT PRIMARY KEY, n VARCHAR(20), m MEDIUMINT, e ENUM('a','b')")
    rewritten_columns = after(table, action)
    assert (rewritten_columns and rewritten_columns["x"]) == wanted


def test_drop_rename_and_retype_are_one_rewrite() -> None:
    table = declared("id INT PRIMARY KEY, a INT, b TEXT, c DECIMAL(5,2)")
    rewritten_columns = after(table, "DROP a, CHANGE b B2 CHAR(9), MODIFY c INT")
    assert rewritten_columns == {"id": "`id`", "B2": "b converted", "c": "c converted"}


@pytest.mark.parametrize(
    "action, message",
    [
        ("ADD x DATETIME DEFAULT CURRENT_TIMESTAMP",
         "column x: only the upstream has the values that DEFAULT CURRENT_TIMESTAMP gave to existing rows"),
        ("MODIFY t DATETIME",
         "column t: its values after the change of datetime(3) to datetime cannot be derived from those before it"),
        ("MODIFY v INT", "column v: its values after the change of varchar(9) to int cannot be derived from those before it"),
        ("MODIFY s TIMESTAMP NOT NULL",
         "column s: NULL becomes the time of the statement, and no row event contains the values"),
    ],
)  # fmt: skip
def test_values_that_only_the_upstream_has_are_an_error(action: str, message: str) -> None:
    table = declared("id INT PRIMARY KEY, v VARCHAR(9), t DATETIME(3), s TIMESTAMP NULL")
    with pytest.raises(SchemaError) as error:
        after(table, action)
    assert str(error.value) == message


# Irregular defaults.


def test_a_zero_date_by_default_follows_the_sinks_policy() -> None:
    table = declared("id INT PRIMARY KEY")
    action = "ADD d DATE NOT NULL"
    assert irregular_defaults(change(table, action)) == [("d", "0000-00-00")]
    assert after(table, action) is None, "NULL in every row needs no rewrite"
    kept = "coalesce(`_irregular`, CAST(map() AS map<string,string>))"
    assert after(table, action, "keep") == {
        "id": "`id`",
        "d": "CAST(NULL AS date)",
        "_irregular": f"map_concat({kept}, map('d', '0000-00-00'))",
    }
    with pytest.raises(SchemaError) as error:
        after(table, action, "fail")
    assert str(error.value) == (
        "column d: existing rows get the default '0000-00-00', which date cannot hold downstream, and `irregular: fail` is set"
    )


def test_irregular_texts_follow_their_columns() -> None:
    table = declared("id INT PRIMARY KEY, a DATE, b DATE, c INT")
    rewritten_columns = after(table, "DROP a, RENAME COLUMN b TO `it's`", "keep")
    assert rewritten_columns is not None
    kept = "coalesce(`_irregular`, CAST(map() AS map<string,string>))"
    assert rewritten_columns["_irregular"] == (
        f"transform_keys(map_filter({kept}, (k, v) -> k NOT IN ('a')), (k, v) -> CASE k WHEN 'b' THEN 'it\\'s' ELSE k END)"
    )
    assert after(table, "ADD x INT", "keep") is None


# Tables that are only inferred, and lenient ones.


def test_in_an_inferred_table_ddl_on_unknown_columns_only_declares_them() -> None:
    table = inferred(None, [shape("*id int", "a int")], declared=False)
    altered_to = change(
        table, "DROP gone, MODIFY gone2 INT, RENAME COLUMN g TO h, ADD b INT AFTER gone, ADD A BIGINT, "
        "ADD UNIQUE KEY (nowhere), ALTER COLUMN gone SET DEFAULT 3, DROP COLUMN a", known=False,
    )  # fmt: skip
    assert types(altered_to.table) == {"id": "int", "gone2": "int", "b": "int"}
    with pytest.raises(SchemaError, match=r"^table app.t has no column gone$"):
        change(table, "DROP gone")


def test_lenient_keeps_the_columns_that_are_dropped() -> None:
    table = declared("id INT PRIMARY KEY, a INT NOT NULL, b INT")
    altered_to = change(table, "DROP a, RENAME COLUMN b TO c", lenient=True)
    assert [(c.name, c.nullable) for c in altered_to.table.columns] == [("id", False), ("c", True), ("a", True)]
    assert in_sql(altered_to.table, rewritten(table, altered_to, SparkTypes())) == {
        "id": "`id`",
        "c": "`b`",
        "a": "`a`",
    }


def test_lenient_reuses_a_kept_column_that_is_added_again() -> None:
    table = change(declared("id INT PRIMARY KEY, a INT"), "DROP a", lenient=True).table
    altered_to = change(table, "ADD COLUMN A BIGINT NOT NULL DEFAULT 3 FIRST", lenient=True)
    assert types(altered_to.table) == {"A": "bigint", "id": "int"}
    assert in_sql(altered_to.table, rewritten(table, altered_to, SparkTypes())) == {
        "A": "CAST(`a` AS bigint)",
        "id": "`id`",
    }
