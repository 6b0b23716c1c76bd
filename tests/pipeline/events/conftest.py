"""The servers of event pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.database import Database, MariaDb, MySql


@pytest.fixture(
    scope="module", params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"]
)
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A server for the tests of a file."""
    with request.param() as started:
        yield started
