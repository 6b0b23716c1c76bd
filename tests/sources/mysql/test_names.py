"""Names of tables in the statements of a log: the source has the server's rule, and the database of each session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import follower, names, rows

pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"]
)
def without_case(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param("--lower-case-table-names=1") as server:
        yield server


def test_a_renamed_table_keeps_its_rows_where_names_have_no_case(without_case: Database) -> None:
    following = follower(without_case, "cased", "CREATE TABLE Bills (id INT PRIMARY KEY); INSERT INTO bills VALUES (1)")
    for statements in (
        "RENAME TABLE bills TO OLD; CREATE TABLE t (id INT)",
        "INSERT INTO old VALUES (2); RENAME TABLE old TO `My Bills`, T TO old",
        "UPDATE `my bills` SET id = 3 WHERE id = 1",
    ):
        without_case.execute(f"USE cased; {statements}")
        following.run()
    assert names(following) == ["cased.my bills", "cased.old"]
    assert rows(following, "cased.my bills") == [{"id": 2}, {"id": 3}]


def test_a_table_without_a_database_is_one_of_the_session(without_case: Database) -> None:
    tables = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)"
    without_case.execute(f"CREATE DATABASE other; USE other; {tables}")
    following = follower(without_case, "session", tables, "other.*")
    without_case.execute("USE session; RENAME TABLE t TO session.u; USE other; RENAME TABLE t TO session.v")
    following.run()
    assert names(following) == ["session.u", "session.v"]
    assert rows(following, "session.v") == [{"id": 1}]
