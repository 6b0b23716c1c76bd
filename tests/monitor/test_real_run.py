"""The page over the files that a real run has left: the shop's history, with a record that cannot be decoded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from changefeed import record_log
from changefeed.pipeline.run import run
from tests.monitor.site import Outline, Site
from tests.pipeline.running import SHOP, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from changefeed.model.batch import record_batch


def test_what_a_run_has_left(spark: SparkSession, tmp_path: Path) -> None:
    records = [
        row for batch in record_log.read(SHOP / "ticdc-open/open-1.classic.jsonl.gz") for row in batch.to_pylist()
    ]
    bad = {**records[-1], "offset": records[-1]["offset"] + 1, "key": b"\0", "value": b"\0"}
    record_log.write(tmp_path / "shop.jsonl", [record_batch([*records, bad])])
    pipeline = definition(tmp_path / "shop.jsonl", tmp_path / "lake", limit=2000, dead_letters="continue")
    run(pipeline, spark, once=True)
    with Site([str(tmp_path)]) as site:
        (shown,) = site.json("/overview.json")["pipelines"]
        own = f"/pipelines/{shown['id']}"
        assert (shown["state"], shown["dead_letters"], shown["pending"]) == ("stopped", 1, 0)
        assert shown["counts"]["records"] == len(records) + 1
        page = site.json(f"{own}.json")
        assert len(page["steps"]) == shown["step"]
        assert sum(one["applied"] or 0 for one in page["steps"][:-1]) <= shown["counts"]["applied"]
        assert {one["phase"] for one in page["phases"]} >= {"read", "write", "ledger"}
        tables = site.json(f"{own}/tables.json")["tables"]
        assert len(tables) == shown["tables"] == 5
        for path in ("", "/tables", "/letters", f"/table?name={tables[0]['name']}"):
            assert Outline(site.html(own + path)).unclosed == []
        (letter,) = site.json(f"{own}/letters.json")["letters"]
        assert "00" in site.html(f"{own}/letter?position={letter['position']}")
