"""Random histories of DDL and rows on live servers, captured by runs that are killed: the tables end as the server's."""

from __future__ import annotations

import random

import pytest

from tests.sources.mysql.histories import SERVERS, follow

_DAILY, _NIGHTLY, _NEWER = 3, 60, 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "server, count, lower_case",
    [
        ("mariadb", _DAILY, False),
        ("mariadb", _DAILY, True),
        pytest.param("mariadb", _NIGHTLY, False, marks=pytest.mark.nightly),
        pytest.param("mysql", _NIGHTLY, False, marks=pytest.mark.nightly),
        pytest.param("mysql", _NIGHTLY, True, marks=pytest.mark.nightly),
        pytest.param("mariadb-11.8", _NEWER, False, marks=pytest.mark.nightly),
        pytest.param("mysql-9.7", _NEWER, True, marks=pytest.mark.nightly),
    ],
)
def test_tables_end_as_the_server(server: str, count: int, lower_case: bool) -> None:
    first = random.randrange(10**6)
    option = " --lower-case" if lower_case else ""
    print(f"python -m tests.sources.mysql.histories {server} --first {first} --histories {count}{option}")
    with SERVERS[server](f"--lower-case-table-names={int(lower_case)}") as database:
        counts = follow(database, first, count)
    assert count == _DAILY or counts["RIGHT"] > count / 3, counts
