"""Random histories of a server's log, as the product's own encoders send it for TiCDC and DTS: the tables end as the server's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.live.campaign import Campaign
from tests.live.history import History
from tests.live.judging import WAYS_OF_LOGS, judge
from tests.services.database import needed

DATA = Path(__file__).parent.parent / "data" / "ddl" / "logs"
RECORDED = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz"))
HISTORIES = 60  # of each server


@pytest.mark.parametrize("way", WAYS_OF_LOGS)
@pytest.mark.parametrize("name", RECORDED)
def test_tables_end_as_the_servers(name: str, way: str) -> None:
    outcome = judge(History.load(DATA / f"{name}.json.gz"), way)
    lost = {"LOST"} if way.startswith("ticdc-debezium") else set()  # it has no decimals
    assert outcome.verdict in {"RIGHT"} | lost, outcome.text


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_random_histories_end_as_the_server(server: str, tmp_path: Path) -> None:
    needed("mariadb", "mariadb-client")
    seed = random.randrange(1000)
    campaign = Campaign(server, tmp_path, HISTORIES, seed, per_round=20, all_ways=True, reduce=False, logs=True)
    campaign.run()
    table = "\n".join(campaign.table())
    again = f"--server {server} --seed {seed} --histories {HISTORIES} --per-round 20 --all-ways --no-reduce"
    print(f"python bench/ddl_live.py --logs {again} --out FOLDER\n{table}")
    failed = [v for v in campaign.verdicts if v.verdict in ("WRONG", "CRASH")]
    assert not failed, failed[0].text
    judged = [v for v in campaign.verdicts if v.verdict in ("RIGHT", "DRIFT")]
    assert len(judged) > HISTORIES / 2
