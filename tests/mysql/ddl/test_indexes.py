"""Names and columns of indexes after CREATE and ALTER, as MariaDB 10.11 and MySQL 8.0 have them in information_schema."""

from __future__ import annotations

import pytest

from changefeed.errors import SchemaError
from changefeed.model.definition import Table
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.apply import alter
from changefeed.mysql.ddl.statements import AlterTable, CreateTable


def after(inside: str, *statements: str, restored: bool = False) -> Table:
    [created] = parse(f"CREATE TABLE t ({inside})", "db", restored=restored)
    assert isinstance(created, CreateTable)
    table = created.definition
    for text in statements:
        [statement] = parse(text if " ON t" in text else f"ALTER TABLE t {text}", "db", restored=restored)
        assert isinstance(statement, AlterTable)
        table = alter(table, statement).table
    return table


def shown(table: Table) -> str:
    """The indexes, sorted by name; unique ones with an exclamation mark."""
    uniques = [f"{k.name}!({','.join(k.columns)})" for k in table.uniques]
    return " ".join(sorted(uniques + [f"{i.name}({','.join(i.columns)})" for i in table.indexes]))


CREATED = [
    ("a INT, b INT, UNIQUE (a), KEY (a), UNIQUE (a)", "a!(a) a_2(a) a_3!(a)"),
    ("a INT, b INT, KEY a (a), UNIQUE (a)", "a(a) a_2!(a)"),
    ("a INT, b INT UNIQUE KEY, PRIMARY KEY (b), UNIQUE (b)", "PRIMARY!(b) b!(b) b_2!(b)"),
    ("`primary` INT, UNIQUE (`primary`)", "primary_2!(primary)"),
    ("A INT, KEY (a), KEY (A), UNIQUE (a)", "A(A) A_2(A) A_3!(A)"),
    ("a INT, CONSTRAINT c1 UNIQUE k1 (a), CONSTRAINT c2 UNIQUE (a), CONSTRAINT UNIQUE (a)", "a!(a) c2!(a) k1!(a)"),
    ("a TEXT, FULLTEXT (a), FULLTEXT KEY (a), KEY (a(5))", "a(a) a_2(a) a_3(a)"),
    ("a POINT NOT NULL, SPATIAL (a), SPATIAL INDEX (a)", "a(a) a_2(a)"),
    (
        "a INT, b INT, UNIQUE ((a + 1)), KEY ((b + 1)), UNIQUE k ((a + 2), b)",
        "functional_index() functional_index_2() k(,b)",
    ),
    ("a INT, FOREIGN KEY (a) REFERENCES p (a)", "a(a)"),
    ("a INT, CONSTRAINT f FOREIGN KEY fk (a) REFERENCES p (a)", "f(a)"),
    ("a INT, FOREIGN KEY fk (a) REFERENCES p (a)", "fk(a)"),
    ("a INT, b INT, KEY k (a, b), FOREIGN KEY (a) REFERENCES p (a)", "k(a,b)"),
    ("a INT, b INT, FOREIGN KEY (a) REFERENCES p (a), UNIQUE (a)", "a!(a)"),
    ("a INT, FOREIGN KEY (a) REFERENCES p (a), FOREIGN KEY (a) REFERENCES p (b)", "a(a)"),
    ("room INT, s DATE, e DATE, PERIOD FOR p (s, e), PRIMARY KEY (room, p WITHOUT OVERLAPS)", "PRIMARY!(room,e,s)"),
    ("room INT, s DATE, e DATE, PERIOD FOR p (s, e), UNIQUE (room, P WITHOUT OVERLAPS)", "room!(room,e,s)"),
]


@pytest.mark.parametrize("inside, indexes", CREATED)
def test_created(inside: str, indexes: str) -> None:
    assert shown(after(inside)) == indexes


def test_tidb_takes_names_of_the_statement_first_and_keys_of_columns_last() -> None:
    assert shown(after("a INT UNIQUE, b INT, KEY (a), KEY a (b)", restored=True)) == "a(b) a_2(a) a_3!(a)"


ALTERED = [
    ("a INT, b INT, KEY a (a)", "ADD UNIQUE (a)", "a(a) a_2!(a)"),
    ("a INT, b INT, KEY a (a), KEY b (b)", "DROP KEY a, ADD UNIQUE (a), ADD KEY (b)", "a!(a) b(b) b_2(b)"),
    ("a INT, b INT, KEY a (a)", "ADD a_2 INT UNIQUE, ADD UNIQUE (a)", "a(a) a_2!(a_2) a_3!(a)"),
    ("a INT, b INT, KEY i (a)", "RENAME INDEX i TO j, ADD KEY i (b)", "i(b) j(a)"),
    ("a INT, b INT, KEY i (a)", "RENAME COLUMN a TO c, ADD KEY (c)", "c(c) i(c)"),
    ("a INT, b INT, KEY c (a)", "CHANGE a c INT, ADD KEY (c), ADD UNIQUE (c)", "c(c) c_2(c) c_3!(c)"),
    ("a INT, b INT, KEY i (a)", "DROP a, ADD UNIQUE i (b)", "i!(b)"),
    ("a INT, b INT, UNIQUE i (a, b)", "DROP a", "i!(b)"),
    ("a INT, b INT, KEY i (a, (b + 1))", "DROP a", "i()"),
    ("a INT, b INT, UNIQUE i (a), KEY k (b)", "DROP CONSTRAINT i, DROP CONSTRAINT IF EXISTS k", "k(b)"),
    ("a INT PRIMARY KEY, b INT", "DROP CONSTRAINT `primary`", ""),
    ("a INT PRIMARY KEY, b INT", "DROP INDEX `primary` ON t", ""),
    ("a INT, b INT", "ADD (c INT UNIQUE, UNIQUE (a), KEY (c))", "a!(a) c!(c) c_2(c)"),
    ("a INT, b INT, FOREIGN KEY (a) REFERENCES p (a)", "ADD KEY k (a)", "k(a)"),
    ("a INT, b INT, FOREIGN KEY (a) REFERENCES p (a)", "ADD UNIQUE (a, b)", "a!(a,b)"),
    ("a INT, b INT, FOREIGN KEY (a) REFERENCES p (a)", "ADD FOREIGN KEY (a) REFERENCES p (b)", "a(a)"),
    ("a INT, b INT, KEY i (a)", "CREATE OR REPLACE UNIQUE INDEX i ON t (b)", "i!(b)"),
    ("a INT, b INT, UNIQUE a (a)", "CREATE INDEX a_2 ON t (b)", "a!(a) a_2(b)"),
    # IF [NOT] EXISTS
    ("a INT, b INT, KEY a (a)", "ADD UNIQUE KEY IF NOT EXISTS (a)", "a(a)"),
    ("a INT, b INT, KEY a (a)", "ADD UNIQUE KEY IF NOT EXISTS a (b)", "a(a)"),
    ("a INT PRIMARY KEY, b INT", "ADD PRIMARY KEY IF NOT EXISTS (b)", "PRIMARY!(a)"),
    ("a INT, b INT, KEY i (a)", "DROP INDEX IF EXISTS i, ADD KEY IF NOT EXISTS i (b)", ""),
    ("a INT PRIMARY KEY, b INT", "DROP PRIMARY KEY, ADD PRIMARY KEY IF NOT EXISTS (b)", ""),
    ("a INT, b INT, KEY i (a)", "DROP INDEX IF EXISTS x, RENAME INDEX IF EXISTS q TO r", "i(a)"),
    ("a INT, b INT", "ADD KEY IF NOT EXISTS i (a), ADD KEY IF NOT EXISTS i (b)", "i(a)"),
]


@pytest.mark.parametrize("inside, statement, indexes", ALTERED)
def test_altered(inside: str, statement: str, indexes: str) -> None:
    assert shown(after(inside, statement)) == indexes


def test_a_column_that_is_added_again_stays_in_its_indexes_by_its_first_characters() -> None:
    """The server refuses other types than longer texts."""
    inside = "a INT NOT NULL, c VARCHAR(20) NOT NULL, UNIQUE u (a, c), KEY k (c), UNIQUE (a)"
    assert shown(after(inside, "DROP c, ADD C TEXT NOT NULL")) == "a!(a) k(C) u(a,C)"
    assert shown(after(inside, "DROP c, ADD d TEXT NOT NULL")) == "a!(a) u!(a)"


def test_a_dropped_index_is_the_one_that_the_server_gave_this_name() -> None:
    table = after("a INT NOT NULL, b INT, KEY a (a)", "ADD UNIQUE (a)", "DROP INDEX a_2")
    assert (table.keys, shown(table)) == ((), "a(a)")


NO_KEY = [
    "UNIQUE (a) WHERE b > 0",
    "UNIQUE KEY u (a) COMMENT 'x' WHERE (b > 0)",
    "UNIQUE ((a + 1))",
    "UNIQUE (b)",
    "UNIQUE (a, b)",
]


@pytest.mark.parametrize("key", NO_KEY)
def test_a_unique_index_that_does_not_hold_for_every_row_is_not_a_key(key: str) -> None:
    assert after(f"a INT NOT NULL, b INT, {key}").keys == ()
    assert after("a INT NOT NULL, b INT", f"ADD {key}").keys == ()


def test_create_unique_index_may_hold_for_some_rows_only() -> None:
    assert after("a INT NOT NULL, b INT", "CREATE UNIQUE INDEX u ON t (a) WHERE b > 0").keys == ()
    assert after("a INT NOT NULL, b INT", "CREATE UNIQUE INDEX u ON t (a) USING BTREE COMMENT 'x'").keys == ("a",)


def test_a_period_of_an_earlier_statement_does_not_make_a_key() -> None:
    table = after("room INT NOT NULL, s DATE, e DATE, PERIOD FOR p (s, e)", "ADD UNIQUE (room, p WITHOUT OVERLAPS)")
    assert (table.keys, shown(table)) == ((), "room(room,p)")


def test_a_primary_key_replaces_the_key_that_rows_showed() -> None:
    learned = after("a INT, b INT, PRIMARY KEY (a)")
    learned = Table("db", "t", learned.columns, ("a",))
    [statement] = parse("ALTER TABLE t ADD PRIMARY KEY (b)", "db")
    assert isinstance(statement, AlterTable)
    assert alter(learned, statement).table.keys == ("b",)
    [no_op] = parse("ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (a)", "db")
    assert isinstance(no_op, AlterTable)
    assert alter(learned, no_op).table.keys == ("a",)


def test_two_unique_keys_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"table db\.t already has a key U"):
        after("a INT, UNIQUE u (a)", "ADD KEY U (a)")
