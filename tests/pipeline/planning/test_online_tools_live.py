"""Tables that gh-ost and pt-online-schema-change alter under Debezium's engine: they end as the server's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.live.judging import Record, sent
from tests.pipeline.kit.connector import Connector, MemoryRun
from tests.services.database import Database, MariaDb, MySql
from tests.services.debezium import MARKER, Debezium, Event
from tests.services.online_tools import TOOLS, alter_while_written, check_orders, create_orders

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]


class Recorded(Connector):
    """The records that an engine has sent, in batches of a random size."""

    def __init__(self, events: list[Event], random: Random) -> None:
        super().__init__()
        self.left, self._random = sent(events, random, most=1), random

    def taken(self) -> list[Record]:
        """See `Connector`."""
        size = self._random.choice([1, 10, 100, 1000])
        records, self.left = self.left[:size], self.left[size:]
        return records


@pytest.fixture(scope="module", params=[MariaDb, MySql], ids=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as database:
        yield database


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("ghosts", ["captured", "excluded", "not captured"])
def test_a_table_is_altered_online(server: Database, tool: str, ghosts: str, tmp_path: Path) -> None:
    database = f"live_{tool[0]}{ghosts[0]}"
    create_orders(server, database)
    settings = {"database.include.list": database, "snapshot.mode": "initial", "provide.transaction.metadata": "true"}
    if ghosts == "not captured":
        settings["table.include.list"] = f"{database}.orders,{database}.{MARKER}"
    with Debezium(server, tmp_path / "engine", settings) as engine:
        engine.follow(database)
        alter_while_written(server, database, tool)
        events = engine.follow(database)
    wanted = server.rows(database, "orders")
    excluded = {"exclude": [f"{database}._*"]} if ghosts == "excluded" else {}
    for consistency in ("transaction", "key"):
        recorded = Recorded(events, Random(9))
        pipeline = MemoryRun(recorded, consistency=consistency, **excluded)
        while recorded.left:
            pipeline.take()
        check_orders(pipeline.rows(f"{database}.orders"), wanted)
