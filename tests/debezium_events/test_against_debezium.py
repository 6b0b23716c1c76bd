"""The records of an event pipeline are those of Debezium's engine on the same server, but for known defects of the connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debezium_events.cases import CASES, Case
from tests.debezium_events.comparing import EXPLAINED, compare, unexplained
from tests.services.database import Database, MariaDb, MySql

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]
SHORT = (
    "rows",
    "types, streamed",
    "types, snapshot",
    "transactions",
    "truncate as a row",
    "own keys",
    "excluded columns",
    "masked columns",
)


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server = (
        MariaDb("--sql-mode=", "--binlog-annotate-row-events=ON")
        if request.param == "mariadb"
        else MySql("--sql-mode=", "--binlog-rows-query-log-events=ON")
    )
    with server as started:
        yield started


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SHORT], ids=lambda case: case.name)
def test_records_are_those_of_the_connector(case: Case, database: Database, tmp_path: Path) -> None:
    if database.connector not in case.servers:
        pytest.skip(f"{database.connector} does not have the types of this case")
    result = compare(case, database, tmp_path)
    pairs = [(old, new) for old, new in result.different if old is not None and new is not None]
    assert [unexplained(*pair) for pair in pairs] == []
    assert result.different == []
    assert result.equal >= 0.85 * result.count
    known = {*EXPLAINED, "a schema change of MariaDB has a BEGIN without END"}
    assert {reason for reasons in result.explained for reason in reasons.split("; ")} <= known
