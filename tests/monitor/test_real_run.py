"""The page over the files that real runs have left; one has a dead letter that the page's button replays."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import record_log
from changefeed.model.batch import record_batch
from changefeed.pipeline.run import run
from tests.monitor.site import BASE, Outline, Site
from tests.pipeline.kit.claim_checks import LARGE, checked_in
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.running import SHOP, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read", "iceberg", "defined-iceberg"])
def test_a_row_at_every_cut_and_its_pending_changes(
    spark: SparkSession, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = HistoryBuilder()
    history.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`note` TEXT,PRIMARY KEY(`id`))")
    history.rows(("orders", None, {"id": 7, "note": "a"}), ("orders", None, {"id": 8, "note": "b"}))
    history.resolved()
    history.rows(("orders", {"id": 7, "note": "a"}, {"id": 7, "note": None}))
    history.resolved()
    history.rows(("orders", {"id": 8, "note": "b"}, {"id": 8, "note": "c"}))
    history.resolved()
    history.rows(("orders", {"id": 7, "note": None}, None))
    history.resolved()
    history.rows(("orders", None, {"id": 7, "note": "again"}))
    log = history.write(tmp_path / "app.jsonl")
    sink = "iceberg" if "iceberg" in mode else "delta"
    run(definition(log, tmp_path / "lake", limit=2, write_mode=mode, sink=sink), spark, once=True)
    written = tmp_path / "pipeline.yaml"
    if mode == "defined-iceberg":
        source = f"{{type: files, path: {log}, protocol: ticdc-open}}"
        written.write_text(
            f"source: {source}\nsink: {{type: iceberg, path: {tmp_path}/lake}}\npipeline: {{name: test}}\n"
        )
    with Site([str(written if written.exists() else tmp_path)]) as site:
        (shown,) = site.json("/overview.json")["pipelines"]
        place = f"/pipelines/{shown['id']}/row"
        row = site.json(f"{place}.json?name=app.orders&key=7")
        assert [one["row"] and one["row"]["note"] for one in row["values"]] == [None, None, "a"]
        assert [one["row"] is None for one in row["values"][:2]] == [True, False]
        assert row["values"][1]["changed"] == ["note"]
        assert row["complete"]
        assert [(one["op"], one["after"]["note"]) for one in row["pending"]] == [("insert", "again")]
        assert row["pending_complete"]
        assert site.json(f"{place}.json?name=app.orders&key=8")["pending"] == []
        monkeypatch.setattr("changefeed.monitor.rows.PENDING_ROWS", 0)
        assert not site.json(f"{place}.json?name=app.orders&key=7")["pending_complete"]
        assert site.json(f"{place}.json?name=app.orders&key=9")["values"][0]["row"] is None
        page = site.html(f"{place}?name=app.orders&key=7")
        assert Outline(page).unclosed == []
        assert "<mark>NULL</mark>" in page
        for query, message in (
            ("key=x", "'x' is not a value of the column id"),
            ("key=1&key=2", "The key of app.orders is (id); 2 values were given."),
        ):
            answer = site.client.get(f"{place}.json?name=app.orders&{query}")
            assert (answer.status_code, message in answer.json()["error"]) == (404, True), answer.text
        for file in (tmp_path / "lake/app/orders").rglob("*.parquet"):
            file.unlink()
        assert site.client.get(f"{place}?name=app.orders&key=8").status_code == 502


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_the_button_replays_a_dead_letter(tmp_path: Path) -> None:
    """A large row is in a claim-check file, whose folder the definition names only after the run."""
    history = HistoryBuilder()
    history.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`note` TEXT,PRIMARY KEY(`id`))")
    history.rows(("orders", None, {"id": 1, "note": LARGE}))
    history.resolved()
    checked_in(history, tmp_path / "app.jsonl", tmp_path / "store")
    path, protocol = tmp_path / "pipeline.yaml", "{name: ticdc-open%s}"
    text = (
        f"source: {{type: files, path: app.jsonl, protocol: {protocol}}}\nsink: {{type: delta, path: lake}}\n"
        "pipeline: {name: app, dead-letters: quarantine}\n"
    )
    path.write_text(text % "")
    command = [sys.executable, "-m", "changefeed.cli", "run", str(path), "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path.write_text(text % f", claim-check-storage-uri: {tmp_path / 'store'}")
    with Site([str(path)], actions=True) as site:
        own = site.of("app")
        (letter,) = site.json(f"{own}/letters.json")["letters"]
        assert site.json(f"{own}.json")["held_tables"] == 1
        match = re.search(r'name="csrf" value="(\w+)"', site.html(f"{own}/letter?position={letter['position']}"))
        assert match is not None
        form = {"position": letter["position"], "csrf": match[1]}
        page = site.client.post(f"{own}/replay", data=form, headers={"Origin": BASE})
        assert "<h1>Replayed</h1>" in page.text, page.text
        assert "exit code 0" in page.text
        assert site.json(f"{own}/letters.json")["count"] == 0
        assert site.json(f"{own}/letters.json?replayed=yes")["letters"][0]["position"] == letter["position"]
        assert site.json(f"{own}.json")["held_tables"] == 0
        assert site.json(f"{own}/table.json?name=app.orders")["version"] is not None
