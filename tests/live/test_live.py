"""Random histories of DDL and rows on real servers, under Debezium's engine or as their log is sent for TiCDC and DTS by the
product's own encoders: the tables end as the server's, value by value.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.live.campaign import Campaign
from tests.services.database import needed


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("server", ["mariadb", "mysql"])
@pytest.mark.parametrize(
    "logs, histories, per_round, least", [(False, 30, 10, 1 / 3), (True, 60, 20, 1 / 2)], ids=["engine", "logs"]
)
def test_random_histories_end_as_the_database(
    logs: bool, histories: int, per_round: int, least: float, server: str, tmp_path: Path
) -> None:
    """`least`: the share of the histories that is judged, at least: an engine spoils many."""
    needed("mariadb", "mariadb-client")
    seed = random.randrange(1000)
    campaign = Campaign(server, tmp_path, histories, seed, per_round, all_ways=True, reduce=False, logs=logs)
    campaign.run()
    table = "\n".join(campaign.table())
    again = f"--server {server} --seed {seed} --histories {histories} --per-round {per_round} --all-ways --no-reduce"
    again += " --logs" if logs else ""
    print(f"python bench/ddl_live.py {again} --out FOLDER\n{table}")
    failed = [v for v in campaign.verdicts if v.verdict in ("WRONG", "CRASH")]
    assert not failed, failed[0].text
    judged = [v for v in campaign.verdicts if v.verdict in ("RIGHT", "DRIFT")]
    assert len(judged) > histories * least
