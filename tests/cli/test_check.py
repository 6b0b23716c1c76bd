"""What `changefeed check` says of pipelines that can run, and of those that cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from changefeed.cli import run
from changefeed.record_log import read, write

CLASSIC = Path(__file__).parent.parent / "data" / "shop" / "ticdc-open" / "open-1.classic.jsonl.gz"
YAML = """
source: {{type: files, path: log.jsonl, protocol: {protocol}}}
sink: {{type: delta, path: lake}}
pipeline: {{name: shop, dead-letters: {policy}}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A pipeline over the first records of a history: two schema changes and no mark."""
    write(tmp_path / "log.jsonl", read(CLASSIC, stop=30))
    path = tmp_path / "pipeline.yaml"
    path.write_text(YAML.format(protocol="ticdc-open", policy="stop"))
    return path


def _check(path: Path, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, dict[str, Any]]:
    assert run(["check", str(path), "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] == (code == 0)
    return {one["name"]: one for one in said["checks"]}


def _damage(log: Path, which: slice) -> None:
    [batch] = read(log)
    rows = batch.to_pylist()
    for row in rows[which]:
        row["key"] = row["key"][:-3]
    write(log, [type(batch).from_pylist(rows, schema=batch.schema)])


def test_a_pipeline_that_can_run(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(pipeline.parent.iterdir())
    found = _check(pipeline, capsys, 0)
    assert list(found) == ["definition", "java", "jars", "source", "records", "sink", "ledger"]
    assert {one["status"] for one in found.values()} <= {"ok", "warn"}
    assert found["ledger"]["message"] == "none yet: the first run begins it"
    assert sorted(pipeline.parent.iterdir()) == before
    assert run(["check", str(pipeline)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "ok    definition  files → ticdc-open → delta"
    assert "ok    source      reachable; 30 records looked at" in shown


def test_a_definition_that_cannot_work_is_the_only_thing_said(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.write_text(YAML.format(protocol="ticdc-opne", policy="stop"))
    found = _check(pipeline, capsys, 2)
    assert list(found) == ["definition"]
    assert 'Did you mean "ticdc-open"?' in found["definition"]["message"]


def test_a_pattern_without_a_file(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = pipeline.parent / "log.jsonl"
    log.unlink()
    found = _check(pipeline, capsys, 2)
    assert found["source"]["message"] == f"no file matches {log}"
    assert found["source"]["fix"] == (
        "correct source.path, which is relative to the pipeline's file, or put the files there first"
    )
    assert "records" not in found


def test_options_of_another_producer(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    protocol = "{name: ticdc-open, large-message-handle-compression: lz4}"
    pipeline.write_text(YAML.format(protocol=protocol, policy="stop"))
    records = _check(pipeline, capsys, 2)["records"]
    assert records["fix"] == "they decode with the default options of ticdc-open: correct those in source.protocol"


def test_records_of_something_else(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(pipeline.parent / "log.jsonl", slice(None))
    records = _check(pipeline, capsys, 2)["records"]
    assert records["message"].startswith(
        "30 dead letters beside 0 rows, 0 schema changes, 0 resolved marks; the first: "
    )
    assert records["fix"].startswith("no change decodes: is ticdc-open the protocol of this source")


@pytest.mark.parametrize(
    "policy, fix", [("stop", "the run will stop there"), ("continue", "the run will go on without")]
)
def test_some_dead_letters(policy: str, fix: str, pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(pipeline.parent / "log.jsonl", slice(5, 7))
    pipeline.write_text(YAML.format(protocol="ticdc-open", policy=policy))
    records = _check(pipeline, capsys, 0)["records"]
    assert records["status"] == "warn"
    assert records["message"].startswith("2 dead letters beside ")
    assert records["fix"].startswith(fix)


def test_a_sink_that_is_a_file(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pipeline.parent / "lake").write_text("")
    sink = _check(pipeline, capsys, 2)["sink"]
    assert sink["message"].endswith("lake is no folder")


@pytest.mark.parametrize("owner, code", [("shop", 0), ("other", 2)])
def test_the_ledger_of_another_pipeline(
    owner: str, code: int, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = pipeline.parent / "lake" / "_changefeed" / "ledger"
    rows = pa.table(
        {"epoch": [1], "step": [0], "status": ["epoch"], "at": [None], "state": pa.array([None], pa.string())}
    )
    rows = rows.set_column(3, "at", pa.array([0], pa.timestamp("us", "UTC")))
    mine = CommitProperties(app_transactions=[Transaction(f"changefeed:{owner}", 1)])
    write_deltalake(ledger, rows, commit_properties=mine)
    said = _check(pipeline, capsys, code)["ledger"]["message"]
    assert said == (f"{ledger} belongs to another pipeline than shop" if code else "epoch 1, no step done")
