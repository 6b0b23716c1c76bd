"""`changefeed discover`: a live server's tables, and a definition that `changefeed check` accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import changefeed as cf
from changefeed.errors import ConfigError
from changefeed.sources.mysql.discovery import address_of
from tests.cli.command import invoke
from tests.services.database import Database, MariaDb

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with MariaDb() as server:
        server.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20));"
            "CREATE TABLE shop.`odd name` (a INT); CREATE DATABASE other;"
            "CREATE TABLE other.t (a INT, b INT, PRIMARY KEY (b, a));"
            "CREATE TABLE other.u (a INT NOT NULL, b INT, c CHAR(9) NOT NULL, UNIQUE (b), UNIQUE (c(2)), UNIQUE (c, a));"
            "INSERT INTO shop.orders VALUES (1, 'x'), (2, 'y'); ANALYZE TABLE shop.orders"
        )
        yield server


def test_tables_and_their_definition(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipeline.yaml"
    done = invoke("discover", f"mysql://dbz:dbz@127.0.0.1:{database.port}/", "--json", "--write", path)
    assert done.return_value == 0
    result = json.loads(done.stdout)
    assert [(t["database"], t["table"], t["key"]) for t in result["tables"]] == [
        ("other", "t", ["b", "a"]), ("other", "u", ["c", "a"]), ("shop", "odd name", []), ("shop", "orders", ["id"]),
    ]  # fmt: skip
    orders = result["tables"][-1]
    assert (orders["rows"], orders["columns"]) == (2, {"id": "int(11)", "note": "varchar(20)"})
    assert result["missing"] == []
    monkeypatch.setenv("MYSQL_PASSWORD", "dbz")
    checks = {check.name: check for check in cf.Pipeline.load(path).check().checks}
    assert checks["source"].status == "ok", checks["source"].message
    assert checks["records"].message == "2 rows, 3 schema changes, 1 resolved events"
    with pytest.raises(click.UsageError, match="exists"):
        invoke("discover", f"mysql://dbz:dbz@127.0.0.1:{database.port}/", "--write", path)


def test_one_database_for_people(database: Database) -> None:
    shown = invoke("discover", f"mysql://dbz:dbz@127.0.0.1:{database.port}/shop")
    assert "shop.odd name" in shown.stdout
    assert "other.t" not in shown.stdout
    assert "id int(11), note varchar(20)" in shown.stdout


def test_what_is_missing_has_its_statement(database: Database) -> None:
    database.execute("SET GLOBAL binlog_row_metadata = MINIMAL; CREATE USER poor@'%' IDENTIFIED BY 'poor'")
    try:
        done = invoke("discover", f"mysql://poor:poor@127.0.0.1:{database.port}")
        assert done.return_value == 3
        assert "the log does not name the columns of its rows" in done.stdout
        assert (
            "the right REPLICATION SLAVE is missing, and must be granted: GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%'"
            in done.stdout
        )
    finally:
        database.execute("SET GLOBAL binlog_row_metadata = FULL")


@pytest.mark.parametrize("uri", ["shop", "http://u@h/", "mysql://h/shop", "mysql://u@h:port/", "mysql://u:p@/x"])
def test_what_is_not_a_uri(uri: str) -> None:
    with pytest.raises(ConfigError, match="mysql://user@host"):
        address_of(uri)


def test_parameters_of_a_uri_are_not_passed_over() -> None:
    with pytest.raises(ConfigError, match="takes no parameters such as `ssl-mode`"):
        address_of("mysql://u@h/shop?ssl-mode=verify_ca")


def test_a_uri() -> None:
    address, database = address_of("mysql://us%40er:p%3Aw@[::1]:3307/a%20b")
    assert (address.host, address.port, address.user, address.password, database) == (
        "::1",
        3307,
        "us@er",
        "p:w",
        "a b",
    )
