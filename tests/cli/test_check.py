"""`changefeed check` of pipelines that can run, and of those that cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from changefeed.cli import run
from changefeed.pipeline.state import Counts, State
from changefeed.pipeline.store.files import FileStore
from changefeed.record_log import read, write
from changefeed.sources.files import LogFiles
from changefeed.storage.folders import folder_at
from changefeed.storage.local import LocalFolder
from tests.cli.command import CLASSIC
from tests.pipeline.store.places import Files

if TYPE_CHECKING:
    from tests.services.s3 import S3Server

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
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] == (code == 0)
    return {one["name"]: one for one in report["checks"]}


def _damage(log: Path, which: slice) -> None:
    [batch] = read(log)
    rows = batch.to_pylist()
    for row in rows[which]:
        row["key"] = row["key"][:-3]
    write(log, [type(batch).from_pylist(rows, schema=batch.schema)])


def test_a_pipeline_that_can_run(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(pipeline.parent.iterdir())
    checks = _check(pipeline, capsys, 0)
    assert list(checks) == ["definition", "java", "jars", "source", "records", "sink", "ledger"]
    assert {one["status"] for one in checks.values()} <= {"ok", "warn"}
    assert checks["ledger"]["message"] == "none yet: the first run creates it"
    assert sorted(pipeline.parent.iterdir()) == before
    assert run(["check", str(pipeline)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "ok    definition  files → ticdc-open → delta"
    assert "ok    source      reachable; 30 records read" in shown


def test_a_wrong_definition_is_the_only_check_reported(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.write_text(YAML.format(protocol="ticdc-opne", policy="stop"))
    checks = _check(pipeline, capsys, 2)
    assert list(checks) == ["definition"]
    assert 'Did you mean "ticdc-open"?' in checks["definition"]["message"]


@pytest.mark.parametrize("folder", [".", "shop", "shop/customers"])
def test_a_table_of_others_at_the_path_or_around_it(
    folder: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = pipeline.parent / "lake" / folder
    write_deltalake(theirs, pa.table({"id": [1]}))
    checks = _check(pipeline, capsys, 2)
    assert [name for name, one in checks.items() if one["status"] == "fail"] == ["tables"]
    assert checks["tables"]["message"] == f"{theirs}: a table that this pipeline has not written"
    assert run(["explain", str(pipeline)]) == 2
    assert f"tables that this pipeline has not written: {theirs}. " in capsys.readouterr().err


@pytest.mark.parametrize("file", ["metadata/v1.metadata.json", ""])
def test_files_of_others_at_the_path(file: str, pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = pipeline.parent / "lake" / "shop" / "customers"
    (theirs / file).parent.mkdir(parents=True, exist_ok=True)
    (theirs / file).write_text("{}")
    checks = _check(pipeline, capsys, 2)
    assert checks["tables"]["message"] == f"{theirs}: contains files, but no table"
    assert run(["explain", str(pipeline)]) == 2
    assert capsys.readouterr().err == (
        f"error: the sink contains files, but no table, at {theirs}: give the pipeline another sink.path, or move them "
        "away\n"
    )


def test_a_pattern_without_a_file(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = pipeline.parent / "log.jsonl"
    log.unlink()
    checks = _check(pipeline, capsys, 2)
    assert checks["source"]["message"] == f"no file matches {log}"
    assert checks["source"]["fix"] == (
        "correct source.path, which is relative to the pipeline's file, or put the files there first"
    )
    assert "records" not in checks


def test_a_log_that_is_shorter_than_what_was_read(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = pipeline.parent / "log.jsonl"
    source = LogFiles(str(log), 100)
    ledger = FileStore(LocalFolder(str(pipeline.parent / "lake" / "_changefeed" / "ledger")), "shop")
    ledger.claim()
    ledger.finish(State(source=source.end(None, None)))  # type: ignore[arg-type]  # no session
    assert _check(pipeline, capsys, 0)["source"]["status"] == "ok"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:10]))
    checks = _check(pipeline, capsys, 2)
    assert checks["source"] == {
        "name": "source",
        "status": "fail",
        "message": f"{log} has become shorter: 30 records of it have been read. A log may grow, but not be replaced: restore "
        "it, or give the new log another name",
        "fix": "a run stops there: the message has the way out",
    }
    assert "records" not in checks


def test_options_of_another_producer(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    protocol = "{name: ticdc-open, large-message-handle-compression: lz4}"
    pipeline.write_text(YAML.format(protocol=protocol, policy="stop"))
    records = _check(pipeline, capsys, 2)["records"]
    assert records["fix"] == "they decode with the default options of ticdc-open: correct those in source.protocol"


def test_records_of_something_else(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(pipeline.parent / "log.jsonl", slice(None))
    records = _check(pipeline, capsys, 2)["records"]
    assert records["message"].startswith(
        "dead letters: 30, beside 0 rows, 0 schema changes, 0 resolved events; the first: "
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
    assert records["message"].startswith("dead letters: 2, beside ")
    assert records["fix"].startswith(fix)


def test_a_sink_that_is_a_file(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pipeline.parent / "lake").write_text("")
    sink = _check(pipeline, capsys, 2)["sink"]
    assert sink["message"].endswith("lake is not a folder")


@pytest.mark.parametrize("owner, code", [("shop", 0), ("other", 2)])
def test_the_ledger_of_another_pipeline(
    owner: str, code: int, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = pipeline.parent / "lake" / "_changefeed" / "ledger"
    FileStore(LocalFolder(str(ledger)), owner).claim()
    message = _check(pipeline, capsys, code)["ledger"]["message"]
    assert message == (f"{ledger} belongs to another pipeline than shop" if code else "epoch 1, no step done")


def test_the_ledger_of_a_newer_changefeed(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Files(pipeline.parent / "lake" / "_changefeed")
    place.store().claim()
    place.make_newer()
    ledger = _check(pipeline, capsys, 2)["ledger"]
    assert ledger["message"].startswith(
        f"{place.path} is in format 99, written by changefeed 7.0.0; this is changefeed"
    )


def test_how_far_the_ledger_is(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = FileStore(LocalFolder(str(pipeline.parent / "lake" / "_changefeed" / "ledger")), "shop")
    ledger.claim()
    ledger.finish(State(barrier=7))
    assert _check(pipeline, capsys, 0)["ledger"]["message"] == "epoch 1, step 1 done, up to 7"
    assert _check(pipeline, capsys, 0)["lag"]["message"].endswith("records to read")
    waiting = State(positions={"shop": {0: 3}}, barrier=7, resolved={"shop": {0: 7}}, latest={"shop": {0: 9}},
                    counts=Counts(3, 2, 1))  # fmt: skip
    ledger.finish(waiting)
    assert "1 row pending, held by shop:0 (no resolved event after 7" in _check(pipeline, capsys, 0)["lag"]["message"]
    ledger.finish(State())  # without a cut, as with `consistency: key`
    assert _check(pipeline, capsys, 0)["ledger"]["message"] == "epoch 1, step 3 done"


def test_a_sink_that_takes_no_files(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.write_text(pipeline.read_text().replace("path: lake", "path: /proc/lake"))
    sink = _check(pipeline, capsys, 2)["sink"]
    assert sink["message"] == "/proc/lake cannot be written: /proc does not allow new files (No such file or directory)"


@pytest.mark.heavy
@pytest.mark.slow
def test_a_sink_in_an_object_store_that_cannot_be_reached_is_one_line(
    pipeline: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"ENDPOINT_URL": "http://127.0.0.1:1", "REGION": "x", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    pipeline.write_text(pipeline.read_text().replace("path: lake", "path: s3://bucket/lake"))
    assert run(["check", str(pipeline)]) == 2
    output = capfd.readouterr()
    assert output.err == ""
    assert "\x1b" not in output.out
    lines = output.out.splitlines()[5:]
    assert lines[0].startswith(
        "fail  sink        s3://bucket/lake cannot be written: s3://bucket/lake/.changefeed-check-"
    )
    assert lines[1] == "      → correct sink.path, or see that it can be reached"
    assert len(lines) == 2


def test_a_sink_in_an_object_store_is_written_and_read_without_spark(
    s3: S3Server, pipeline: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The file that the check creates is deleted again; the ledger is one that a run has claimed."""
    folder = folder_at("s3://lake/of-check", s3.storage())
    assert folder is not None
    FileStore(folder.subfolder("_changefeed/ledger"), "shop").claim()
    section = s3.storage().model_dump(by_alias=True, exclude_none=True)
    sections = f"spark: {{spark.jars.packages: x}}\nstorage: {json.dumps(section)}\n"
    pipeline.write_text(pipeline.read_text().replace("path: lake", "path: s3a://lake/of-check") + sections)
    run(["check", str(pipeline)])
    lines = capfd.readouterr().out.splitlines()
    assert "ok    sink        s3a://lake/of-check can be written" in lines
    assert "ok    ledger      epoch 1, no step done" in lines
    assert folder.names() == []
    assert not [info.name for info in folder.files_below() if "check-" in info.name]


@pytest.mark.parametrize("how", ["cut", "gone", "a Delta table"])
def test_a_damaged_ledger_is_named_with_the_way_out(
    how: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Files(pipeline.parent / "lake" / "_changefeed")
    if how == "a Delta table":
        write_deltalake(place.path, pa.table({"epoch": [1]}))
    else:
        for _ in range(3):
            place.store().claim()
    match how:
        case "cut":
            newest = place.entries()[-1]
            newest.write_bytes(newest.read_bytes()[:50])
            damage = "log/00000000000000000004.json cannot be read: Input data was truncated"
        case "gone":
            place.entries()[1].unlink()
            damage = "log/00000000000000000002.json is missing"
    ledger = _check(pipeline, capsys, 2)["ledger"]
    assert ledger["message"] == (
        f"{place.path} is the ledger of a changefeed from before the first release, a Delta table: delete it, and "
        "rebuild all tables from the source: changefeed repair --rebuild --all"
        if how == "a Delta table"
        else f"{place.path}: the ledger is damaged: {damage}. Restore the sink's folder as a whole, `_changefeed` and the "
        "tables together, from a backup; or delete the ledger, and rebuild all tables from the source: changefeed repair "
        "--rebuild --all"
    )
    assert ledger["fix"] == "restore it from a copy, or start again with an empty sink.path"


def test_wrong_kafka_properties_are_refused(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "kafka, servers: '127.0.0.1:1', topics: [t], starting-offsets: beginning, kafka.securty.protocol: SSL"
    pipeline.write_text(pipeline.read_text().replace("files, path: log.jsonl", source))
    message = _check(pipeline, capsys, 2)["definition"]["message"]
    assert [line.removeprefix(f"{pipeline}:2: ") for line in message.splitlines()] == [
        'source.starting-offsets: expected earliest, latest or JSON, as {"shop": {"0": 118204}}, got \'beginning\'. '
        'Did you mean "earliest"?',
        'unknown property of the Kafka client "securty.protocol". Did you mean "kafka.security.protocol"?',
    ]


def test_unknown_kafka_properties_are_a_warning(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("changefeed.sources.kafka.librdkafka._SECONDS", 0.5)
    source = "kafka, servers: '127.0.0.1:1', topics: [t], kafka.my.own.thing: x"
    pipeline.write_text(pipeline.read_text().replace("files, path: log.jsonl", source))
    properties = _check(pipeline, capsys, 2)["properties"]
    assert (properties["status"], properties["message"]) == (
        "warn",
        "the Kafka client has no property kafka.my.own.thing, and ignores it",
    )


def test_a_sink_that_only_spark_can_reach_is_a_warning(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.write_text(pipeline.read_text().replace("path: lake", "path: 'viewfs://lake/tables'"))
    checks = _check(pipeline, capsys, 0)
    assert (checks["sink"]["status"], checks["ledger"]["status"]) == ("warn", "warn")
    assert checks["ledger"]["message"].startswith(
        "not checked: viewfs://lake/tables/_changefeed/ledger cannot be reached: "
    )
    assert checks["ledger"]["fix"] == "`changefeed status` reads it through Spark"
