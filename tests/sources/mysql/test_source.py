"""The contract of sources, on a live server: batches of any size, any source offset, ends, modes of the first copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from changefeed.errors import SourceError
from changefeed.sources.mysql import MySqlTables, open_changes, reader
from changefeed.sources.mysql.reader import read
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import section
from tests.sources.mysql.kernel import needs_kernel


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with MariaDb() as server:
        server.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v INT);"
            "INSERT INTO shop.t VALUES (1, 1), (2, 2), (3, 3)"
        )
        yield server


def opened(database: Database, **options: Any) -> MySqlTables:
    return open_changes(section(database, tables=["shop.*"], **options))


def followed(source: MySqlTables, before: str | None = None, end: str | None = None) -> tuple[int, int, list[str]]:
    """Reads all batches: the numbers of rows and of marks, and the source offset after each batch."""
    rows, marks, offsets = 0, 0, list[str]()
    while (plan := source.plan(before, end)) is not None:
        for part in plan.parts:
            for chunks in read(plan.reading, part):
                kinds = chunks.select(["kind", "rows"]).to_pylist()
                rows += sum(chunk["rows"] for chunk in kinds if chunk["kind"] == "rows")
                marks += sum(chunk["kind"] == "resolved" for chunk in kinds)
        before = plan.after.text()
        offsets.append(before)
    source.close()
    return rows, marks, offsets


def test_a_run_goes_on_from_any_source_offset(database: Database) -> None:
    _, _, [*_, copied] = followed(opened(database))
    values = ", ".join(f"({i}, 0)" for i in range(100, 3000))
    database.execute(
        f"INSERT INTO shop.t VALUES {values}; UPDATE shop.t SET v = 1 WHERE id >= 100; DELETE FROM shop.t WHERE id >= 100"
    )
    whole, _, [last] = followed(opened(database), copied)
    assert whole == 3 * 2900
    pieces, _, offsets = followed(opened(database, **{"max-bytes-per-batch": 5000}), copied)
    assert (pieces, offsets[-1]) == (whole, last)
    assert sum("maps" in json.loads(offset) for offset in offsets) > 2, "no batch ended inside of a transaction"
    read_before = 0
    for number, offset in enumerate(offsets[:6]):
        rest, _, _ = followed(opened(database), offset)
        assert 0 < read_before + rest <= whole or number == 0
        read_before = whole - rest
    assert followed(opened(database), last) == (0, 0, [])


def test_nothing_behind_the_end_is_read(database: Database) -> None:
    source = opened(database)
    _, _, [*_, before] = followed(source)
    database.execute("UPDATE shop.t SET v = v + 1 WHERE id = 1")
    end = source.end(None, before)  # type: ignore[arg-type]  # it needs no session
    database.execute("UPDATE shop.t SET v = v + 1 WHERE id < 3")
    assert followed(source, before, end)[0] == 1
    assert followed(source, before)[0] == 3
    assert source.compared(None, before).source_offset == before
    assert source.partitions(before) == {("binlog", 0)}


@pytest.mark.parametrize("mode, rows, later", [("initial", 3, 1), ("initial_only", 3, 0), ("no_data", 0, 1)])
def test_modes_of_the_first_copy(database: Database, mode: str, rows: int, later: int) -> None:
    source = opened(database, **{"snapshot.mode": mode})
    copied, marks, [*_, before] = followed(source)
    assert (copied, marks) == (rows, 1)
    database.execute("UPDATE shop.t SET v = v + 1 WHERE id = 3")
    assert followed(source, before)[0] == later


def test_a_sample_ends_at_its_limit_and_locks_nothing(database: Database) -> None:
    database.execute(
        "CREATE TABLE shop.wide (id INT PRIMARY KEY); INSERT INTO shop.wide VALUES (1), (2), (3), (4), (5)"
    )
    database.execute(
        "CREATE USER IF NOT EXISTS plain@'%' IDENTIFIED BY 'plain';"
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO plain@'%'"
    )
    source = opened(database, user="plain", password="plain", **{"chunk-rows": 2})
    kinds = [chunk["kind"] for chunks in source.sample_chunks(3) for chunk in chunks.select(["kind"]).to_pylist()]
    assert kinds.count("schema") == 2
    assert kinds.count("rows") == 1
    assert kinds[-1] == "resolved"
    database.execute("DROP TABLE shop.wide")


@pytest.mark.parametrize("server", [MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
@pytest.mark.parametrize("by_kernel", [pytest.param(True, marks=needs_kernel), False], ids=["kernel", "reference"])
def test_a_log_that_lacks_changes_stops_the_run(
    server: type[Database], by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement on a table without transactions whose rows do not fit into its cache is done and not logged."""
    monkeypatch.setattr(reader, "is_available", lambda: by_kernel)
    with server("--binlog-stmt-cache-size=4096", "--max-binlog-stmt-cache-size=4096") as database:
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v INT); INSERT INTO shop.t VALUES (1, 1);"
            "CREATE TABLE shop.plain (id INT PRIMARY KEY, v LONGTEXT) ENGINE=MyISAM"
        )
        _, _, [*_, before] = followed(opened(database))
        database.execute("INSERT INTO shop.t VALUES (2, 2)")
        assert followed(opened(database), before)[0] == 1
        with pytest.raises(RuntimeError, match="max_binlog_stmt_cache_size"):
            database.execute("INSERT INTO shop.plain VALUES (1, REPEAT('x', 30000)), (2, REPEAT('x', 30000))")
        [[count]] = database.selected("SELECT COUNT(*) FROM plain", "shop")
        assert int(count) > 0
        with pytest.raises(
            SourceError, match=r"its log lacks changes at .* start a new pipeline with a first copy"
        ) as error:
            followed(opened(database), before)
        assert not error.value.transient
