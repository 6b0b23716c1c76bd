"""Definitions of tables by the producer, by statements and by rows, with Debezium's JSON without schemas."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from tests.pipeline.kit.debezium_made import BOTH, STEPS, MadeLog, applied, refusal

WAYS_OUT = pytest.mark.parametrize("behavior", ["try_evolve", "lenient"])
BILLS = "id BIGINT UNSIGNED NOT NULL PRIMARY KEY, due DATE, amount DECIMAL(10,2), raw BLOB, at TIME, moment DATETIME(3)"
FIRST = {"id": 1, "due": 20000, "amount": "BNI=", "raw": "AAEC", "at": 3_600_000_000, "moment": 1764000000123}
SECOND = {"id": 2, "due": 20001, "amount": "BNM=", "raw": "AwQF", "at": 7_200_000_000, "moment": 1764000001000}
READ_FIRST = {
    "id": 1, "due": dt.date(2024, 10, 4), "amount": Decimal("12.34"), "raw": b"\0\1\2", "at": "01:00:00",
    "moment": dt.datetime(2025, 11, 24, 16, 0, 0, 123000),
}  # fmt: skip
READ_SECOND = {
    "id": 2, "due": dt.date(2024, 10, 5), "amount": Decimal("12.35"), "raw": b"\3\4\5", "at": "02:00:00",
    "moment": dt.datetime(2025, 11, 24, 16, 0, 1),
}  # fmt: skip


# Tables without rows.


@pytest.mark.heavy
@BOTH
@STEPS
@pytest.mark.parametrize(
    "first",
    [
        ["CREATE TABLE t ({})"],
        ["CREATE TABLE t (a INT)", "DROP TABLE t", "CREATE TABLE u ({})", "RENAME TABLE u TO t"],
    ],
)
@pytest.mark.parametrize(
    "items, alter, key, rows, wanted",
    [
        ("id INT NOT NULL PRIMARY KEY, k INT NOT NULL", "DROP PRIMARY KEY, ADD PRIMARY KEY (k)", ["k"],
         [{"id": 7, "k": 1}, {"id": 7, "k": 2}, {"id": 7, "k": 3}], None),
        ("id INT NOT NULL PRIMARY KEY, k INT NOT NULL", "DROP PRIMARY KEY", [],
         [{"id": 7, "k": 1}, {"id": 7, "k": 2}, {"id": 7, "k": 2}], None),
        ("id INT, k INT NOT NULL", "ADD PRIMARY KEY (k)", ["k"], [{"id": 7, "k": 1}, {"id": 7, "k": 2}], None),
        ("id INT PRIMARY KEY, e ENUM('a') NOT NULL, d DATETIME, m MEDIUMINT, s SET('x')",
         "MODIFY e ENUM('a','b') NOT NULL, MODIFY d DATETIME(6), MODIFY m INT, MODIFY s SET('x','y')", ["id"],
         [{"id": 1, "e": "b", "d": 1764000000123456, "m": 2000000000, "s": "x,y"}],
         [{"id": 1, "e": "b", "d": dt.datetime(2025, 11, 24, 16, 0, 0, 123456), "m": 2000000000, "s": "x,y"}]),
        ("id INT PRIMARY KEY, a INT", "ADD n BIGINT NOT NULL AUTO_INCREMENT UNIQUE, ADD g INT AS (a + 1) STORED", ["id"],
         [{"id": 1, "a": 1, "n": 5, "g": 2}], None),
        ("id INT PRIMARY KEY, a INT", "MODIFY a DATE, ADD c DATETIME DEFAULT CURRENT_TIMESTAMP", ["id"],
         [{"id": 1, "a": 20000, "c": None}], [{"id": 1, "a": dt.date(2024, 10, 4), "c": None}]),
        ("id INT PRIMARY KEY, a INT, b INT", "RENAME COLUMN a TO x, DROP b, MODIFY id BIGINT", ["id"],
         [{"id": 2**40, "x": 1}], None),
    ],
)  # fmt: skip
def test_rows_have_the_definition_that_their_table_has_then(
    items: str, alter: str, key: list[str], rows: list[dict[str, Any]], wanted: Any, first: list[str], batch: int | None,
    consistency: str,
) -> None:  # fmt: skip
    log = MadeLog()
    for text in first:
        log.ddl(text.format(items), "u" if " u " in text else "t")
    log.ddl(f"ALTER TABLE t {alter}").rows(*rows, key=key)
    assert applied(log, batch=batch, consistency=consistency).rows() == (wanted or rows)


@BOTH
@STEPS
def test_an_emptied_table_gets_rows_under_its_later_definition(batch: int | None, consistency: str) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a'))").rows({"id": 1, "e": "a"})
    log.ddl("TRUNCATE t").ddl(
        "ALTER TABLE t MODIFY e ENUM('a','b'), DROP PRIMARY KEY, ADD n INT AUTO_INCREMENT PRIMARY KEY"
    )
    log.rows({"id": 1, "e": "b", "n": 1}, {"id": 1, "e": "a", "n": 2}, key=["n"])
    pipe = applied(log, batch=batch, consistency=consistency)
    assert pipe.rows() == [{"id": 1, "e": "a", "n": 2}, {"id": 1, "e": "b", "n": 1}]


@BOTH
@STEPS
def test_rows_between_statements_have_the_earlier_definition(batch: int | None, consistency: str) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, k INT NOT NULL)").rows({"id": 1, "k": 1})
    log.ddl("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (k)").rows({"id": 1, "k": 2}, key=["k"])
    log.ddl("ALTER TABLE t MODIFY id BIGINT").rows({"id": 2**40, "k": 1}, key=["k"])
    assert applied(log, batch=batch, consistency=consistency).rows() == [{"id": 1, "k": 2}, {"id": 2**40, "k": 1}]


# Refused parts.


@pytest.mark.heavy
@BOTH
@WAYS_OUT
@STEPS
@pytest.mark.parametrize(
    "alter, column, old, new, read",
    [
        (
            "ADD made DATETIME DEFAULT CURRENT_TIMESTAMP",
            "made",
            None,
            1764000001000,
            dt.datetime(2025, 11, 24, 16, 0, 1),
        ),
        ("ADD made DATE NOT NULL DEFAULT (CURDATE()), ADD INDEX (due)", "made", None, 20002, dt.date(2024, 10, 6)),
        ("ADD made DECIMAL(8,1) DEFAULT (RAND())", "made", None, "BNM=", Decimal("123.5")),
        ("ADD made BINARY(2) DEFAULT (UUID_SHORT())", "made", None, "AQI=", b"\1\2"),
    ],
)
def test_a_refused_column_is_null_in_old_rows_and_all_others_keep_their_types(
    alter: str, column: str, old: Any, new: Any, read: Any, batch: int | None, behavior: str, consistency: str
) -> None:
    log = (
        MadeLog()
        .ddl(f"CREATE TABLE t ({BILLS})")
        .rows(FIRST)
        .ddl(f"ALTER TABLE t {alter}")
        .rows(SECOND | {column: new})
    )
    assert "Set schema.change.behavior to `try_evolve` to go on without it" in refusal(log)
    pipe = applied(log, batch=batch, consistency=consistency, behavior=behavior)
    assert pipe.rows() == [READ_FIRST | {column: old}, READ_SECOND | {column: read}]


@WAYS_OUT
@pytest.mark.parametrize(
    "alter, new, kind, old, read",
    [
        ("MODIFY n DATE", 20001, "longtext", "5", "2024-10-05"),
        ("MODIFY n DECIMAL(5,2) AS (id / 3) STORED", "BNM=", "decimal(5,2)", None, Decimal("12.35")),
    ],
)
def test_a_column_whose_values_cannot_be_converted_keeps_them_and_new_ones_have_their_meaning(
    alter: str, new: Any, kind: str, old: Any, read: Any, behavior: str
) -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS}, n INT)").rows(FIRST | {"n": 5})
    log.ddl(f"ALTER TABLE t {alter}").rows(SECOND | {"n": new})
    pipe = applied(log, behavior=behavior)
    assert pipe.types()["n"] == kind
    assert pipe.rows() == [READ_FIRST | {"n": old}, READ_SECOND | {"n": read}]
    log.ddl("ALTER TABLE t ADD z INT NOT NULL DEFAULT 3")
    assert pipe.run(log).rows() == [READ_FIRST | {"n": old, "z": 3}, READ_SECOND | {"n": read, "z": 3}]


@WAYS_OUT
def test_a_column_of_which_no_type_holds_old_and_new_values_is_null_in_old_rows(behavior: str) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, g POINT, d DATE)").rows({"id": 1, "g": None, "d": 20000})
    log.ddl("ALTER TABLE t MODIFY g DATE").rows({"id": 2, "g": 20001, "d": 20001})
    pipe = applied(log, behavior=behavior)
    assert pipe.rows() == [
        {"id": 1, "g": None, "d": dt.date(2024, 10, 4)},
        {"id": 2, "g": dt.date(2024, 10, 5), "d": dt.date(2024, 10, 5)},
    ]
    assert pipe.notes[1] == "shop.t: existing rows are NULL in g; earlier versions of the table have the values"


@WAYS_OUT
def test_the_parts_of_a_statement_that_apply_are_applied(behavior: str) -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS})").rows(FIRST)
    log.ddl("ALTER TABLE t DROP nowhere, ADD made DATE, MODIFY hidden TIME").rows(SECOND | {"made": 20002, "hidden": 0})
    assert "has no column nowhere" in refusal(log)
    pipe = applied(log, behavior=behavior)
    assert pipe.rows() == [
        READ_FIRST | {"made": None, "hidden": None},
        READ_SECOND | {"made": dt.date(2024, 10, 6), "hidden": "00:00:00"},
    ]


@WAYS_OUT
def test_a_statement_that_cannot_be_read_leaves_the_types(behavior: str) -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS})").rows(FIRST).ddl("ALTER TABLE t FROBNICATE due").rows(SECOND)
    assert "`try_evolve`" in refusal(log)
    assert applied(log, behavior=behavior).rows() == [READ_FIRST, READ_SECOND]


def test_ignored_statements_leave_the_types_of_create_table() -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS})").rows(FIRST).ddl("ALTER TABLE t ADD x INT").rows(SECOND | {"x": 1})
    pipe = applied(log, behavior="ignore")
    assert pipe.rows() == [READ_FIRST | {"x": None}, READ_SECOND | {"x": 1}]


def test_a_column_without_ddl_has_the_type_of_its_first_value() -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS})").rows(FIRST | {"v": None}).rows(SECOND | {"v": "q"})
    for batch in (None, 1):
        pipe = applied(log, batch=batch)
        assert pipe.rows() == [READ_FIRST | {"v": None}, READ_SECOND | {"v": "q"}]


# Tables whose CREATE TABLE is not in the log.


@BOTH
@STEPS
def test_columns_that_alter_declares_have_their_types_in_a_table_without_create(
    batch: int | None, consistency: str
) -> None:
    log = MadeLog().rows({"id": 1, "t": "a"}).ddl("ALTER TABLE t ADD due DATE, ADD amount DECIMAL(10,2), ADD raw BLOB")
    log.rows({"id": 2, "t": "b", "due": 20001, "amount": "BNM=", "raw": "AwQF"})
    assert applied(log, batch=batch, consistency=consistency).rows() == [
        {"id": 1, "t": "a", "due": None, "amount": None, "raw": None},
        {"id": 2, "t": "b", "due": dt.date(2024, 10, 5), "amount": Decimal("12.35"), "raw": b"\3\4\5"},
    ]


@BOTH
@STEPS
def test_the_producers_definition_defines_a_table_without_create(batch: int | None, consistency: str) -> None:
    log = MadeLog().ddl("ALTER TABLE t ADD moment DATETIME(3)", after=BILLS).rows(FIRST, SECOND).row(None, FIRST)
    pipe = applied(log, batch=batch, consistency=consistency)
    assert pipe.rows() == [READ_SECOND]
    assert pipe.types() == {
        "id": "bigint unsigned", "due": "date", "amount": "decimal(10,2)", "raw": "blob", "at": "time", "moment": "datetime(3)"
    }  # fmt: skip


def test_the_producers_definition_declares_the_columns_of_an_inferred_table_whose_values_stay_as_they_are() -> None:
    log = MadeLog().rows({"id": 1, "s": "a", "due": 20000, "n": None})
    log.ddl("ALTER TABLE t ADD x INT", after="id BIGINT PRIMARY KEY, s VARCHAR(9), due DATE, n DATE, x INT")
    log.rows({"id": 2, "s": "b", "due": 20001, "n": 20001, "x": 1})
    pipe = applied(log)
    assert pipe.types() == {"id": "bigint", "s": "varchar(9)", "due": "bigint", "n": "date", "x": "int"}
    assert pipe.rows() == [
        {"id": 1, "s": "a", "due": 20000, "n": None, "x": None},
        {"id": 2, "s": "b", "due": 20001, "n": dt.date(2024, 10, 5), "x": 1},
    ]


def test_an_index_statement_defines_a_table_without_create() -> None:
    log = MadeLog().ddl("CREATE INDEX i ON t (due)", after=BILLS).rows(FIRST)
    assert applied(log).rows() == [READ_FIRST]


# Statements that the producer's definition settles.


def test_create_like_an_unknown_table_has_the_producers_definition() -> None:
    log = MadeLog().ddl("CREATE TABLE t LIKE nowhere", after=BILLS).rows(FIRST)
    assert applied(log).rows() == [READ_FIRST]


def test_create_select_has_the_producers_definition() -> None:
    log = MadeLog().ddl("CREATE TABLE t AS SELECT * FROM x", after=BILLS).rows(FIRST)
    assert applied(log).rows() == [READ_FIRST]


@pytest.mark.parametrize(
    "after, row, old, new",
    [
        (BILLS + ", x DATE", {"x": 20001}, {"x": None}, {"x": dt.date(2024, 10, 5)}),
        (BILLS + ", x DATE DEFAULT NULL", {"x": 20001}, {"x": None}, {"x": dt.date(2024, 10, 5)}),
        (BILLS.replace("(10,2)", "(12,4)"), {}, {}, {"amount": Decimal("0.1235")}),
        (BILLS, {}, {}, {}),
    ],
)
def test_an_unreadable_statement_is_settled_by_the_difference(after: str, row: Any, old: Any, new: Any) -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS})").rows(FIRST)
    log.ddl("ALTER TABLE t FROBNICATE 1", after=after).rows(SECOND | row)
    pipe = applied(log)
    assert pipe.rows() == [READ_FIRST | old, READ_SECOND | new]
    assert pipe.notes == [
        "shop.t: settled by the producer's definition (DDL that cannot be read: expected a change of the table, found "
        "'FROBNICATE' at character 14 of 'ALTER TABLE t FROBNICATE 1')"
    ]


def test_columns_that_are_gone_after_an_unreadable_statement_are_dropped() -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS}, x INT)").rows(FIRST | {"x": 1})
    log.ddl("ALTER TABLE t FROBNICATE 1", after=BILLS).rows(SECOND)
    assert applied(log).rows() == [READ_FIRST, READ_SECOND]
    lenient = applied(log, behavior="lenient")
    assert lenient.rows() == [READ_FIRST | {"x": 1}, READ_SECOND | {"x": None}]


@pytest.mark.parametrize(
    "statement, after, why",
    [
        ("FROBNICATE 1", "y INT", "lacks x and has y, which may be a new name"),
        ("FROBNICATE 1", "x INT, y INT NOT NULL", "column y: only the upstream has the values of existing rows"),
        ("FROBNICATE 1", "x INT, y INT DEFAULT 3", "column y: only the upstream has the values of existing rows"),
        ("FROBNICATE 1", "x DATE", "column x: its values after the change of int to date cannot be derived"),
        ("FROBNICATE AS (1)", "x INT, y INT", "cannot be read"),
        ("FROBNICATE PARTITION p", "x INT", "cannot be read"),
    ],
)
def test_an_unreadable_statement_with_more_than_one_explanation_is_refused(
    statement: str, after: str, why: str
) -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({BILLS}, x INT)").rows(FIRST | {"x": 1})
    log.ddl(f"ALTER TABLE t {statement}", after=f"{BILLS}, {after}")
    message = refusal(log)
    assert why in message
    assert message.endswith("Set schema.change.behavior to `try_evolve` to go on without it")
    log.rows(SECOND | ({"y": 2} if " y " in f", {after}" else {}) | ({} if after == "y INT" else {"x": 7}))
    for behavior in ("try_evolve", "lenient"):
        pipe = applied(log, behavior=behavior)
        assert [{name: row[name] for name in READ_FIRST} for row in pipe.rows()] == [READ_FIRST, READ_SECOND]
        assert pipe.rows()[0]["x"] in (1, "1")


# The producer's definition beside the statement's.


def test_the_producers_type_counts_and_the_difference_is_noted() -> None:
    """The character set of the table, which the statement does not repeat, makes texts binary."""
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY)", after="id INT PRIMARY KEY").rows({"id": 1})
    log.ddl("ALTER TABLE t ADD lang VARCHAR(9)", after="id INT PRIMARY KEY, lang VARBINARY(9)").rows(
        {"id": 2, "lang": "ZW4="}
    )
    pipe = applied(log)
    assert pipe.rows() == [{"id": 1, "lang": None}, {"id": 2, "lang": b"en"}]
    assert pipe.notes == ["shop.t: the producer's definition differs: lang is varbinary(9), not varchar(9)"]


def test_details_that_the_producer_lacks_are_those_of_the_statement() -> None:
    log = MadeLog().ddl(
        "CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(6), e ENUM('a','b'), v VARCHAR(9))",
        after="id INT PRIMARY KEY, d DATETIME, e ENUM('a','b'), v VARCHAR(9)",
    )
    pipe = applied(log.rows({"id": 1, "d": 1764000000123456, "e": "b", "v": "x"}))
    assert pipe.types() == {"id": "int", "d": "datetime(6)", "e": "enum('a','b')", "v": "varchar(9)"}
    assert pipe.notes == []


def test_a_timestamp_that_the_server_makes_not_null_has_unknown_values() -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY)").rows({"id": 1})
    log.ddl("ALTER TABLE t ADD seen TIMESTAMP", after="id INT PRIMARY KEY, seen TIMESTAMP NOT NULL")
    assert "column seen: a TIMESTAMP without NULL, NOT NULL or DEFAULT is NOT NULL" in refusal(log)
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY)").rows({"id": 1})
    log.ddl("ALTER TABLE t ADD seen TIMESTAMP", after="id INT PRIMARY KEY, seen TIMESTAMP NULL")
    assert applied(log).rows() == [{"id": 1, "seen": None}]


def test_a_column_of_the_primary_key_is_not_null_whatever_the_producer_states() -> None:
    """MariaDB takes `NULL` of such a column without a word, and the connector believes it."""
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, seen TIMESTAMP NULL)").rows({"id": 1, "seen": None})
    log.ddl(
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, seen), MODIFY seen TIMESTAMP NULL",
        after="id INT PRIMARY KEY, seen TIMESTAMP NULL",
    )
    assert "column seen: NULL becomes the time of the statement, and no row event contains the values" in refusal(log)


def test_rows_keep_the_columns_that_the_connector_has_not_changed() -> None:
    """The connector sends the statement, but has not read it: its rows and its definition have the old columns."""
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)").rows({"id": 1, "a": 1, "b": 1})
    log.ddl(
        "/*!40000 ALTER TABLE t CHANGE a x INT, DROP b, ADD c INT DEFAULT 3 */",
        after="id INT PRIMARY KEY, a INT, b INT",
    )
    pipe = applied(log.rows({"id": 2, "a": 2, "b": 2}))
    assert pipe.rows() == [{"id": 1, "a": 1, "b": 1, "c": 3}, {"id": 2, "a": 2, "b": 2, "c": None}]
    assert pipe.notes == ["shop.t: the producer's definition differs: it still has a; it still has b; it lacks c"]


def test_a_definition_of_an_engine_that_lost_a_column_does_not_count() -> None:
    """Debezium's engine renames one column after another, and so loses one of two that swap their names."""
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, a DATE, b TIME)").rows({"id": 1, "a": 20000, "b": 0})
    log.ddl("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", after="id INT PRIMARY KEY, a DATE")
    pipe = applied(log.rows({"id": 2, "a": 0, "b": 20001}))
    assert pipe.rows() == [
        {"id": 1, "b": dt.date(2024, 10, 4), "a": "00:00:00"}, {"id": 2, "b": dt.date(2024, 10, 5), "a": "00:00:00"}
    ]  # fmt: skip
    assert pipe.notes == ["shop.t: the producer's definition differs: it lacks b, and does not count"]


def test_a_definition_of_an_engine_that_confused_two_columns_does_not_count() -> None:
    """In the other order, Debezium's engine gives both columns the definition of one."""
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, a DATE, b TIME)").rows({"id": 1, "a": 20000, "b": 0})
    log.ddl("ALTER TABLE t RENAME COLUMN b TO a, RENAME COLUMN a TO b", after="id INT PRIMARY KEY, b TIME, a TIME")
    pipe = applied(log)
    assert pipe.rows() == [{"id": 1, "b": dt.date(2024, 10, 4), "a": "00:00:00"}]
    assert pipe.notes == [
        "shop.t: the producer's definition differs: it takes b for the column of that name before, and does not count"
    ]


@pytest.mark.parametrize("after, keys", [("a INT NOT NULL PRIMARY KEY, b INT NOT NULL", ("a",)), ("a INT, b INT", ())])
def test_a_statement_that_cannot_be_read_may_change_the_key(after: str, keys: tuple[str, ...]) -> None:
    log = (
        MadeLog()
        .ddl("CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (b))")
        .rows({"a": 1, "b": 1}, key=["b"])
    )
    pipe = applied(log.ddl("ALTER TABLE t FROBNICATE b", after=after))
    assert pipe.storage.published()[-1].tables["shop.t"].table.keys == keys


def test_renamed_columns_keep_their_values_and_their_place() -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)").rows({"id": 1, "a": 1, "b": 2})
    log.ddl(
        "ALTER TABLE t CHANGE a b INT, CHANGE b a INT, ADD c INT FIRST", after="c INT, id INT PRIMARY KEY, b INT, a INT"
    )
    pipe = applied(log)
    assert pipe.rows() == [{"c": None, "id": 1, "b": 1, "a": 2}]
    assert list(pipe.types()) == ["c", "id", "b", "a"]
    assert pipe.notes == []


# Virtual columns, which Debezium's rows carry.


@BOTH
@STEPS
@pytest.mark.parametrize("is_stated", [False, True])
def test_a_virtual_column_has_its_upstream_place_and_later_statements_may_name_it(
    is_stated: bool, batch: int | None, consistency: str
) -> None:
    def after(items: str) -> str | None:
        return items if is_stated else None

    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, b INT)", after=after("id INT PRIMARY KEY, b INT"))
    log.rows({"id": 1, "b": 2})
    log.ddl(
        "ALTER TABLE t ADD v DATE AS (DATE'2024-10-05') VIRTUAL, ADD d INT",
        after=after("id INT PRIMARY KEY, b INT, v DATE, d INT"),
    )
    log.rows({"id": 3, "b": 3, "v": 20001, "d": None})
    log.ddl("ALTER TABLE t ADD c INT AFTER v", after=after("id INT PRIMARY KEY, b INT, v DATE, c INT, d INT"))
    log.ddl("ALTER TABLE t RENAME COLUMN v TO w", after=after("id INT PRIMARY KEY, b INT, w DATE, c INT, d INT"))
    log.rows({"id": 4, "b": 4, "w": 20002, "c": 5, "d": 6})
    pipe = applied(log, batch=batch, consistency=consistency, behavior="try_evolve")
    assert list(pipe.types()) == ["id", "b", "w", "c", "d"]
    assert pipe.rows() == [
        {"id": 1, "b": 2, "w": None, "c": None, "d": None},
        {"id": 3, "b": 3, "w": dt.date(2024, 10, 5), "c": None, "d": None},
        {"id": 4, "b": 4, "w": dt.date(2024, 10, 6), "c": 5, "d": 6},
    ]
    log.ddl("ALTER TABLE t DROP w, DROP c", after=after("id INT PRIMARY KEY, b INT, d INT"))
    assert list(pipe.run(log).types()) == ["id", "b", "d"]


@STEPS
@pytest.mark.parametrize("more, name", [("", "t"), (", RENAME TO u", "u")])
@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
@pytest.mark.parametrize("is_stated", [False, True])
def test_a_generated_column_that_is_added_to_rows_is_refused(
    is_stated: bool, kind: str, more: str, name: str, batch: int | None
) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, b INT)").rows({"id": 1, "b": 2})
    log.ddl(
        f"ALTER TABLE t ADD v INT AS (b) {kind}{more}", name, "id INT PRIMARY KEY, b INT, v INT" if is_stated else None
    )
    with pytest.raises(UnsupportedError, match="column v: it is computed from other columns"):
        applied(log, batch=batch)


@STEPS
def test_a_time_that_a_statement_sets_in_existing_rows_is_its_own(batch: int | None) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, b INT)").rows({"id": 1, "b": 2})
    log.ddl("ALTER TABLE t ADD made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, DROP b")
    [row] = applied(log, batch=batch).rows()
    assert row["made"] == dt.datetime(2025, 11, 24, 16, 0, tzinfo=dt.UTC)


@STEPS
@pytest.mark.parametrize("is_stated", [False, True])
def test_a_virtual_column_of_a_new_table_has_the_values_of_its_rows(is_stated: bool, batch: int | None) -> None:
    items = "id INT PRIMARY KEY, b VARCHAR(5), v VARCHAR(9) AS (CONCAT(b, 'x')) VIRTUAL, z INT"
    log = MadeLog().ddl(f"CREATE TABLE t ({items})", after=items if is_stated else None)
    log.rows({"id": 1, "b": None, "v": None, "z": 1}, {"id": 2, "b": "q", "v": "qx", "z": 2})
    log.ddl("RENAME TABLE t TO u").rows({"id": 3, "b": "r", "v": "rx", "z": 3}, table="u")
    log.ddl("ALTER TABLE u MODIFY v VARCHAR(9) AS (CONCAT(b, 'x')) VIRTUAL, ADD c INT AFTER v", "u")
    pipe = applied(log, batch=batch)
    assert list(pipe.types("shop.u")) == ["id", "b", "v", "c", "z"]
    assert [row["v"] for row in pipe.rows("shop.u")] == [None, "qx", "rx"]
