"""Columns that are excluded or masked: no table, no cut and no pending change has their values, whatever DDL does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.pipeline import copy_requests
from changefeed.pipeline.state import State
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.source_offset import read
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, section

SECRET = "do-not-store"
OPTIONS = {"chunk-rows": [5, 50], "max-records-per-batch": [20, 1000], "max-bytes-per-batch": [2000, 10**6]}
HASH = {"*.*.note": "hash SHA-256"}
PATTERNS: list[tuple[list[str], dict[str, str]]] = [
    (["shop.*.secret*"], {}),
    (["shop.a.secret*", "shop.b.note"], {}),
    (["*.*.secret*", "!shop.c.secret"], HASH),
    ([], {}),
    (["shop.b.secret"], HASH | {"shop.*.c*": "asterisks 3"}),
    ([], {"*.*.*": "truncate 14", "*.*.id": "keep", "shop.b.note": "hash-v1 MD5"}),
]


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute("CREATE DATABASE shop")
        for table in "abc":
            server.execute(f"CREATE TABLE {table} (secret VARCHAR(40), id INT PRIMARY KEY, note TEXT)", "shop")
            write(server, table, 0)
        yield server


def columns(database: Database, table: str) -> list[str]:
    """The columns of a table, in their order."""
    return [
        name
        for (name,) in database.selected(
            f"SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = '{table}' "
            "ORDER BY ORDINAL_POSITION",
            "shop",
        )
    ]


def write(database: Database, table: str, first: int) -> None:
    """Ten new rows; some of all rows change, in all columns of text, and some go."""
    texts = [name for name in columns(database, table) if name != "id"]
    rows = ", ".join(f"({n}{f', {secret(n)!r}' * len(texts)})" for n in range(first, first + 10))
    changes = ", ".join(f"{name} = '{secret(first)} again'" for name in texts)
    database.execute(
        f"INSERT INTO {table} (id{''.join(f', {name}' for name in texts)}) VALUES {rows};"
        f"UPDATE {table} SET {changes} WHERE id % 7 = 1; DELETE FROM {table} WHERE id % 11 = 5",
        "shop",
    )


def alter_online(database: Database, table: str, change: str) -> None:
    """Alters a table as tools for online schema changes do: a copy takes its place."""
    names = ", ".join(columns(database, table))
    database.execute(
        f"CREATE TABLE _{table}_new LIKE {table}; ALTER TABLE _{table}_new {change};"
        f"INSERT INTO _{table}_new ({names}) SELECT {names} FROM {table};"
        f"RENAME TABLE {table} TO _{table}_old, _{table}_new TO {table}; DROP TABLE _{table}_old",
        "shop",
    )


def secret(number: int) -> str:
    return f"{SECRET} {number}"


def check(follower: Follower, state: State, database: Database, names: Iterable[str] = "abc") -> None:
    """Compares the tables with the server's columns that are not excluded, row by row."""
    rules = follower._section().column_patterns.compiled()
    tables = {t.table.name: t for t in state.tables.values()}
    assert tables.keys() == set(names)
    for name, table in tables.items():
        kept = [c for c in columns(database, name) if not rules.excludes("shop", name, c)]
        assert sorted(column.name for column in table.table.columns) == sorted(kept)
        kept = [column.name for column in table.table.columns]
        rows = sorted(
            ["NULL" if value is None else str(value) for value in row.values()]
            for row in follower.storage.tables.rows(table.path)
        )
        masks = [rules.mask("shop", name, column) for column in kept]
        expected = sorted(
            [v if m is None or v == "NULL" else m.text(v) for v, m in zip(row, masks, strict=True)]
            for row in database.selected(f"SELECT {', '.join(kept)} FROM {name}", "shop")
        )
        assert rows == expected, name


def test_a_column_is_excluded_from_the_copy_and_from_the_log(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(1), {"chunk-rows": [7]}, excluded=["shop.*.*", "!*.*.id"])
    check(follower, follower.run(), database)
    for table in "abc":
        write(database, table, 100)
    database.execute("ALTER TABLE a ADD COLUMN more INT NOT NULL DEFAULT 7 AFTER secret, DROP COLUMN note", "shop")
    database.execute("ALTER TABLE b MODIFY note VARCHAR(99) NOT NULL DEFAULT '' FIRST, ADD INDEX (note)", "shop")
    database.execute("CREATE TABLE d LIKE b; ALTER TABLE c RENAME COLUMN note TO remark", "shop")
    for table in "bcd":
        write(database, table, 200)
    state = follower.run()
    check(follower, state, database, "abcd")
    assert SECRET not in str(state)
    assert not any(SECRET in str(follower.storage.tables.rows(table.path)) for table in state.tables.values())


def test_images_that_carry_nothing_else(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(2), excluded=["*.*.secret"])
    follower.run()
    database.execute(
        "SET SESSION binlog_row_image = MINIMAL; UPDATE a SET secret = 'x' WHERE id = 2; UPDATE a SET secret = 'y', note = 'z';"
        "INSERT INTO b (secret, id) VALUES ('new', 100); DELETE FROM b WHERE id = 2; UPDATE c SET secret = ''",
        "shop",
    )
    check(follower, follower.run(), database)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 12))])
def test_patterns_and_definitions_that_change_under_kills(database: Database, seed: int) -> None:
    random = Random(seed)
    tables = random.choice([["shop.*"], ["shop.*", "!shop._*"]])
    excluded, masks = random.choice(PATTERNS)
    # rows by the earlier patterns may stay under another name: without the option the run stops at such a rename
    options: dict[str, list[Any]] = {**OPTIONS, "snapshot.mode": ["when_needed"]}
    follower = Follower(database, tables, random, options, excluded=excluded, masks=masks)
    follower.run()
    for step in range(1, 9):
        follower.excluded, follower.masks = random.choice([*PATTERNS, (follower.excluded, follower.masks)])
        for table in "abc":
            write(database, table, 100 * step)
        if random.random() < 0.4:
            place = random.choice(["FIRST", "AFTER id", ""])
            name = random.choice([f"secret{step}", f"c{step}"])
            change = f"ADD COLUMN {name} TEXT {place}"
            table = random.choice("abc")
            database.execute(f"ALTER TABLE {table} {change}", "shop")
            if random.random() < 0.5:
                alter_online(database, table, f"ADD COLUMN o{step} VARCHAR(60) DEFAULT 3 {place}")
        try:
            follower.run(kill=random.choice([0, 0.1]), batches=random.choice([1, 3, None]))
        except Killed:
            continue
    check(follower, follower.run(), database)
    follower.excluded, follower.masks = random.choice(PATTERNS)
    check(follower, follower.run(), database)


def test_other_patterns_copy_the_tables_that_they_concern_again(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(3), {"chunk-rows": [7]}, excluded=["shop.a.secret"])
    before = follower.run()
    write(database, "a", 100)
    follower.excluded = ["shop.b.secret"]
    after = follower.run()
    check(follower, after, database)
    assert read(str(after.source)).copy is None
    copied = {name for name, table in after.tables.items() if table.written != before.tables[name].written}
    assert copied == {"shop.a", "shop.b"}


def test_a_table_and_a_column_that_get_an_excluded_name(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(4), excluded=["shop.d.note", "shop.b.hidden"])
    follower.run()
    write(database, "a", 100)
    database.execute("RENAME TABLE a TO d; ALTER TABLE b RENAME COLUMN note TO hidden", "shop")
    write(database, "b", 200)
    write(database, "d", 200)
    check(follower, follower.run(), database, "bcd")


def test_a_column_that_is_not_excluded_any_more_lacks_its_values(database: Database) -> None:
    """The way out gives them to it."""
    follower = Follower(database, ["shop.*"], Random(5), excluded=["shop.a.secret", "shop.b.secret"])
    follower.run()
    database.execute("ALTER TABLE a RENAME COLUMN secret TO known", "shop")
    with pytest.raises(
        UnsupportedError, match="known: it was excluded as secret, and no row that was read has its values"
    ):
        follower.run()
    copy_again(follower, database, "a", "abc")

    database.execute("RENAME TABLE b TO d", "shop")
    table = follower.run().tables["shop.d"].table
    assert [column.name for column in table.columns] == ["id", "note"]
    write(database, "d", 100)
    with pytest.raises(
        UnsupportedError, match=r"shop\.d: column secret was excluded .*`changefeed snapshot … shop\.d`"
    ):
        follower.run()
    copy_again(follower, database, "d", "acd")


def copy_again(follower: Follower, database: Database, table: str, names: str) -> None:
    """Takes the way out of a run that stopped for values that are not known."""
    follower.pipeline = {"schema.change.behavior": "try_evolve"}
    follower.run()
    follower.pipeline = {}
    copy_requests.add(follower.requests, CopyRequest((("shop", table),)))
    check(follower, follower.run(), database, names)


def test_a_masked_column_follows_ddl(database: Database) -> None:
    masks = {
        "shop.a.note": "hash SHA-256",
        "shop.b.note": "truncate 5",
        "*.*.more": "asterisks 4",
        "shop.d.*": "hash MD5",
    }
    follower = Follower(database, ["shop.*"], Random(8), masks=masks | {"shop.d.id": "keep"})
    database.execute("INSERT INTO a VALUES (NULL, 200, NULL), ('x', 201, '')", "shop")
    follower.run()
    database.execute(
        "SET sql_mode = ''; ALTER TABLE a MODIFY note VARCHAR(80) NOT NULL DEFAULT 'n';"
        "ALTER TABLE a ADD COLUMN more VARCHAR(99) NOT NULL DEFAULT 'seven';"
        "ALTER TABLE b MODIFY note LONGTEXT CHARACTER SET utf8mb4, ADD COLUMN more CHAR(30); CREATE TABLE d LIKE c",
        "shop",
    )
    for table in "abcd":
        write(database, table, 300)
    check(follower, follower.run(), database, "abcd")


@pytest.mark.parametrize(
    "statement, why",
    [
        (
            "ALTER TABLE a RENAME COLUMN note TO known",
            "known: it is not masked under its new name, and rows .* mask of note",
        ),
        (
            "ALTER TABLE a DROP COLUMN tag, RENAME COLUMN secret TO tag",
            "tag: it is masked under its new name, and rows that were read are not",
        ),
        (
            "ALTER TABLE a DROP COLUMN tag, RENAME COLUMN note TO tag",
            "tag: it is masked in another way under its new name",
        ),
        (
            "DELETE FROM a; ALTER TABLE a MODIFY note INT; INSERT INTO a (id, note) VALUES (1, 1)",
            "masks note of shop.a, which is int",
        ),
        ("ALTER TABLE a MODIFY secret TEXT, ADD COLUMN more INT", None),
        ("ALTER TABLE a ADD UNIQUE KEY (tag(9)), DROP PRIMARY KEY", None),
        (
            "DELETE FROM a; ALTER TABLE a MODIFY tag VARCHAR(9) NOT NULL, DROP PRIMARY KEY, ADD UNIQUE KEY (tag);"
            "ALTER TABLE a DROP COLUMN tag",
            "tag of shop.a identifies its rows, and cannot be masked",
        ),
        ("RENAME TABLE a TO d", "secret: it is masked under its new name"),
    ],
)
def test_values_under_another_mask_are_not_known(database: Database, statement: str, why: str | None) -> None:
    database.execute("ALTER TABLE a ADD COLUMN tag TEXT", "shop")
    masks = {"shop.?.note": "hash SHA-256", "shop.?.tag": "truncate 3", "shop.d.secret": "asterisks 1"}
    follower = Follower(database, ["shop.*"], Random(9), masks=masks)
    follower.run()
    database.execute(statement, "shop")
    if why is None:
        check(follower, follower.run(), database)
        return
    with pytest.raises((UnsupportedError, ConfigError), match=why) as caught:
        follower.run()
    if "try_evolve" in str(caught.value):
        copy_again(follower, database, "d" if "d" in statement[-2:] else "a", "bcd" if "d" in statement[-2:] else "abc")


def test_signals_are_read_whatever_is_excluded(database: Database) -> None:
    database.execute("CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048))", "shop")
    options = {"signal-table": ["shop.signals"]}
    rules = ["*.*.data", "*.*.type", "*.*.secret"]
    follower = Follower(database, ["shop.*"], Random(11), options, excluded=rules, masks={"*.*.note": "asterisks 1"})
    follower.run()
    database.execute("SET sql_log_bin = 0; UPDATE a SET note = NULL", "shop")
    data = '{"data-collections": ["shop.a"]}'
    database.execute(f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{data}')", "shop")
    check(follower, follower.run(), database, [*"abc", "signals"])


def test_a_text_that_is_invalid_is_masked(database: Database) -> None:
    """Its bytes would stand beside the row otherwise."""
    follower = Follower(database, ["shop.a"], Random(10), masks={"shop.a.note": "hash SHA-256"})
    database.execute("ALTER TABLE a MODIFY note TEXT CHARACTER SET sjis; SET NAMES binary;", "shop")
    database.execute("SET sql_mode = ''; INSERT INTO a VALUES ('', 400, X'8140'), ('', 401, X'61FF')", "shop")
    state = follower.run()
    database.execute("SET sql_mode = ''; INSERT INTO a VALUES ('', 402, X'61FF')", "shop")
    state = follower.run()
    rows = {row["id"]: row["note"] for row in follower.storage.tables.rows(state.tables["shop.a"].path)}
    assert all(rows[number] is not None and len(rows[number]) == 64 for number in (400, 401, 402))
    assert rows[401] == rows[402]


def test_what_identifies_rows_cannot_be_excluded(database: Database) -> None:
    with pytest.raises(ConfigError, match=r"excludes id of shop\.a, which identifies .* add `!shop\.a\.id` behind"):
        Follower(database, ["shop.*"], Random(6), excluded=["shop.a.*"]).run()
    database.execute("CREATE TABLE e (a INT, b INT)", "shop")
    with pytest.raises(ConfigError, match=r"leaves no column of shop\.e: leave the table out of source\.tables"):
        Follower(database, ["shop.e"], Random(6), excluded=["shop.e.*"]).run()
    follower = Follower(database, ["shop.*"], Random(6), excluded=["shop.e.b"])
    follower.run()
    database.execute("ALTER TABLE e ADD PRIMARY KEY (b); INSERT INTO e VALUES (1, 1)", "shop")
    with pytest.raises(ConfigError, match=r"excludes b of shop\.e, which identifies"):
        follower.run()
    with pytest.raises(ConfigError, match=r"masks id of shop\.a, which identifies .* add `shop\.a\.id: keep` behind"):
        Follower(database, ["shop.a"], Random(6), masks={"shop.a.*": "asterisks 1"}).run()
    database.execute("ALTER TABLE a ADD COLUMN n BIGINT", "shop")
    with pytest.raises(ConfigError, match=r"masks n of shop\.a, which is bigint, and no text: exclude it, or add"):
        Follower(database, ["shop.a"], Random(6), masks={"shop.a.*": "asterisks 1", "*.*.id": "keep"}).run()


def test_a_key_in_the_log_is_not_excluded(database: Database) -> None:
    """The table is another one by the time at which the run begins."""
    follower = Follower(database, ["shop.*"], Random(7), excluded=["shop.e.b"])
    database.execute("CREATE TABLE e (a INT, b INT)", "shop")
    follower.run()
    database.execute("ALTER TABLE e ADD PRIMARY KEY (b); INSERT INTO e VALUES (1, 1); DROP TABLE e", "shop")
    with pytest.raises(UnsupportedError, match=r"excludes b of shop\.e, which identifies"):
        follower.run()


def test_a_pattern_that_matches_nothing_is_named(database: Database) -> None:
    source = open_changes(section(database, tables=["shop.*"], **{"exclude-columns": ["shop.a.secert", "shop.*.note"]}))
    try:
        plan = source.plan(None, None)
        assert plan is not None
        [note] = [n for n in source.compared(None, plan.after.text()).notes if "exclude-columns" in n]
    finally:
        source.close()
    assert note.startswith("source.exclude-columns: 'shop.a.secert' matches no column of a captured table")
