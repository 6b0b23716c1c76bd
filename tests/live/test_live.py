"""Random histories of DDL and rows on real servers under Debezium's engine: the tables end as the server's, value by value."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.live.campaign import Campaign
from tests.services.database import needed

HISTORIES = 30  # of each server


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_random_histories_end_as_the_database(server: str, tmp_path: Path) -> None:
    needed("mariadb", "mariadb-client")
    seed = random.randrange(1000)
    campaign = Campaign(server, tmp_path, HISTORIES, seed, per_round=10, all_ways=True, reduce=False)
    campaign.run()
    table = "\n".join(campaign.table())
    again = f"--server {server} --seed {seed} --histories {HISTORIES} --per-round 10 --all-ways --no-reduce"
    print(f"python bench/ddl_live.py {again} --out FOLDER\n{table}")
    failed = [v for v in campaign.verdicts if v.verdict in ("WRONG", "CRASH")]
    assert not failed, failed[0].text
    judged = [v for v in campaign.verdicts if v.verdict in ("RIGHT", "DRIFT")]
    assert len(judged) > HISTORIES / 3
