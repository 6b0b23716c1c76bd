"""Statements after which a binary log has other rows than its table: system versioning, actions of foreign keys."""

from __future__ import annotations

import pytest

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.unlogged import actions_of
from tests.pipeline.kit.connector import Connector, MemoryRun
from tests.pipeline.kit.debezium_made import BOTH, STEPS, MadeLog, applied, refusal

T = "CREATE TABLE t (id INT PRIMARY KEY, a INT"
PERIOD = ", s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)"
WHY = "its log has the rows of the past, too, by system versioning. Leave it out: name it in pipeline.exclude"
VERSIONED = [
    [f"{T}{PERIOD}) WITH SYSTEM VERSIONING"],
    [f"{T}) ENGINE=InnoDB WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME"],
    [f"{T}, b INT WITH SYSTEM VERSIONING)"],
    [f"{T})", "ALTER TABLE t ADD SYSTEM VERSIONING"],
    [f"{T})", f"ALTER TABLE t ADD COLUMN b INT{PERIOD.replace(', ', ', ADD ', 3)}, ADD SYSTEM VERSIONING"],
]


def versioned(statements: list[str]) -> MadeLog:
    """The log of MariaDB: an update of a versioned table is followed by an insert of the old row."""
    log = MadeLog()
    for statement in statements:
        log.ddl(statement)
    log.rows({"id": 1, "a": 1})
    return log.row({"id": 1, "a": 2}, before={"id": 1, "a": 1}).rows({"id": 1, "a": 1})


@BOTH
@STEPS
@pytest.mark.parametrize("behavior", ["evolve", "try_evolve", "lenient", "ignore"])
@pytest.mark.parametrize("statements", VERSIONED, ids=range(len(VERSIONED)))
def test_a_table_with_system_versioning_is_refused(
    statements: list[str], behavior: str, batch: int | None, consistency: str
) -> None:
    log = versioned(statements)
    assert f"shop.t: {WHY}" in refusal(log, behavior=behavior, batch=batch, consistency=consistency)


def test_a_table_with_system_versioning_may_be_excluded_or_dropped_again() -> None:
    log = MadeLog().ddl("CREATE TABLE u (id INT PRIMARY KEY)", "u").rows({"id": 1}, table="u")
    log.ddl(VERSIONED[0][0]).rows({"id": 1, "a": 1})
    assert applied(log, exclude=["shop.t"]).rows("shop.u") == [{"id": 1}]
    plain = MadeLog().ddl(f"{T})").ddl("ALTER TABLE t DROP SYSTEM VERSIONING").rows({"id": 1, "a": 1})
    assert applied(plain).rows() == [{"id": 1, "a": 1}]


@pytest.mark.parametrize("behavior", ["evolve", "try_evolve"])
def test_a_table_with_system_versioning_that_is_not_captured_stops_when_its_rows_come(behavior: str) -> None:
    connector = Connector()
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY)")
    connector.ddl("shop", "t", VERSIONED[0][0])
    connector.rows(("shop", "orders", {"id": 1}))
    run = MemoryRun(connector, consistency="transaction", **{"schema.change.behavior": behavior})
    run.take()
    assert (run.tables, run.left_out) == (["shop.orders"], ["shop.t"])
    connector.rows(("shop", "t", {"id": 1, "a": 1}))
    with pytest.raises(UnsupportedError, match="system versioning"):
        run.take()


@pytest.mark.parametrize(
    "statement, actions",
    [
        ("CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)",
         "ON DELETE CASCADE"),
        ("CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (id) "
         "ON UPDATE CASCADE ON DELETE SET NULL)", "ON UPDATE CASCADE, ON DELETE SET NULL"),
    ],
)  # fmt: skip
def test_a_foreign_key_that_changes_rows_is_noted(statement: str, actions: str) -> None:
    log = MadeLog().ddl(statement, "c").rows({"id": 1, "p": 1}, table="c")
    [note] = [note for note in applied(log).notes if "foreign key" in note]
    assert note.startswith(
        f"shop.c: rows that its foreign key changes ({actions}) will be wrong, unless the server is MySQL 9.6 or later: others "
        "log only the change of the parent's row"
    )


def test_a_foreign_key_that_is_added_later_is_noted() -> None:
    log = MadeLog().ddl("CREATE TABLE c (id INT PRIMARY KEY, p INT)", "c").rows({"id": 1, "p": 1}, table="c")
    log.ddl("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES t (id) ON DELETE SET NULL", "c")
    assert [note.split(":")[0] for note in applied(log).notes if "foreign key" in note] == ["shop.c"]


@pytest.mark.parametrize(
    "statement, actions",
    [
        ("CREATE TABLE c (p INT REFERENCES t (id) ON DELETE CASCADE, at TIMESTAMP ON UPDATE NOW())", ["ON DELETE CASCADE"]),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES t (id) ON DELETE NO ACTION ON UPDATE RESTRICT", []),
        ("CREATE TABLE c (id INT COMMENT 'REFERENCES t ON DELETE CASCADE')", []),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES t (id) /* ON DELETE CASCADE */ ON UPDATE /*!50000 CASCADE */",
         ["ON UPDATE CASCADE"]),
        ("CREATE TABLE c (p INT REFERENCES t (id) ON DELETE SET", []),
        ("CREATE TABLE c (p INT REFERENCES `t (id) ON DELETE CASCADE", []),
        ("ALTER TABLE c DROP COLUMN p CASCADE", []),
    ],
)  # fmt: skip
def test_actions_of_foreign_keys_are_read_from_the_statement(statement: str, actions: list[str]) -> None:
    assert actions_of(statement) == actions
