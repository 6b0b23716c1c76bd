"""Row keys of tables by the producer's definition, by statements and by records."""

from __future__ import annotations

import pytest

from changefeed.errors import UnsupportedError
from tests.pipeline.kit.debezium_made import BOTH, STEPS, MadeLog, Pipeline, applied, refusal


@BOTH
@STEPS
def test_a_table_without_a_key_does_not_take_that_of_its_records(batch: int | None, consistency: str) -> None:
    """The connector's key is the first unique index, and stays when the index is dropped."""
    log = MadeLog().ddl("CREATE TABLE t (id INT NOT NULL, u INT, UNIQUE (id))").ddl("DROP INDEX id ON t")
    log.ddl("ALTER TABLE t ADD c INT").rows({"id": 7, "u": 1, "c": 1}, {"id": 7, "u": 2, "c": 2})
    pipe = applied(log, batch=batch, consistency=consistency)
    assert pipe.rows() == [{"id": 7, "u": 1, "c": 1}, {"id": 7, "u": 2, "c": 2}]


@BOTH
@STEPS
def test_a_unique_index_that_allows_null_is_not_the_key(batch: int | None, consistency: str) -> None:
    log = MadeLog().ddl("CREATE TABLE t (a INT UNIQUE, b INT)", after="a INT, b INT")
    log.rows({"a": None, "b": 1}, {"a": None, "b": 2}, {"a": 3, "b": 3}, key=["a"]).ddl("CREATE INDEX kk ON t (b)")
    log.rows({"a": None, "b": 1}, {"a": None, "b": 2}, {"a": 4, "b": 3}, key=["a"])
    pipe = applied(log, batch=batch, consistency=consistency)
    assert len(pipe.rows()) == 6
    log.row({"a": 5, "b": 3}, {"a": 4, "b": 3}, key=["a"])
    with pytest.raises(UnsupportedError, match=r"shop\.t has no handle key, so the update at .* cannot be applied"):
        pipe.run(log)
    assert len(Pipeline({"keyless": "inserts"}).run(log).rows()) == 6


def test_without_ddl_the_key_of_the_records_is_the_key() -> None:
    log = (
        MadeLog()
        .rows({"code": "a", "n": 1}, key=["code"])
        .row({"code": "a", "n": 2}, {"code": "a", "n": 1}, key=["code"])
    )
    assert applied(log).rows() == [{"code": "a", "n": 2}]


def test_a_key_by_the_producer_alone_must_not_allow_null() -> None:
    log = MadeLog().ddl("ALTER TABLE t COMMENT 'x'", after="a INT NOT NULL, b INT, PRIMARY KEY (a)")
    log.rows({"a": 1, "b": 1}, key=["a"]).row({"a": 1, "b": 2}, {"a": 1, "b": 1}, key=["a"])
    assert applied(log).rows() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("behavior", ["evolve", "try_evolve", "lenient"])
@pytest.mark.parametrize(
    "items, alters, column",
    [
        ("who VARCHAR(9), n INT", ["ADD id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST"], "id"),
        ("who VARCHAR(9), n INT", ["ADD id BIGINT NOT NULL DEFAULT (UUID_SHORT()), ADD UNIQUE (id)"], "id"),
        ("who VARCHAR(9), n INT, PRIMARY KEY (n)", ["DROP PRIMARY KEY, ADD id SERIAL, ADD PRIMARY KEY (id)"], "id"),
        ("who VARCHAR(9) PRIMARY KEY, n INT", ["MODIFY who DATE"], None),
    ],
)
def test_a_key_without_values_in_existing_rows_is_always_refused(
    items: str, alters: list[str], column: str | None, behavior: str
) -> None:
    log = MadeLog().ddl(f"CREATE TABLE t ({items})").rows({"who": "a", "n": 1}, {"who": "b", "n": 2}, key=[])
    for alter in alters:
        log.ddl(f"ALTER TABLE t {alter}")
    if column is None and behavior != "evolve":  # the old texts stay, and still identify the rows
        assert len(applied(log, behavior=behavior).rows()) == 2
        return
    message = refusal(log, behavior=behavior)
    if column is not None:
        assert message.endswith(
            f"column {column} is in the row key, and the rows that are there have no value in it, so that they cannot be found "
            "again. Only a new snapshot of the table has the values: name it in pipeline.exclude and run again; after the "
            "snapshot, remove it from there"
        )


def test_a_key_over_a_gap_is_refused() -> None:
    log = MadeLog().ddl("CREATE TABLE t (n INT)").rows({"n": 1}, key=[])
    log.ddl("ALTER TABLE t ADD id CHAR(36) NOT NULL DEFAULT (UUID())").ddl("ALTER TABLE t RENAME COLUMN id TO x")
    assert applied(log, behavior="try_evolve").rows() == [{"n": 1, "x": None}]
    log.ddl("ALTER TABLE t ADD PRIMARY KEY (x)")
    assert "column x is in the row key" in refusal(log, behavior="try_evolve")


def test_a_new_snapshot_is_a_way_out_for_a_table_whose_key_has_no_values() -> None:
    log = MadeLog().ddl("CREATE TABLE t (n INT)").rows({"n": 1}, key=[])
    pipe = Pipeline().run(log)
    log.ddl("ALTER TABLE t ADD id INT NOT NULL AUTO_INCREMENT PRIMARY KEY").row({"n": 2, "id": 1}, {"n": 1, "id": 1})
    with pytest.raises(UnsupportedError, match=r"name it in pipeline\.exclude"):
        pipe.run(log)
    again = Pipeline(storage=pipe.storage).run(log, exclude=["shop.t"])
    log.ddl("DROP TABLE IF EXISTS t").ddl("CREATE TABLE t (n INT, id INT NOT NULL AUTO_INCREMENT PRIMARY KEY)")
    log.rows({"n": 2, "id": 1}).row({"n": 3, "id": 1}, {"n": 2, "id": 1})
    assert again.run(log).rows() == [{"n": 3, "id": 1}]
