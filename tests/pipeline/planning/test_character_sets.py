"""Character sets that the engine takes for others, and columns that it takes for NOT NULL."""

from __future__ import annotations

import pytest

from tests.pipeline.kit.debezium_made import BOTH, MadeLog, applied, refusal

LATIN = "CREATE TABLE t (id INT PRIMARY KEY) DEFAULT CHARSET={}"
MISREAD = (
    "column c: the server stores it in the character set {}, but the producer reads it as {}, so that rows do not contain the "
    "server's text"
)


@BOTH
@pytest.mark.parametrize(
    "alter",
    [
        "ADD c VARCHAR(5), DEFAULT CHARSET {}",
        "CHARSET={}, ADD c VARCHAR(5)",
        "CHARSET={}; ALTER TABLE t ADD c VARCHAR(5)",
        "CHARSET={}; CREATE TABLE u LIKE t; DROP TABLE t; RENAME TABLE u TO t; ALTER TABLE t ADD c TEXT",
    ],
)
@pytest.mark.parametrize(
    "before, after", [("latin1", "utf8mb4"), ("latin1", "binary"), ("binary", "utf8mb4"), ("utf8mb4", "latin1")]
)
def test_a_character_set_that_the_engine_has_missed_stops(
    before: str, after: str, alter: str, consistency: str
) -> None:
    log = MadeLog().ddl(LATIN.format(before), after="id INT PRIMARY KEY").rows({"id": 1})
    stated = "VARBINARY(5)" if before == "binary" else "VARCHAR(5)"
    *others, last = f"ALTER TABLE t {alter.format(after)}".split("; ")
    for text in others:
        log.ddl(text, "u" if " u" in text else "t")
    log.ddl(last, after=f"id INT PRIMARY KEY, c {stated}", c=before)
    assert MISREAD.format(after, before) in refusal(log, consistency=consistency)
    assert any(MISREAD.format(after, before) in note for note in applied(log, behavior="try_evolve").notes)


@pytest.mark.parametrize(
    "before, alter, stated",
    [
        ("latin1", "ADD c VARCHAR(5) CHARACTER SET utf8mb4, DEFAULT CHARSET binary", "utf8mb4"),
        ("utf8mb3", "ADD c VARCHAR(5), DEFAULT CHARSET utf8mb4", "utf8mb3"),
        ("latin1", "ADD c VARCHAR(5), DEFAULT CHARSET ascii", "latin1"),
        ("latin1", "ADD c VARCHAR(5), CONVERT TO CHARACTER SET utf8mb4", "utf8mb4"),
        ("latin1", "ADD c ENUM('a'), DEFAULT CHARSET utf8mb4", "latin1"),
        ("latin1", "ADD c INT, DEFAULT CHARSET utf8mb4", "latin1"),
    ],
)
def test_a_character_set_in_which_text_reads_the_same_does_not_stop(before: str, alter: str, stated: str) -> None:
    log = MadeLog().ddl(LATIN.format(before), after="id INT PRIMARY KEY").rows({"id": 1})
    kind = alter.split(" ")[2].rstrip(",")
    log.ddl(f"ALTER TABLE t {alter}", after=f"id INT PRIMARY KEY, c {kind}", c=stated)
    assert applied(log).rows() == [{"id": 1, "c": None}]


def test_a_collation_of_a_new_table_that_the_engine_has_missed_stops() -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(5)) COLLATE=utf8mb4_unicode_ci"
    log = MadeLog().ddl(create, after="id INT PRIMARY KEY, c VARCHAR(5)", c="latin1").rows({"id": 1, "c": "Ã¼"})
    assert MISREAD.format("utf8mb4", "latin1") in refusal(log)
    pipe = applied(log, behavior="try_evolve")
    assert pipe.rows() == [{"id": 1, "c": "Ã¼"}]
    assert any(MISREAD.format("utf8mb4", "latin1") in note for note in pipe.notes)


@pytest.mark.parametrize("kind", ["VARBINARY(5)", "BLOB"])
def test_members_of_the_binary_character_set_do_not_become_bytes(kind: str) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 'ü')) DEFAULT CHARSET=binary")
    log.rows({"id": 1, "e": "a"}).ddl(f"ALTER TABLE t MODIFY e {kind}")
    assert "column e: its values after the change of enum" in refusal(log)


@BOTH
def test_bytes_that_the_engine_reads_as_text_after_a_conversion_stop(consistency: str) -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(5)) DEFAULT CHARSET=binary")
    log.rows({"id": 1, "c": "YQ=="})
    log.ddl("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3", after="id INT PRIMARY KEY, c VARCHAR(5)", c="utf8mb3")
    assert MISREAD.format("binary", "utf8mb3") in refusal(log, consistency=consistency)


def test_a_column_that_the_engine_takes_for_not_null_is_noted() -> None:
    log = MadeLog().ddl("CREATE TABLE t (id INT PRIMARY KEY)", after="id INT PRIMARY KEY").rows({"id": 1})
    log.ddl(
        "ALTER TABLE t ADD (a INT NOT NULL, b BIT(4))", after="id INT PRIMARY KEY, a INT NOT NULL, b BIT(4) NOT NULL"
    )
    assert applied(log).notes == [
        "shop.t: the producer's definition differs: b is NOT NULL: rows may have another value for NULL"
    ]
