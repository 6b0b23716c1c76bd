"""Values of existing rows after DDL that changes the type of a column, or forbids NULL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from tests.pipeline.kit.debezium_made import MadeLog, Pipeline, applied
from tests.pipeline.kit.record_runs import field_run

BOTH = pytest.mark.parametrize("consistency", ["transaction", "key"])


def table(columns: str, *rows: dict[str, Any]) -> MadeLog:
    """A table with rows; `tail` separates the CREATE from the rows in another step."""
    return (
        MadeLog()
        .ddl(f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {columns})")
        .rows(*({"id": number} | row for number, row in enumerate(rows, 1)))
    )


def column(pipe: Pipeline, name: str = "c") -> list[Any]:
    return [row[name] for row in pipe.rows()]


@BOTH
@pytest.mark.parametrize(
    "old, value, new, wanted",
    [
        ("INT", 300, "TINYINT", 127),
        ("INT", -300, "TINYINT UNSIGNED", 0),
        ("BIGINT", 2**40, "DECIMAL(3,1)", Decimal("99.9")),
        ("DOUBLE", 2.5, "INT", 2),
        ("DOUBLE", 1e30, "INT", 2**31 - 1),
        ("VARCHAR(8)", "orange", "VARCHAR(4)", "oran"),
        ("VARCHAR(8)", "北京北京 ", "CHAR(3)", "北京北"),
        ("ENUM('aa','bb')", "aa", "ENUM('bb','cc')", ""),
        ("SET('x','y')", "x,y", "SET('y')", "y"),
        ("VARBINARY(4)", "YWJjZA==", "VARBINARY(2)", b"ab"),
        ("VARBINARY(4)", "YWI=", "BINARY(3)", b"ab\0"),
        ("DATETIME(3)", 1764000000500, "DATETIME", dt.datetime(2025, 11, 24, 16, 0, 1)),
        ("DATETIME(3)", 1764000000500, "DATE", dt.date(2025, 11, 24)),
        ("DATETIME(3)", 1764000000500, "VARCHAR(30)", "2025-11-24 16:00:00.500"),
        ("DATE", 20000, "INT", 20241004),
        ("TIME", 3_600_000_000, "VARCHAR(9)", "01:00:00"),
        ("YEAR", 2024, "CHAR(4)", "2024"),
        ("INT", 69, "YEAR", 2069),
        ("SMALLINT UNSIGNED ZEROFILL", 25, "VARCHAR(10)", "00025"),
        ("DECIMAL(10,2)", "BNI=", "VARCHAR(9)", "12.34"),
        ("FLOAT", 0.1, "VARCHAR(9)", "0.1"),
        ("ENUM('a','b')", "b", "INT", 2),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "é", "BLOB", "é".encode()),
        ("VARCHAR(9) CHARACTER SET latin1", "é", "VARBINARY(9)", b"\xe9"),
        ("VARBINARY(9)", "w6k=", "TEXT CHARACTER SET utf8mb4", "é"),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "é北", "VARCHAR(9) CHARACTER SET latin1", "é?"),
    ],
)  # fmt: skip
def test_values_are_those_of_the_server(old: str, value: Any, new: str, wanted: Any, consistency: str) -> None:
    log = table(f"c {old}", {"c": value}, {"c": None}).ddl(f"ALTER TABLE t MODIFY c {new}")
    assert column(applied(log, consistency=consistency)) == [wanted, None]


@BOTH
@pytest.mark.parametrize(
    "old, new, wanted",
    [
        ("INT", "INT NOT NULL", 0),
        ("INT", "BIGINT NOT NULL DEFAULT 7", 0),
        ("VARCHAR(9)", "VARCHAR(9) NOT NULL", ""),
        ("ENUM('a','b')", "ENUM('a','b') NOT NULL", ""),
        ("BINARY(2)", "BINARY(2) NOT NULL", b"\0\0"),
        ("DECIMAL(5,2)", "DECIMAL(6,1) NOT NULL", Decimal("0.0")),
        ("TIME(3)", "TIME(3) NOT NULL", "00:00:00.000"),
        ("DATE", "DATE NOT NULL", None),
        ("DOUBLE", "DOUBLE NOT NULL", 0.0),
        ("YEAR", "YEAR NOT NULL", 0),
    ],
)
def test_null_becomes_the_implicit_default(old: str, new: str, wanted: Any, consistency: str) -> None:
    log = table(f"c {old}", {"c": None}).ddl(f"ALTER TABLE t MODIFY c {new}")
    assert column(applied(log, consistency=consistency)) == [wanted]


def test_null_in_a_timestamp_that_forbids_it_is_known_only_upstream() -> None:
    log = table("c TIMESTAMP NULL", {"c": None}).ddl("ALTER TABLE t MODIFY c TIMESTAMP NOT NULL")
    with pytest.raises(UnsupportedError, match="NULL becomes the time of the statement"):
        applied(log)
    pipe = applied(log, behavior="try_evolve")
    assert column(pipe) == [None]
    assert any("NULL becomes the time of the statement" in note for note in pipe.notes)


@BOTH
def test_a_null_that_becomes_a_number_is_known_only_upstream(consistency: str) -> None:
    """A server numbers the rows with NULL, in strict mode too, also where MODIFY names no key."""
    log = table("c INT, KEY (c)", {"c": None}, {"c": 5}).ddl("ALTER TABLE t MODIFY c INT NOT NULL AUTO_INCREMENT")
    with pytest.raises(UnsupportedError, match="the upstream numbered the rows with NULL in it"):
        applied(log, consistency=consistency)
    assert column(applied(log, consistency=consistency, behavior="try_evolve")) == [None, 5]


def test_a_key_that_is_numbered_is_refused_whatever_the_behavior() -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT, c INT)").rows({"id": None, "c": 1}, key=())
    log.ddl("ALTER TABLE t MODIFY id INT NOT NULL AUTO_INCREMENT PRIMARY KEY")
    for behavior in ("evolve", "try_evolve", "lenient"):
        with pytest.raises(UnsupportedError, match="id"):
            applied(log, behavior=behavior)


def test_a_zero_that_may_become_a_number_is_noted_once() -> None:
    log = table("c INT NOT NULL, KEY (c)", {"c": 0}, {"c": 5}).ddl("ALTER TABLE t MODIFY c INT NOT NULL AUTO_INCREMENT")
    log.ddl("ALTER TABLE t MODIFY c BIGINT NOT NULL AUTO_INCREMENT").ddl("ALTER TABLE t ADD d INT")
    pipe = applied(log)
    assert column(pipe) == [0, 5]
    assert [note for note in pipe.notes if "AUTO_INCREMENT" in note] == [
        "shop.t: column c becomes AUTO_INCREMENT: a row with 0 in it keeps 0, and has got a number upstream, unless the session "
        "had NO_AUTO_VALUE_ON_ZERO"
    ]
    empty = (
        MadeLog().ddl("CREATE TABLE t (id INT NOT NULL PRIMARY KEY)").ddl("ALTER TABLE t MODIFY id INT AUTO_INCREMENT")
    )
    assert not any("becomes" in note for note in applied(empty.rows({"id": 1})).notes)


def test_the_producers_charset_of_a_column_counts() -> None:
    after = "id INT NOT NULL PRIMARY KEY, c VARCHAR(9)"
    log = MadeLog().ddl(f"CREATE TABLE t ({after})", after=after)
    described = log.records[-1]
    described["value"] = described["value"].replace(b'"charsetName": null', b'"charsetName": "utf8mb4"')
    log.rows({"id": 1, "c": "é"}).ddl("ALTER TABLE t MODIFY c BLOB")
    assert column(applied(log)) == ["é".encode()]


def test_bytes_are_read_as_the_producer_defines_them_now() -> None:
    """A connector takes a binary MEDIUMTEXT for text; after another snapshot of the schema it sends base64."""
    text, known = (f"id INT NOT NULL PRIMARY KEY, c {kind}" for kind in ("MEDIUMTEXT", "MEDIUMBLOB"))
    log = MadeLog().ddl(f"CREATE TABLE t ({text}) CHARSET binary", after=text)
    described = log.records[-1]
    described["value"] = described["value"].replace(b'"charsetName": null', b'"charsetName": "binary"')
    log.rows({"id": 1, "c": "text"}).ddl("ALTER TABLE t ADD x INT", after=f"{known}, x INT").rows(
        {"id": 2, "c": "dGV4dA=="}
    )
    assert column(applied(log)) == [b"text", b"text"]


def test_text_of_an_unknown_charset_stops_before_it_becomes_bytes() -> None:
    log = table("c VARCHAR(9)", {"c": "é"}).ddl("ALTER TABLE t MODIFY c BLOB")
    with pytest.raises(UnsupportedError, match=r"varchar\(9\) to blob cannot be derived"):
        applied(log)


def test_a_column_added_again_keeps_the_nulls_that_lenient_kept() -> None:
    log = (
        table("c INT", {"c": 5})
        .ddl("ALTER TABLE t DROP c")
        .rows({"id": 2})
        .ddl("ALTER TABLE t ADD c INT NOT NULL DEFAULT 3")
    )
    assert column(applied(log, behavior="lenient")) == [5, None]


@pytest.mark.parametrize(
    "name, table_name, rows",
    [
        ("tidb-modify-shortens-text-and-members", "shop.tags", [
            (1, "oran", "", "y", b"ab", 5, Decimal("1.24")), (2, "kiwi", "bb", "y", b"ab", 5, Decimal("2.00")),
        ]),
        ("tidb-modify-int-to-tinyint-out-of-range", "shop.tags", [(1, "a", "aa", "x,y", b"abcd", 127, Decimal("1.237"))]),
    ],
)  # fmt: skip
def test_no_row_event_follows_a_modify_of_tidb_that_changes_values(
    name: str, table_name: str, rows: list[tuple[Any, ...]]
) -> None:
    assert field_run(name).rows(table_name) == rows


def test_a_number_is_text_as_the_server_prints_it() -> None:
    run = field_run("decimal-to-varchar")
    [table_name] = run.tables()
    assert [row[2] for row in run.rows(table_name)] == ["10.00", "20.00"]
