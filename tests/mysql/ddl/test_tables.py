"""CREATE TABLE -> columns with types, members and defaults, keys, and how large a table may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.definition import Index, UniqueKey, VirtualColumn
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.statements import (
    CreateTable,
)
from tests.mysql.ddl.parsing import column, the

TYPES = [
    ("INT(11) UNSIGNED ZEROFILL", "int unsigned"),
    ("integer", "int"),
    ("TINYINT(1)", "tinyint(1)"),
    ("TINYINT(1) UNSIGNED", "tinyint unsigned"),
    ("TINYINT(4)", "tinyint"),
    ("BOOL", "tinyint(1)"),
    ("MIDDLEINT", "mediumint"),
    ("BIGINT(20) SIGNED", "bigint"),
    ("DEC", "decimal(10,0)"),
    ("NUMERIC(5)", "decimal(5,0)"),
    ("DECIMAL(65,30) UNSIGNED", "decimal(65,30) unsigned"),
    ("FLOAT(24)", "float"),
    ("FLOAT(25)", "double"),
    ("FLOAT(7,4)", "float(7,4)"),
    ("DOUBLE PRECISION", "double"),
    ("REAL", "double"),
    ("BIT", "bit(1)"),
    ("BIT(64)", "bit(64)"),
    ("YEAR(4)", "year"),
    ("DATETIME(0)", "datetime"),
    ("TIMESTAMP(6)", "timestamp(6)"),
    ("TIME(3)", "time(3)"),
    ("CHAR", "char(1)"),
    ("CHARACTER VARYING(5)", "varchar(5)"),
    ("NATIONAL CHAR(3)", "char(3)"),
    ("NATIONAL CHAR VARYING(3)", "varchar(3)"),
    ("NCHAR VARCHAR(3)", "varchar(3)"),
    ("NVARCHAR(3)", "varchar(3)"),
    ("CHAR(3) CHARACTER SET binary", "binary(3)"),
    ("VARCHAR(3) CHARSET 'binary'", "varbinary(3)"),
    ("TEXT COLLATE binary", "blob"),
    ("CHAR(3) BYTE", "binary(3)"),
    ("CHAR(3) CHARACTER SET latin1 BINARY", "char(3)"),
    ("LONG VARCHAR", "mediumtext"),
    ("LONG VARBINARY", "mediumblob"),
    ("UUID", "char(36)"),
    ("inet6", "varchar(39)"),
    ("INET4", "varchar(15)"),
    ("LONG", "mediumtext"),
    ("BLOB(255)", "tinyblob"),
    ("BLOB(256)", "blob"),
    ("BLOB(65536)", "mediumblob"),
    ("TEXT(100)", "text"),
    ("BINARY", "binary(1)"),
    ("JSON", "json"),
    ("POINT SRID 4326", "point"),
    ("GEOMCOLLECTION", "geometrycollection"),
    ("VECTOR(3)", "vector(3)"),
    ("VECTOR", "vector"),
]


@pytest.mark.parametrize("written, expected", TYPES, ids=[t for t, _ in TYPES])
def test_type(written: str, expected: str) -> None:
    statement = the(f"CREATE TABLE t (`c` {written} DEFAULT NULL COMMENT 'x', d INT)")
    assert isinstance(statement, CreateTable)
    assert str(statement.columns[0].type) == expected
    assert statement.columns[1] == column("d", "int")


MEMBERS = [
    (r"'a','b'", ("a", "b")),
    (r"'it''s',_UTF8MB4'it''s', N'n'", ("it's", "it's", "n")),
    (r"'a,b','(c)',')'", ("a,b", "(c)", ")")),
    (r"'\'','a\\b','\n'", ("'", "a\\b", "\n")),
    (r"'`','\"', ''", ("`", '"', "")),
    (r"x'41', 0x42, 'trailing  '", ("A", "B", "trailing")),
]


@pytest.mark.parametrize("written, members", MEMBERS)
@pytest.mark.parametrize("kind", ["ENUM", "SET"])
def test_members(kind: str, written: str, members: tuple[str, ...]) -> None:
    statement = the(f"CREATE TABLE t (c {kind}({written}) NOT NULL)")
    assert isinstance(statement, CreateTable)
    assert statement.columns[0].type == ColumnType(kind.lower(), members=members)


DEFAULTS = [
    ("DEFAULT 3", "3"),
    ("DEFAULT -1.5", "-1.5"),
    ("DEFAULT NULL", None),
    ("DEFAULT 'it''s' 'so' NOT NULL", "'it''s' 'so'"),
    ("DEFAULT _utf8mb4'x' COMMENT 'c'", "_utf8mb4'x'"),
    ("DEFAULT b'101'", "b'101'"),
    ("DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", "CURRENT_TIMESTAMP(3)"),
    ("DEFAULT now() ON UPDATE now()", "now()"),
    ("DEFAULT (concat('(', a))", "(concat('(', a))"),
    ("DEFAULT NEXT VALUE FOR `s` NOT NULL", "NEXT VALUE FOR `s`"),
]


@pytest.mark.parametrize("written, default", DEFAULTS)
def test_default(written: str, default: str | None) -> None:
    statement = the(f"CREATE TABLE t (c VARCHAR(9) {written}, d INT)")
    assert isinstance(statement, CreateTable)
    assert statement.columns[0].default == default


KEYS = [
    ("a INT PRIMARY KEY, b INT", ("a",)),
    ("a INT, b INT, PRIMARY KEY (b, A)", ("b", "a")),
    ("a INT KEY, b INT NOT NULL UNIQUE", ("a",)),
    ("a INT, b INT NOT NULL UNIQUE", ("b",)),
    ("a INT UNIQUE, b INT", ()),
    ("a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, UNIQUE (a, b), UNIQUE KEY (c)", ("c",)),
    ("a INT NOT NULL, b INT NOT NULL, UNIQUE (b), UNIQUE (a)", ("b",)),
    ("a INT NOT NULL UNIQUE, b INT NOT NULL, UNIQUE (b)", ("a",)),
    ("a INT NOT NULL, b INT, UNIQUE (a, b)", ()),
    ("a INT NOT NULL, b INT AS (a) VIRTUAL NOT NULL, UNIQUE (b)", ()),
    ("a INT NOT NULL, UNIQUE ((a + 1))", ()),
    ("a SERIAL, b INT", ("a",)),
    ("a INT NULL SERIAL DEFAULT VALUE, b INT", ("a",)),
]


@pytest.mark.parametrize("inside, keys", KEYS)
def test_handle_key(inside: str, keys: tuple[str, ...]) -> None:
    statement = the(f"CREATE TABLE t ({inside})")
    assert isinstance(statement, CreateTable)
    assert statement.keys == keys
    assert {c.name for c in statement.columns if c.key} == set(keys)
    assert all(c.nullable is False for c in statement.columns if c.key)


def test_a_whole_table_as_tidb_restores_it() -> None:
    text = (
        "CREATE TABLE `t` (`id` BIGINT(20) UNSIGNED NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */,"
        "`v` INT(11) GENERATED ALWAYS AS (`id` + 1) VIRTUAL,`s` VARCHAR(10) CHARACTER SET UTF8MB4 COLLATE utf8mb4_bin "
        "NOT NULL DEFAULT _UTF8MB4'it''s',`e` ENUM('a','b') DEFAULT NULL,PRIMARY KEY(`id`) /*T![clustered_index] "
        "CLUSTERED */,INDEX `i`(`s`),CONSTRAINT `f` FOREIGN KEY (`e`) REFERENCES `x`(`y`) ON DELETE SET NULL) "
        "ENGINE = InnoDB DEFAULT CHARACTER SET = UTF8MB4 COMMENT = 'c' PARTITION BY HASH (`id`) PARTITIONS 4;"
    )
    assert the(text) == CreateTable(
        "db",
        "t",
        (
            column("id", "bigint unsigned", nullable=False, key=True),
            replace(column("s", "varchar(10)", nullable=False, default="_UTF8MB4'it''s'"), charset="utf8mb4"),
            replace(column("e", "enum('a','b')"), charset="utf8mb4"),
        ),
        ("id",),
        (UniqueKey("PRIMARY", ("id",)),),
        (VirtualColumn(1, "v", ColumnType("int"), True, "(`id` + 1)"),),
        indexes=(Index("i", ("s",)), Index("f", ("e",), implied=True)),
        charset="utf8mb4",
    )


def test_character_set_binary_of_the_table_decides_the_types_of_its_texts() -> None:
    statement = the("CREATE TABLE t (a CHAR(2), b TEXT CHARSET utf8, c INT) DEFAULT CHARSET=binary")
    assert isinstance(statement, CreateTable)
    assert [str(c.type) for c in statement.columns] == ["binary(2)", "text", "int"]


def test_depth_costs_nothing() -> None:
    deep = "(" * 200_000 + "1" + ")" * 200_000
    statement = the(f"CREATE TABLE t (a INT DEFAULT {deep})")
    assert isinstance(statement, CreateTable)
    assert statement.columns[0].default == deep


def test_more_columns_than_any_server_takes_are_refused() -> None:
    columns = ",".join(f"c{i} INT" for i in range(4096))
    statement = the(f"CREATE TABLE t ({columns})")
    assert isinstance(statement, CreateTable)
    assert len(statement.columns) == 4096
    with pytest.raises(UnsupportedError, match="more than 4096 columns, keys or changes"):
        parse(f"CREATE TABLE t ({columns}, more INT)", "db")
