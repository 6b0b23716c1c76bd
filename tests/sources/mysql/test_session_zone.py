"""Schema changes whose values depend on the time zone of the session: the log has it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import follower, rows

pytestmark = pytest.mark.slow


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as database:
        yield database


@pytest.mark.parametrize("declared", [{}, {"session-time-zone": "UTC"}], ids=["unknown", "of other sessions"])
def test_conversions_and_defaults_are_those_of_the_session(server: Database, declared: dict[str, Any]) -> None:
    following = follower(
        server, "zones",
        "SET time_zone = '+00:00'; CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP NULL, b DATETIME);"
        "INSERT INTO t VALUES (1, '2024-03-31 02:30:00', '2024-03-31 02:30:00')",
    )  # fmt: skip
    following.pipeline |= declared
    server.execute(
        "USE zones; SET time_zone = '-03:00'; ALTER TABLE t MODIFY a DATETIME, MODIFY b TIMESTAMP NULL;"
        "ALTER TABLE t ADD c TIMESTAMP NULL DEFAULT '2024-01-01 00:00:00';"
        "SET time_zone = '+05:30'; ALTER TABLE t MODIFY a TIMESTAMP NULL"
    )
    following.run()
    assert rows(following, "zones.t") == [
        {
            "id": 1,
            "a": datetime(2024, 3, 30, 18, tzinfo=UTC),
            "b": datetime(2024, 3, 31, 5, 30, tzinfo=UTC),
            "c": datetime(2024, 1, 1, 3, tzinfo=UTC),
        }
    ]
    assert [list(row.values()) for row in server.rows("zones", "t")] == [
        ["1", "2024-03-30 18:00:00", "2024-03-31 05:30:00", "2024-01-01 03:00:00"]
    ]
