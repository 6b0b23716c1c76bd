"""DDL text -> parsed statement: tables of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from changefeed.model.definition import Index, UniqueKey
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.mysql.ddl import mentioned, parse, statements_of
from changefeed.mysql.ddl.statements import (
    AddColumn,
    AddIndex,
    AddKey,
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropKey,
    DropTable,
    ModifyColumn,
    Passed,
    RenameColumn,
    RenameKey,
    RenameTable,
    SetCharset,
    SetDefault,
    TruncateTable,
    Unapplied,
)
from tests.mysql.ddl.parsing import column, the

A, B = column("a", "int"), column("b", "int")

ALTERS = [
    ("ADD COLUMN `a` INT NULL", AddColumn(A)),
    ("ADD a INT FIRST", AddColumn(A, first=True)),
    ("ADD a INT AFTER `x y`", AddColumn(A, after="x y")),
    ("ADD COLUMN IF NOT EXISTS a INT", AddColumn(A, if_not_exists=True)),
    ("ADD a INT AS (b + 1)", AddColumn(replace(A, expression="(b + 1)"), generated="virtual")),
    (
        "ADD a INT GENERATED ALWAYS AS (b + (1)) STORED",
        AddColumn(replace(A, expression="(b + (1))"), generated="stored"),
    ),
    ("DROP a", DropColumn("a")),
    ("DROP COLUMN IF EXISTS `a` CASCADE", DropColumn("a", if_exists=True)),
    ("MODIFY a INT FIRST", ModifyColumn("a", A, first=True)),
    ("CHANGE COLUMN b a INT AFTER c", ModifyColumn("b", A, after="c")),
    ("RENAME COLUMN a TO b", RenameColumn("a", "b")),
    ("ALTER COLUMN a SET DEFAULT 'x'", SetDefault("a", "'x'")),
    ("ALTER a SET DEFAULT (uuid())", SetDefault("a", "(uuid())")),
    ("ALTER a DROP DEFAULT", SetDefault("a", None)),
    ("ADD PRIMARY KEY (a, b)", AddKey(UniqueKey("PRIMARY", ("a", "b")))),
    ("ADD CONSTRAINT c PRIMARY KEY USING BTREE (a)", AddKey(UniqueKey("PRIMARY", ("a",)))),
    ("ADD CONSTRAINT `c` UNIQUE INDEX (a(10), b DESC) COMMENT 'x'", AddKey(UniqueKey("c", ("a", "b")))),
    ("ADD UNIQUE KEY u USING HASH (a)", AddKey(UniqueKey("u", ("a",)))),
    ("DROP PRIMARY KEY", DropKey("PRIMARY")),
    ("DROP INDEX `i`", DropKey("i")),
    ("RENAME INDEX a TO b", RenameKey("a", "b")),
    ("RENAME COLUMN IF EXISTS a TO b", RenameColumn("a", "b", if_exists=True)),
    ("RENAME INDEX IF EXISTS a TO b", RenameKey("a", "b", if_exists=True)),
    ("ALTER COLUMN IF EXISTS a SET DEFAULT 1", SetDefault("a", "1", if_exists=True)),
    ("ALTER COLUMN IF EXISTS a DROP DEFAULT", SetDefault("a", None, if_exists=True)),
    ("MODIFY COLUMN IF EXISTS a INT", ModifyColumn("a", A, if_exists=True)),
    ("CHANGE IF EXISTS b a INT", ModifyColumn("b", A, if_exists=True)),
    ("ADD PRIMARY KEY IF NOT EXISTS (a)", AddKey(UniqueKey("PRIMARY", ("a",)), if_not_exists=True)),
    ("ADD UNIQUE KEY IF NOT EXISTS u (a)", AddKey(UniqueKey("u", ("a",)), if_not_exists=True)),
    ("ADD CONSTRAINT IF NOT EXISTS u UNIQUE (a)", AddKey(UniqueKey("u", ("a",)), if_not_exists=True)),
    ("ADD INDEX IF NOT EXISTS i (a, b)", AddIndex(Index("i", ("a", "b")), if_not_exists=True)),
    ("DROP INDEX IF EXISTS i", DropKey("i", if_exists=True)),
    ("DROP CONSTRAINT IF EXISTS c", DropKey("c", if_exists=True, constraint=True)),
    ("ADD KEY (a DESC) COMMENT 'x'", AddIndex(Index("", ("a",)))),
    ("ADD FULLTEXT INDEX f (a) WITH PARSER ngram", AddIndex(Index("f", ("a",)))),
    ("ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES x (y)", AddIndex(Index("c", ("a",), implied=True))),
    ("ADD UNIQUE u (a) WHERE b > 0 COMMENT 'x'", AddIndex(Index("u", ("a",)))),
    ("ADD UNIQUE u ((lower(a)), b)", AddIndex(Index("u", ("", "b")))),
    ("ADD UNIQUE u (a, p WITHOUT OVERLAPS)", AddKey(UniqueKey("u", ("a", "p")), period="p")),
    (
        "ADD UNIQUE u (a) USING BTREE COMMENT '' INVISIBLE NOT IGNORED GLOBAL KEY_BLOCK_SIZE = 8 X='1'",
        AddKey(UniqueKey("u", ("a",))),
    ),
    ("DEFAULT CHARACTER SET = binary COMMENT 'CHARSET x'", SetCharset("binary")),
    ("COLLATE utf8mb4_bin", SetCharset("utf8mb4")),
    ("CONVERT TO CHARACTER SET binary", SetCharset("binary", converts=True)),
    ("MODIFY t.a INT", ModifyColumn("a", A)),
    ("CHANGE `db`.`t`.b a INT AFTER t.c", ModifyColumn("b", A, after="c")),
    ("DROP COLUMN t.a", DropColumn("a")),
    ("ALTER t.a SET DEFAULT NEXT VALUE FOR db.s", SetDefault("a", "NEXT VALUE FOR db.s")),
    ("ADD a INT WITH COMPRESSION_DICTIONARY d FOO=1", AddColumn(A)),
]


@pytest.mark.parametrize("text, change", ALTERS, ids=lambda v: v if isinstance(v, str) else "")
def test_part_of_alter_table(text: str, change: Any) -> None:
    assert the(f"ALTER TABLE `db`.`t` {text}") == AlterTable("db", "t", (change,))
    twice = the(f"alter table `t` {text}, {text};")
    assert twice == AlterTable("db", "t", (change, change))


STATEMENT_CASES = [
    ("CREATE DATABASE `shop`", [CreateDatabase("shop")]),
    (
        "create schema if not exists `x` DEFAULT CHARACTER SET = utf8",
        [CreateDatabase("x", if_not_exists=True, charset="utf8")],
    ),
    ("DROP DATABASE IF EXISTS x", [DropDatabase("x", if_exists=True)]),
    ("ALTER DATABASE x CHARACTER SET utf8", "alter_database"),
    ("CREATE TABLE t LIKE d.x", [CreateTable("db", "t", like=("d", "x"))]),
    ("CREATE TABLE IF NOT EXISTS t (LIKE x);", [CreateTable("db", "t", like=("db", "x"), if_not_exists=True)]),
    ("DROP TABLE `x`, d.y", [DropTable("db", "x"), DropTable("d", "y")]),
    ("DROP TABLE IF EXISTS `t` /* generated by server */", [DropTable("db", "t", if_exists=True)]),
    ("RENAME TABLE a TO b, c TO d.e", [RenameTable("db", "a", "db", "b"), RenameTable("db", "c", "d", "e")]),
    ("ALTER TABLE x.a RENAME AS y.b", [RenameTable("x", "a", "y", "b")]),
    (
        "ALTER TABLE a DROP b, RENAME TO c",
        [AlterTable("db", "a", (DropColumn("b"),)), RenameTable("db", "a", "db", "c")],
    ),
    ("TRUNCATE t", [TruncateTable("db", "t")]),
    ("TRUNCATE TABLE `d`.`t`;", [TruncateTable("d", "t")]),
    ("CREATE UNIQUE INDEX u ON t (a)", [AlterTable("db", "t", (AddKey(UniqueKey("u", ("a",))),))]),
    ("CREATE UNIQUE INDEX u ON t ((lower(a)))", [AlterTable("db", "t", (AddIndex(Index("u", ("",))),))]),
    ("CREATE INDEX i USING BTREE ON t (a)", [AlterTable("db", "t", (AddIndex(Index("i", ("a",))),))]),
    ("UNIQUE INDEX u ON t (a)", [AlterTable("db", "t", (AddKey(UniqueKey("u", ("a",))),))]),
    (
        "CREATE OR REPLACE INDEX i ON t (a)",
        [AlterTable("db", "t", (DropKey("i", if_exists=True), AddIndex(Index("i", ("a",)))))],
    ),
    ("DROP INDEX IF EXISTS i ON t", [AlterTable("db", "t", (DropKey("i", if_exists=True),))]),
    ("ALTER TABLE IF EXISTS t DROP a", [AlterTable("db", "t", (DropColumn("a"),), if_exists=True)]),
    ("RENAME TABLE IF EXISTS a TO b", [RenameTable("db", "a", "db", "b", if_exists=True)]),
    ("TRUNCATE .`t`", [TruncateTable("db", "t")]),
    ("TRUNCATE t;;", [TruncateTable("db", "t")]),
    ("TRUNCATE t\0", [TruncateTable("db", "t")]),
    ("DROP TABLE a; USE x; DROP TABLE b; FLUSH LOGS;", [DropTable("db", "a"), DropTable("x", "b")]),
    ("SET STATEMENT a=1, b=(SELECT 1) FOR TRUNCATE t", [TruncateTable("db", "t")]),
    ("SET STATEMENT a=1 FOR SET STATEMENT b='FOR' FOR DROP TABLE t", [DropTable("db", "t")]),
    ("SET STATEMENT a=1 FOR SET b=2", "set"),
    ("CREATE PROCEDURE p() BEGIN DROP TABLE t; TRUNCATE t; END", "create_procedure"),
    ("ALTER TABLE t ORDER BY a DESC, b", "alter_table"),
    ("ALTER TABLE t TABLE_CHECKSUM=1, SOFTDELETE RETENTION 7 DAY", "alter_table"),
    ("CREATE COMPRESSION_DICTIONARY d ('a')", "create_compression_dictionary"),
    ("DELETE HISTORY FROM t BEFORE SYSTEM_TIME '2026-01-01'", "delete_history"),
    ("DROP INDEX i ON t ALGORITHM = INPLACE", [AlterTable("db", "t", (DropKey("i"),))]),
    ("ALTER TABLE `db`.`t`", "alter_table"),
    ("ALTER TABLE t ADD CHECK (a > 0), ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'add, drop'", "add_check"),
    (
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        [AlterTable("db", "t", (SetCharset("utf8mb4", converts=True),))],
    ),
    ("ALTER TABLE t /*T![ttl] TTL = `c` + INTERVAL 1 DAY */", "alter_table"),
    ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES IN (1,2))", "add_partition"),
    ("ALTER TABLE t REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))", "reorganize_partition"),
    ("CREATE ALGORITHM=UNDEFINED DEFINER=`a`@`%` SQL SECURITY INVOKER VIEW v AS SELECT 1", "create_view"),
    ("CREATE TEMPORARY TABLE t (a INT)", "create_temporary_table"),
    ("DROP VIEW `db`.`v`", "drop_view"),
    ("CREATE USER 'a'@'%' IDENTIFIED BY 'x'", "create_user"),
    ("ANALYZE TABLE t", "analyze"),
]


@pytest.mark.parametrize("text, expected", STATEMENT_CASES, ids=[t for t, _ in STATEMENT_CASES])
def test_statement(text: str, expected: object) -> None:
    if isinstance(expected, str):
        expected = [Passed(expected, text)]
    assert parse(text, "db") == expected


UNAPPLIED_CASES = [
    ("ALTER TABLE t DROP PARTITION p, q", "drop_partition", (("db", "t"),)),
    ("ALTER TABLE t TRUNCATE PARTITION ALL", "truncate_partition", (("db", "t"),)),
    (
        "ALTER TABLE `d`.`t` EXCHANGE PARTITION `p` WITH TABLE `d`.`x` WITHOUT VALIDATION",
        "exchange_partition",
        (("d", "t"), ("d", "x")),
    ),
    ("ALTER TABLE t FIRST PARTITION LESS THAN (5)", "drop_partition", (("db", "t"),)),
    ("ALTER TABLE t IMPORT TABLESPACE", "import_tablespace", (("db", "t"),)),
    ("ALTER TABLE t CONVERT PARTITION p TO TABLE x", "convert_partition", (("db", "t"), ("db", "x"))),
    ("ALTER TABLE t ENGINE = BLACKHOLE", "engine_blackhole", (("db", "t"),)),
    ("FLASHBACK TABLE t", "flashback", (("db", "t"),)),
    ("FLASHBACK TABLE t TO x", "flashback", (("db", "t"), ("db", "x"))),
    ("INSERT IGNORE INTO d.t VALUES (1)", "insert", (("d", "t"),)),
    ("SET STATEMENT a=1 FOR DELETE FROM t WHERE a > 1", "delete", (("db", "t"),)),
    ("UPDATE t JOIN u SET u.a = 1", "update", ()),
    ("ANALYZE FORMAT=JSON UPDATE t SET a = 1", "update", (("db", "t"),)),
]


@pytest.mark.parametrize("text, kind, tables", UNAPPLIED_CASES, ids=[c[0] for c in UNAPPLIED_CASES])
def test_statements_that_change_rows_without_row_events_are_unapplied(text: str, kind: str, tables: Any) -> None:
    assert parse(text, "db") == [Unapplied(kind, text, tables)]


def test_ignore_refuses_a_new_unique_key_and_a_check() -> None:
    altered, unapplied = parse("ALTER IGNORE TABLE t ADD a INT, ADD UNIQUE (b)", "db")
    assert isinstance(altered, AlterTable)
    assert unapplied == Unapplied("alter_ignore", "ALTER IGNORE TABLE t ADD a INT, ADD UNIQUE (b)", (("db", "t"),))
    for check in ("ADD CONSTRAINT c CHECK (b > 0)", "ADD c INT CHECK (c > 0)"):
        assert any(
            s.kind == "alter_ignore" for s in parse(f"ALTER IGNORE TABLE t {check}", "db") if isinstance(s, Unapplied)
        )
    [indexed] = parse("ALTER IGNORE TABLE t ADD a INT COMMENT 'CHECK (b)', ADD KEY (b)", "db")
    assert isinstance(indexed, AlterTable)
    assert [replace(indexed, ignores=False)] == parse("ALTER TABLE t ADD a INT COMMENT 'CHECK (b)', ADD KEY (b)", "db")


@pytest.mark.parametrize(
    "text, understood",
    [
        ("BEGIN", True),
        ("ANALYZE TABLE t", True),
        ("SET NAMES utf8mb4", True),
        ("BEGIN NOT ATOMIC DROP TABLE t; END", False),
        ("ADMIN REPAIR TABLE t CREATE TABLE t (a INT)", False),
        ("CREATE VIEW v AS SELECT 'not closed", False),
    ],
)
def test_what_first_words_alone_decide_is_not_understood(text: str, understood: bool) -> None:
    statement = the(text)
    assert isinstance(statement, Passed)
    assert statement.understood is understood


@pytest.mark.parametrize(
    "text, tables",
    [
        ("ADMIN REPAIR TABLE T", [("db", "t")]),
        ("BEGIN NOT ATOMIC DROP TABLE db.`t`, `x`.`t`; END", [("db", "t"), ("x", "t")]),
        ("ADMIN CHECK TABLE x.t", [("x", "t")]),
        ("FLUSH y.t /* t */, 't', u", []),
        ("REVOKE t 'not closed", [("db", "t")]),
    ],
)
def test_tables_that_a_statement_mentions(text: str, tables: list[tuple[str, str]]) -> None:
    assert mentioned(text, [("x", "t"), ("db", "t"), ("db", "v")], "db") == tables


def test_or_replace_drops_first() -> None:
    dropped, created = parse("CREATE OR REPLACE TABLE t (a INT)", "db")
    assert dropped == DropTable("db", "t", if_exists=True)
    assert isinstance(created, CreateTable)


def test_comments_for_servers_are_read_and_other_comments_are_not() -> None:
    text = "CREATE TABLE t (a INT /*!40101 NOT NULL */ -- note\n, b INT # x\n /*M!999999\\- */ /* , c INT */)"
    statement = the(text)
    assert isinstance(statement, CreateTable)
    assert [(c.name, c.nullable) for c in statement.columns] == [("a", False), ("b", True)]


@pytest.mark.parametrize("columns", [1, 2000], ids=["kept", "too long to be kept"])
def test_statements_of_a_schema_change_are_the_same_each_time(columns: int) -> None:
    text = f"CREATE TABLE t ({', '.join(f'c{i} INT' for i in range(columns))})"
    event = SchemaChange(type="create_table", database="d", table="t", ddl=text, place=Place("t", 0, 0))
    first = statements_of(event, restored=False)
    first.clear()
    [again] = statements_of(event, restored=False)
    assert isinstance(again, CreateTable)
    assert (again.database, len(again.columns or ())) == ("d", columns)
    [other] = statements_of(replace(event, database="e"), restored=False)
    assert isinstance(other, CreateTable)
    assert other.database == "e"
