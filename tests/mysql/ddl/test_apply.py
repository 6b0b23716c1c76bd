"""ALTER TABLE applied to definitions: columns, positions, keys, and the values of existing rows afterwards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from changefeed.errors import SchemaError
from changefeed.model.definition import Table, UniqueKey
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.apply import Altered, alter
from changefeed.mysql.ddl.statements import AlterTable, CreateTable

INT = ColumnType("int")


def table(inside: str = "a INT, b VARCHAR(9), c INT AS (a) VIRTUAL, d DATE, PRIMARY KEY (a)") -> Table:
    [statement] = parse(f"CREATE TABLE t ({inside})", "db")
    assert isinstance(statement, CreateTable)
    return statement.definition


def altered(text: str, start: Table | None = None) -> Altered:
    [statement] = parse(f"ALTER TABLE t {text}", "db")
    assert isinstance(statement, AlterTable)
    return alter(start or table(), statement)


def sources(change: Altered) -> list[str]:
    return [f"{p.column.name}<{p.source.name if p.source else ''}" for p in change.rows]


PLACES = [
    ("ADD x INT", "a<a b<b d<d x<"),
    ("ADD x INT FIRST, ADD y INT AFTER x", "x< y< a<a b<b d<d"),
    ("ADD x INT AFTER c", "a<a b<b x< d<d"),
    ("ADD (x INT, y INT)", "a<a b<b d<d x< y<"),
    ("ADD x INT AS (a) VIRTUAL AFTER a", "a<a b<b d<d"),
    ("ADD COLUMN IF NOT EXISTS B INT", "a<a b<b d<d"),
    ("DROP B", "a<a d<d"),
    ("DROP COLUMN IF EXISTS nope", "a<a b<b d<d"),
    ("DROP c, ADD c INT", "a<a b<b d<d c<"),
    ("CHANGE b x TEXT", "a<a x<b d<d"),
    ("CHANGE a b INT, CHANGE b a VARCHAR(9)", "b<a a<b d<d"),
    ("CHANGE c x INT AS (a) VIRTUAL, ADD y INT AFTER x", "a<a b<b y< d<d"),
    ("MODIFY d DATE FIRST", "d<d a<a b<b"),
    ("MODIFY a INT AFTER d, ADD x INT AFTER b", "b<b x< d<d a<a"),
    ("CHANGE b x TEXT, ADD y INT AFTER x, ADD z INT AFTER b", "a<a x<b z< y< d<d"),
    ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "b<a a<b d<d"),
    ("DROP a, RENAME COLUMN b TO a", "a<b d<d"),
]


@pytest.mark.parametrize("text, expected", PLACES)
def test_columns_and_where_their_values_come_from(text: str, expected: str) -> None:
    assert sources(altered(text)) == expected.split()


def test_virtual_columns_keep_their_places() -> None:
    assert altered("ADD x INT FIRST, CHANGE c v INT AS (a) VIRTUAL").table.virtual == ((3, "v"),)


KEYS = [
    ("CHANGE a x INT", ("x",), (("PRIMARY", "x"),)),
    ("DROP PRIMARY KEY", (), ()),
    ("DROP PRIMARY KEY, ADD PRIMARY KEY (D, a)", ("d", "a"), (("PRIMARY", "d", "a"),)),
    ("DROP a", (), ()),
    ("ADD UNIQUE (b), ADD UNIQUE (b, d)", ("a",), (("PRIMARY", "a"), ("b", "b"), ("b_2", "b", "d"))),
    ("DROP PRIMARY KEY, ADD UNIQUE u (b), MODIFY b TEXT NOT NULL", ("b",), (("u", "b"),)),
    ("ADD x INT NOT NULL UNIQUE, DROP PRIMARY KEY", ("x",), (("x", "x"),)),
    ("DROP INDEX nonunique", ("a",), (("PRIMARY", "a"),)),
]


@pytest.mark.parametrize("text, keys, uniques", KEYS)
def test_keys_follow(text: str, keys: tuple[str, ...], uniques: tuple[tuple[str, ...], ...]) -> None:
    table = altered(text).table
    assert table.keys == keys
    assert table.uniques == tuple(UniqueKey(name, tuple(columns)) for name, *columns in uniques)
    assert {c.name for c in table.columns if c.key} == set(keys)


def test_a_unique_key_that_is_dropped_or_renamed_is_found_by_its_name() -> None:
    start = table("a INT NOT NULL, b INT NOT NULL, UNIQUE u (a), UNIQUE v (b)")
    assert start.keys == ("a",)
    assert altered("DROP INDEX U", start).table.keys == ("b",)
    renamed = altered("RENAME INDEX u TO w", start).table
    assert [k.name for k in renamed.uniques] == ["w", "v"]


def test_the_handle_key_of_a_table_inferred_from_rows_counts_as_its_primary_key() -> None:
    learned = Table("db", "t", (Column("a", INT, None, True), Column("b", INT)), ("a",))
    assert altered("RENAME COLUMN a TO x", learned).table.keys == ("x",)
    assert altered("DROP PRIMARY KEY", learned).table.keys == ()


def test_a_default_of_its_own_changes_no_row() -> None:
    change = altered("ALTER b SET DEFAULT 'x'")
    assert [c.default for c in change.table.columns] == [None, "'x'", None]
    assert sources(change) == ["a<a", "b<b", "d<d"]


REFUSED = [
    ("DROP x", "table db.t has no column x"),
    ("MODIFY x INT", "table db.t has no column x"),
    ("RENAME COLUMN x TO y", "table db.t has no column x"),
    ("ALTER x SET DEFAULT 1", "table db.t has no column x"),
    ("ADD A INT", "table db.t already has a column A"),
    ("RENAME COLUMN a TO C", "table db.t already has a column c"),
    ("ADD x INT AFTER y", "table db.t has no column y to put x after"),
    ("DROP a, DROP b, DROP d", "table db.t would have no column left"),
    ("MODIFY b TEXT AS (a) VIRTUAL", "table db.t column b cannot change between virtual and not"),
    ("ADD PRIMARY KEY (b)", "table db.t already has a key PRIMARY"),
    ("ADD UNIQUE u (x)", "table db.t has no column x for key u"),
]


@pytest.mark.parametrize("text, error", REFUSED)
def test_changes_that_do_not_fit_are_refused(text: str, error: str) -> None:
    with pytest.raises(SchemaError) as caught:
        altered(text)
    assert str(caught.value) == error


EXISTING = [
    ("INT", None),
    ("INT NOT NULL", 0),
    ("INT NOT NULL DEFAULT 3", 3),
    ("INT DEFAULT '3'", 3),
    ("TINYINT(1) DEFAULT TRUE", 1),
    ("BIGINT UNSIGNED DEFAULT 18446744073709551615", 2**64 - 1),
    ("INT DEFAULT -7", -7),
    ("INT DEFAULT 0x10", 16),
    ("BIT(7) DEFAULT b'101'", 5),
    ("BIT(7) DEFAULT 5", 5),
    ("YEAR DEFAULT 2020", 2020),
    ("YEAR NOT NULL", 0),
    ("DECIMAL(5,2) DEFAULT 1", "1.00"),
    ("DECIMAL(5,2) NOT NULL", "0.00"),
    ("DECIMAL(40,2) DEFAULT 12345678901234567890123456789012.5", "12345678901234567890123456789012.50"),
    ("DOUBLE DEFAULT 1e3", 1000.0),
    ("FLOAT NOT NULL DEFAULT 3.14", 3.14),
    ("VARCHAR(9) DEFAULT 3", "3"),
    ("VARCHAR(9) DEFAULT 'it''s'", "it's"),
    ("VARCHAR(9) DEFAULT _UTF8MB4'x'", "x"),
    ("VARCHAR(9) DEFAULT x'41'", "A"),
    ("CHAR(9) DEFAULT 'a  '", "a"),
    ("TEXT NOT NULL", ""),
    ("BINARY(3) DEFAULT 'a'", {"base64": "YQAA"}),
    ("BINARY(3) NOT NULL", {"base64": "AAAA"}),
    ("BLOB NOT NULL", {"base64": ""}),
    ("DATE DEFAULT '2026-01-02'", "2026-01-02"),
    ("DATETIME(3) DEFAULT '2026-01-02 03:04:05'", "2026-01-02 03:04:05.000"),
    ("DATETIME DEFAULT '2026-01-02'", "2026-01-02 00:00:00"),
    ("TIME(2) DEFAULT '1:02'", "01:02:00.00"),
    ("TIME(2) NOT NULL", "00:00:00.00"),
    ("ENUM('a','b') NOT NULL", "a"),
    ("ENUM('a','b') DEFAULT 'B'", "b"),
    ("SET('a','b') DEFAULT 'b,a'", "a,b"),
    ("SET('a','b') NOT NULL", ""),
    ("JSON NOT NULL", "null"),
]


@pytest.mark.parametrize("definition, value", EXISTING)
def test_rows_that_exist_get_the_default(definition: str, value: Any) -> None:
    added = altered(f"ADD x {definition}").rows[-1]
    assert (added.source, added.unknown, added.default.irregular) == (None, None, None)
    assert added.default.value == value
    assert type(added.default.value) is type(value)


IRREGULAR = [
    ("DATE NOT NULL", "0000-00-00"),
    ("DATETIME(3) NOT NULL", "0000-00-00 00:00:00.000"),
    ("TIMESTAMP NOT NULL", "0000-00-00 00:00:00"),
    ("DATETIME DEFAULT '0000-00-00'", "0000-00-00 00:00:00"),
    ("DATE DEFAULT '2026-02-30'", "2026-02-30"),
]


@pytest.mark.parametrize("definition, text", IRREGULAR)
def test_rows_that_exist_get_a_date_that_no_calendar_has(definition: str, text: str) -> None:
    added = altered(f"ADD x {definition}").rows[-1]
    assert (added.default.value, added.default.irregular, added.unknown) == (None, text, None)


ASK = "only the upstream has the values that DEFAULT {} gave to existing rows"
UNKNOWN = [
    ("DATETIME DEFAULT CURRENT_TIMESTAMP", ASK.format("CURRENT_TIMESTAMP")),
    ("VARCHAR(36) DEFAULT (uuid())", ASK.format("(uuid())")),
    ("TIMESTAMP DEFAULT '2026-01-02 03:04:05'", ASK.format("'2026-01-02 03:04:05'")),
    ("INT DEFAULT '3.7'", ASK.format("'3.7'")),
    ("INT DEFAULT 99999999999", ASK.format("99999999999")),
    ("DECIMAL(5,2) DEFAULT 1.555", ASK.format("1.555")),
    ("YEAR DEFAULT 70", ASK.format("70")),
    ("ENUM('a') DEFAULT 1", ASK.format("1")),
    ("INT AS (a) STORED", "it is computed from other columns, and no row event contains the values"),
    ("INT AUTO_INCREMENT UNIQUE", "the upstream numbered the existing rows, and no row event contains the values"),
]


@pytest.mark.parametrize("definition, why", UNKNOWN)
def test_values_that_only_the_upstream_has_are_named(definition: str, why: str) -> None:
    added = altered(f"ADD x {definition}").rows[-1]
    assert added.unknown == f"column x: {why}"
    assert (added.source, added.default.value) == (None, None)


def test_a_column_that_becomes_stored_generated_is_computed_again() -> None:
    changed = altered("MODIFY b VARCHAR(9) AS (a) STORED").rows[1]
    assert changed.source is None
    assert changed.unknown == "column b: it is computed from other columns, and no row event contains the values"


def test_a_definition_travels_as_json() -> None:
    start = table("a BIGINT UNSIGNED, e ENUM('it''s','b') NOT NULL DEFAULT 'b', v INT AS (a), UNIQUE (e)")
    assert msgspec.json.decode(msgspec.json.encode(start), type=Table) == start
