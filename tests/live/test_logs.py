"""Recorded histories of `bench/ddl_live.py --logs`, as TiCDC and DTS send them: the tables end as the server's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.history import History
from tests.live.judging import WAYS_OF_LOGS, judge

DATA = Path(__file__).parent.parent / "data" / "ddl" / "logs"
RECORDED = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz"))


@pytest.mark.parametrize("way", WAYS_OF_LOGS)
@pytest.mark.parametrize("name", RECORDED)
def test_tables_end_as_the_servers(name: str, way: str) -> None:
    outcome = judge(History.load(DATA / f"{name}.json.gz"), way)
    lost = {"LOST"} if way.startswith("ticdc-debezium") else set()  # it has no decimals
    assert outcome.verdict in {"RIGHT"} | lost, outcome.text
