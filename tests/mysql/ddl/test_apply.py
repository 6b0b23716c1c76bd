"""ALTER TABLE applied to definitions: columns, positions, keys, and the values of existing rows afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from changefeed.errors import SchemaError
from changefeed.model.definition import Table, UniqueKey, VirtualColumn
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.apply import Altered, alter, changed_members, deleted_by_ignore
from changefeed.mysql.ddl.defaults import ZONE_NEEDED, Execution
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
    # Parts that refer to each other, as MariaDB 10.11 and MySQL 8.0 order them.
    ("ADD x INT AFTER b, MODIFY b VARCHAR(9) FIRST", "b<b a<a x< d<d"),
    ("MODIFY a INT AFTER b, MODIFY b VARCHAR(9) AFTER d", "a<a d<d b<b"),
    ("ADD x INT, ADD y INT FIRST, ADD z INT AFTER x", "y< a<a b<b d<d x< z<"),
    ("CHANGE a b INT AFTER d, CHANGE b a VARCHAR(9)", "a<b d<d b<a"),
    ("RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY d DATE AFTER a", "b<a a<b d<d"),
    ("ADD x INT FIRST, ADD y INT FIRST, MODIFY d DATE FIRST", "d<d y< x< a<a b<b"),
    # IF [NOT] EXISTS, as MariaDB 10.11 has it.
    ("DROP a, ADD COLUMN IF NOT EXISTS a INT", "b<b d<d"),
    ("CHANGE a x INT, ADD COLUMN IF NOT EXISTS a INT", "x<a b<b d<d"),
    ("ADD COLUMN IF NOT EXISTS x INT, ADD COLUMN IF NOT EXISTS x TEXT", "a<a b<b d<d x<"),
    ("MODIFY COLUMN IF EXISTS x INT FIRST, CHANGE IF EXISTS y z INT", "a<a b<b d<d"),
    ("RENAME COLUMN IF EXISTS x TO y, ALTER COLUMN IF EXISTS x SET DEFAULT 1", "a<a b<b d<d"),
]


@pytest.mark.parametrize("text, expected", PLACES)
def test_columns_and_where_their_values_come_from(text: str, expected: str) -> None:
    assert sources(altered(text)) == expected.split()


def test_virtual_columns_keep_their_places() -> None:
    change = altered("ADD x INT FIRST, CHANGE c v INT AS (a + 1) VIRTUAL NOT NULL")
    assert change.table.virtual == (VirtualColumn(3, "v", INT, False, "(a + 1)"),)


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
    ("MODIFY c INT", "table db.t column c cannot change between virtual and not"),
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
    ("TIMESTAMP DEFAULT '2026-01-02 03:04:05'", ASK.format("'2026-01-02 03:04:05'") + f": {ZONE_NEEDED}"),
    ("TIMESTAMP DEFAULT CURRENT_TIMESTAMP", ASK.format("CURRENT_TIMESTAMP")),
    ("INT DEFAULT NEXT VALUE FOR db.s", ASK.format("NEXT VALUE FOR db.s")),
    ("VARCHAR(99) DEFAULT (7 / 2)", ASK.format("(7 / 2)")),
    ("TEXT DEFAULT ''", ASK.format("''")),
    ("TIME DEFAULT '1:02:03.5'", ASK.format("'1:02:03.5'")),
    ("INT DEFAULT 99999999999", ASK.format("99999999999")),
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


GENERATED = "a INT PRIMARY KEY, b DECIMAL(5,2), s INT AS (a + 1) STORED, u INT AS (s * b) STORED"
COMPUTED = [
    ("MODIFY s INT AS ( `A` +1) STORED NOT NULL AFTER u", ""),
    ("MODIFY b DECIMAL(5,2) NOT NULL", "u"),
    ("MODIFY a BIGINT", ""),
    ("MODIFY s BIGINT AS (a + 1) STORED", "s u"),
    ("MODIFY s INT AS (a + 2) STORED", "s u"),
    ("MODIFY b DECIMAL(5,1)", "u"),
    ("MODIFY s INT", ""),
    ("MODIFY b DECIMAL(5,2) AS (a) STORED", "b u"),
    ("CHANGE a x INT", ""),
    ("CHANGE a x INT, MODIFY s INT AS (x + 1) STORED", ""),
    ("ADD v INT AS (a) STORED", "v"),
]


@pytest.mark.parametrize("text, unknown", COMPUTED)
def test_generated_columns_keep_their_values_if_all_that_they_are_computed_from_stays(text: str, unknown: str) -> None:
    change = altered(text, table(GENERATED))
    assert [p.column.name for p in change.rows if p.unknown] == unknown.split()


def test_a_renamed_column_is_renamed_in_expressions() -> None:
    change = altered("RENAME COLUMN a TO `x y`", table("a INT, v INT AS (a + 1), s INT AS (length('a') + a) STORED"))
    assert change.table.virtual[0].expression == "(`x y` + 1)"
    assert change.table.columns[1].expression == "(length('a') + `x y`)"


def test_a_virtual_column_that_rows_carry_is_at_its_place() -> None:
    start = table("a INT PRIMARY KEY, v INT AS (a * 2) VIRTUAL, w TEXT AS (a), z INT").carrying(["V", "none"])
    assert [(c.name, str(c.type)) for c in start.columns] == [("a", "int"), ("v", "int"), ("z", "int")]
    assert [(v.place, v.name) for v in start.virtual] == [(2, "w")]
    assert sources(altered("ADD x INT AFTER v", start)) == ["a<a", "v<v", "x<", "z<z"]
    same = altered("MODIFY v INT AS (a * 2) VIRTUAL AFTER z", start)
    assert sources(same) == ["a<a", "z<z", "v<v"]
    assert same.table.virtual[0].place == 1
    other = altered("MODIFY v INT AS (a * 3) VIRTUAL", start)
    assert other.rows[1].unknown == "column v: it is computed from other columns, and no row event contains the values"
    assert sources(altered("DROP v, DROP w", start)) == ["a<a", "z<z"]


def test_ledgers_with_places_and_names_of_virtual_columns_are_read() -> None:
    text = msgspec.json.encode(table("a INT, v INT AS (a), z INT")).decode()
    old = json.loads(text) | {"virtual": [[1, "v"]]}
    del old["indexes"], old["charset"]
    for column in old["columns"]:
        del column["expression"], column["zerofill"]
    read = msgspec.json.decode(json.dumps(old), type=Table)
    assert read.virtual == (VirtualColumn(1, "v"),)
    assert sources(altered("ADD x INT AFTER v", read)) == ["a<a", "x<", "z<z"]
    with_rows = replace(read, columns=(*read.columns, Column("v", INT)))
    assert sources(altered("ADD x INT AFTER v", with_rows)) == ["a<a", "z<z", "v<v", "x<"]


CHARSETS = [
    (
        "",
        "ADD x VARCHAR(5), DEFAULT CHARSET binary, ADD y TEXT CHARSET utf8",
        "a int, b varchar(9), x varbinary(5), y text",
    ),
    ("CHARSET=binary", "ADD x TEXT", "a int, b varbinary(9), x blob"),
    (
        "DEFAULT COLLATE binary",
        "MODIFY b CHAR(3), ADD x UUID, ADD y NCHAR(2)",
        "a int, b binary(3), x char(36), y char(2)",
    ),
    ("CHARACTER SET = binary", "CONVERT TO CHARACTER SET utf8mb4, ADD x TEXT", "a int, b varbinary(9), x text"),
    ("CHARSET latin1", "CONVERT TO CHARACTER SET binary", "a int, b varbinary(9)"),
    (
        "",
        "MODIFY b VARCHAR(9) CHARSET utf8mb4, ADD x TEXT COLLATE latin1_bin, CONVERT TO CHARACTER SET binary",
        "a int, b varbinary(9), x blob",
    ),
    ("", "CONVERT TO CHARACTER SET utf8mb4, ADD x TEXT CHARACTER SET binary", "a int, b varchar(9), x blob"),
    ("CHARSET binary", "CHANGE b c CHAR(3) CHARSET latin1, CHARSET utf8mb4, ADD x TEXT", "a int, c char(3), x text"),
]


@pytest.mark.parametrize("options, text, columns", CHARSETS)
def test_columns_take_the_character_set_of_the_table(options: str, text: str, columns: str) -> None:
    [created] = parse(f"CREATE TABLE t (a INT, b VARCHAR(9)) {options}", "db")
    assert isinstance(created, CreateTable)
    change = altered(text, created.definition)
    assert ", ".join(f"{c.name} {c.type}" for c in change.table.columns) == columns


def test_a_character_set_is_kept_for_later_statements() -> None:
    binary = altered("DEFAULT CHARACTER SET binary").table
    assert binary.charset == "binary"
    assert str(altered("ADD x TEXT", binary).table.columns[-1].type) == "blob"


@pytest.mark.parametrize("is_mariadb, charset, kind", [
    (True, "binary", "longblob"), (True, "latin1", "json"), (False, "binary", "json"), (None, "binary", "json"),
])  # fmt: skip
def test_a_json_column_of_mariadb_is_text(is_mariadb: bool | None, charset: str, kind: str) -> None:
    [statement] = parse(f"ALTER TABLE t CONVERT TO CHARACTER SET {charset}", "db")
    assert isinstance(statement, AlterTable)
    change = alter(table("a INT, j JSON"), statement, Execution(is_mariadb=is_mariadb))
    assert str(change.table.columns[-1].type) == kind


ZEROFILL = [
    ("SMALLINT", 5),
    ("INT(3)", 3),
    ("BIGINT", 20),
    ("DECIMAL(5,2)", 6),
    ("DECIMAL(5)", 5),
    ("FLOAT", 12),
    ("FLOAT(7,2)", 7),
    ("DOUBLE", 22),
]


@pytest.mark.parametrize("kind, width", ZEROFILL)
def test_zerofill_pads_to_the_width_of_the_type(kind: str, width: int) -> None:
    assert [c.zerofill for c in table(f"a {kind} ZEROFILL, b {kind}").columns] == [width, 0]


def test_a_definition_travels_as_json() -> None:
    start = table("a BIGINT UNSIGNED, e ENUM('it''s','b') NOT NULL DEFAULT 'b', v INT AS (a), UNIQUE (e)")
    assert msgspec.json.decode(msgspec.json.encode(start), type=Table) == start


IN_PLACE = [
    ("v INT DEFAULT 7", "MODIFY v INT NOT NULL", 7),
    ("v INT(5) DEFAULT 7", "MODIFY v INT(11) NOT NULL", 7),
    ("v INT DEFAULT 7", "CHANGE v v INT NOT NULL DEFAULT 9, ADD w INT", 7),
    ("v VARCHAR(5) DEFAULT 'x'", "MODIFY v VARCHAR(9) NOT NULL", "x"),
    ("v ENUM('a','b') DEFAULT 'b'", "MODIFY v ENUM('a','b','c') NOT NULL", "b"),
    ("v TIME(1) DEFAULT '-10:00:00'", "MODIFY v TIME(1) NOT NULL", "-10:00:00.0"),
    ("v INT DEFAULT 7", "MODIFY v INT NOT NULL, ALGORITHM=COPY", None),
    ("v INT DEFAULT 7", "MODIFY v INT NOT NULL, ALGORITHM INPLACE", 7),
    ("v INT DEFAULT 7", "MODIFY v INT NOT NULL, ORDER BY id", None),
    ("v INT DEFAULT 7", "MODIFY v INT NOT NULL, DROP PRIMARY KEY", None),
    ("v INT DEFAULT 7", "MODIFY v BIGINT NOT NULL", None),
    ("v VARCHAR(9) DEFAULT 'x'", "MODIFY v VARCHAR(5) NOT NULL", None),
    ("v ENUM('a','b') DEFAULT 'b'", "MODIFY v ENUM('b','a') NOT NULL", None),
    ("v INT DEFAULT 7, u INT", "MODIFY v INT NOT NULL, MODIFY u TEXT", None),
    ("v INT NOT NULL DEFAULT 7", "MODIFY v INT NOT NULL", None),
    ("v INT", "MODIFY v INT NOT NULL DEFAULT 7", None),
    ("v TEXT DEFAULT 'x'", "MODIFY v TEXT NOT NULL", None),
    ("v DATETIME DEFAULT CURRENT_TIMESTAMP", "MODIFY v DATETIME NOT NULL", None),
]


@pytest.mark.parametrize("column, change, value", IN_PLACE)
@pytest.mark.parametrize("is_mariadb", [True, False])
def test_null_becomes_the_old_default_where_mariadb_changes_the_table_in_place(
    column: str, change: str, value: Any, is_mariadb: bool
) -> None:
    [statement] = parse(f"ALTER TABLE t {change}", "db")
    assert isinstance(statement, AlterTable)
    rows = alter(table(f"id INT PRIMARY KEY, {column}"), statement, Execution(is_mariadb=is_mariadb)).rows
    null = next(p.null for p in rows if p.column.name == "v")
    assert (null.value, null.unknown) == (value if is_mariadb else None, None)


def test_null_is_unknown_where_a_generated_column_decides_if_mariadb_changes_the_table_in_place() -> None:
    [statement] = parse("ALTER TABLE t MODIFY v INT NOT NULL", "db")
    assert isinstance(statement, AlterTable)
    start = table("id INT PRIMARY KEY, v INT DEFAULT 7, g INT AS (id) STORED")
    (null,) = [p.null for p in alter(start, statement, Execution(is_mariadb=True)).rows if p.column.name == "v"]
    assert null.unknown == (
        "column v: NULL becomes its old default or the implicit one, which depends on the generated columns of the table, "
        "and no row event contains the values"
    )


MEMBERS = [
    ("e ENUM('é','ü') CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1", True),
    ("e SET('é','ü') CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1, ADD INDEX (e)", True),
    ("e ENUM('é','ü') CHARACTER SET utf8mb3", "CONVERT TO CHARACTER SET utf8mb4", False),
    ("e ENUM('é','ü') CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1, MODIFY e ENUM('é','ü')", False),
    ("e ENUM('é','ü') CHARACTER SET utf8mb4", "DEFAULT CHARACTER SET latin1", False),
    ("e ENUM('a','b') CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1", False),
    ("e ENUM('é') CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET dec8", True),
]


@pytest.mark.parametrize("column, change, changes", MEMBERS)
def test_members_that_get_another_text_when_a_table_is_converted(column: str, change: str, changes: bool) -> None:
    start = table(f"id INT PRIMARY KEY, {column}")
    [statement] = parse(f"ALTER TABLE t {change}", "db")
    assert isinstance(statement, AlterTable)
    assert bool(changed_members(statement, alter(start, statement))) == changes


IGNORED = [
    ("MODIFY v TINYINT", True),
    ("MODIFY v INT NOT NULL", True),  # two rows with NULL become one
    ("MODIFY s VARCHAR(3)", True),
    ("MODIFY s VARCHAR(9) CHARACTER SET latin1", True),
    ("CONVERT TO CHARACTER SET latin1", True),
    ("CHANGE v w SMALLINT", True),
    ("MODIFY v BIGINT", False),
    ("MODIFY s VARCHAR(99)", False),
    ("MODIFY x TINYINT NOT NULL", False),  # of no unique key
    ("ADD y INT, RENAME COLUMN v TO w", False),
    ("ADD j JSON NOT NULL", True),
    ("ADD j JSON", False),
]


@pytest.mark.parametrize("change, deletes", IGNORED)
def test_alter_ignore_deletes_rows(change: str, deletes: bool) -> None:
    start = table("id INT PRIMARY KEY, v INT, s VARCHAR(9) CHARACTER SET utf8mb4, x INT, UNIQUE (v), UNIQUE (s)")
    [statement] = parse(f"ALTER IGNORE TABLE t {change}", "db")
    assert isinstance(statement, AlterTable)
    assert statement.ignores
    assert (deleted_by_ignore(start, alter(start, statement)) is not None) == deletes
