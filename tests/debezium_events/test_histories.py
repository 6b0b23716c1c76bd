"""The records of an event pipeline are those of Debezium's engine over random histories, but for its known defects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debezium_events.histories import compare_histories
from tests.services.database import Database, MariaDb, MySql

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]


@pytest.mark.parametrize("server", [MariaDb, MySql])
def test_records_are_those_of_the_connector(server: type[Database], tmp_path: Path) -> None:
    with server() as database:
        result = compare_histories(database, range(14000, 14030), tmp_path)
    assert (result.different, result.missing) == ([], [])
    assert result.compared > 200
    known = {
        "a change of the log has no mark, not the mark `false`",
        "INTEGER UNSIGNED of MariaDB is taken for a signed one",
    }
    others = sum(count for name, count in result.defects.items() if name not in known)
    assert others < 0.2 * result.compared
