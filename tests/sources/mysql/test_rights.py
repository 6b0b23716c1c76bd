"""A user that may not read all captured tables: never a table with only the rows that change."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from changefeed.errors import AccessError
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.discovery import discover
from changefeed.sources.mysql.rights import Readable, unreadable
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.tables import quoted
from changefeed.ticdc.dispatch.matcher import TableFilter
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import section

DATABASES = ("s", "shop_1", "shopX1", "Odd`name")
RIGHTS = "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT"


@pytest.fixture(
    scope="module", params=[MariaDb, pytest.param(MySql, marks=pytest.mark.heavy)], ids=["mariadb", "mysql"]
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        for name in DATABASES:
            server.execute(f"CREATE DATABASE {quoted(name)}")
            for table in "ab":
                server.execute(
                    f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT); INSERT INTO {table} VALUES (1, 1), (2, 2)", name
                )
        yield server


def user(database: Database, *grants: str) -> str:
    """Makes the user `u`, with these rights alone."""
    account = "'u'@'%'"
    database.execute(f"DROP USER IF EXISTS {account}; CREATE USER {account} IDENTIFIED BY 'u'")
    for grant in grants:
        database.execute(f"GRANT {grant} TO {account}")
    return account


def opened(database: Database) -> Server:
    return Server.open(Address("127.0.0.1", database.port, "u", "u"))


def test_a_copy_that_would_lack_a_table_is_refused(database: Database) -> None:
    user(database, f"{RIGHTS} ON *.*", "SELECT ON s.a")
    source = open_changes(section(database, tables=["s.*"], user="u", password="u"))
    missing = source.missing()
    assert missing is not None
    assert missing.fix == "GRANT SELECT ON `s`.* TO 'u'@'%', or select only what the user may read"
    with pytest.raises(AccessError, match=r"hides tables .* source\.tables selects by s\.\* is missing") as refused:
        source.plan(None, None)
    source.close()
    assert missing.fix in str(refused.value)
    one = open_changes(section(database, tables=["s.a"], user="u", password="u"))
    assert one.missing() is None
    assert one.plan(None, None) is not None
    one.close()
    discovery = discover(f"mysql://u:u@127.0.0.1:{database.port}/")
    assert [(t.database, t.table) for t in discovery.tables] == [("s", "a")]
    assert any(
        note.startswith("tables that the user may not read are not listed: GRANT SELECT ON *.*")
        for note in discovery.notes
    )


def test_rights_of_roles(database: Database) -> None:
    database.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader; GRANT SELECT ON s.* TO reader")
    account = user(database, f"{RIGHTS} ON *.*")
    database.execute(f"GRANT reader TO {account}")
    server = opened(database)
    assert unreadable(server, TableFilter(["s.*"])), "the role is not active"
    server.close()
    default = "SET DEFAULT ROLE reader FOR" if isinstance(database, MariaDb) else "SET DEFAULT ROLE reader TO"
    database.execute(f"{default} {account}")
    server = opened(database)
    assert unreadable(server, TableFilter(["s.*"])) == []
    [lacking] = unreadable(server, TableFilter(["s.*", "shop_1.a"]))
    server.close()
    assert lacking.fix.startswith("GRANT SELECT ON `shop_1`.`a` TO ")


def test_partial_revokes() -> None:
    lines = ["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `s`.* FROM `u`@`%`"]
    readable = Readable.of(lines, exact=True, ignores_case=False)
    assert readable.lacks(TableFilter(["*.*"])) == [("*.*", "`s`.*")]
    assert readable.lacks(TableFilter(["s.a"])) == [("s.a", "`s`.*")]
    assert readable.lacks(TableFilter(["*.*", "!s.*"])) == []
    assert readable.lacks(TableFilter(["shop_1.*"])) == []


def test_rights_under_the_very_name_of_a_database_count_first() -> None:
    lines = [r"GRANT INSERT ON `shop\_1`.* TO `u`@`%`", "GRANT SELECT ON `shop%`.* TO `u`@`%`"]
    readable = Readable.of(lines, exact=False, ignores_case=False)
    assert readable.lacks(TableFilter(["shop_1.a"])) == [("shop_1.a", "`shop_1`.`a`")]
    assert readable.lacks(TableFilter(["shop_1.*"])) == [("shop_1.*", r"`shop\_1`.*")]
    assert readable.lacks(TableFilter(["shop_2.*"])) == []


def test_what_random_rights_hide_is_found(database: Database) -> None:
    random = Random(random_seed := Random().randrange(2**32))
    server_like = {
        "s": "`s`",
        "shop_1": random.choice(["`shop_1`", r"`shop\_1`", "`shop%`"]),
        "shopX1": "`shopX1`",
        "Odd`name": "`Odd``name`",
    }
    for _ in range(25):
        grants = [f"{RIGHTS} ON *.*"]
        for name, pattern in server_like.items():
            grants += random.choice(
                [
                    [],
                    [f"SELECT ON {pattern}.*"],
                    [f"ALL PRIVILEGES ON {pattern}.*"],
                    [f"INSERT ON {pattern}.*"],
                    [f"SELECT ON {quoted(name)}.a"],
                    [f"SELECT (id) ON {quoted(name)}.a", f"INSERT ON {quoted(name)}.b"],
                ]
            )
        if random.random() < 0.1:
            grants.append("SELECT ON *.*")
        user(database, *grants)
        name, table = random.choice(DATABASES), random.choice(["a", "*"])
        patterns = random.choice(
            [["*.*"], [f"{quoted(name)}.{table}"], [f"{quoted(name)}.*", f"!{quoted(name)}.b"], ["shop*.*"]]
        )
        selector, server = TableFilter(patterns), opened(database)
        refused = []
        for one in DATABASES:
            for each in "ab":
                if selector.matches(one, each):
                    try:
                        server.rows(f"SELECT v FROM {quoted(one)}.{each} LIMIT 0")
                    except AccessError:
                        refused.append((one, each))
        lacking = unreadable(server, selector)
        server.close()
        assert lacking or not refused, (random_seed, grants, patterns, refused)
        if len(patterns) == 1 and patterns != ["*.*"] and "shop*" not in patterns[0] and table == "a":
            assert bool(lacking) == bool(refused), (random_seed, grants, patterns, lacking)
        for fix in lacking:
            database.execute(fix.fix.partition(", or ")[0])
        server = opened(database)
        assert unreadable(server, selector) == [], (random_seed, grants, patterns)
        server.close()
