"""`changefeed transcode`: losses that it refuses or reports, and the same on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changefeed.cli import run
from changefeed.errors import ConfigError
from changefeed.protocols import protocol
from changefeed.protocols.loss import loss
from changefeed.record_log import read, write
from tests.cli.command import invoke

SHOP = Path(__file__).parent.parent / "data" / "shop"
OPEN = SHOP / "ticdc-open" / "open-3.newarch.jsonl.gz"
AVRO = SHOP / "ticdc-avro" / "avro-ext.newarch.jsonl.gz"
DTS = SHOP / "tencent-dts" / "four-partitions-split.jsonl.gz"
REGISTRY = f"schema-registry={SHOP / 'ticdc-avro' / 'avro-ext.newarch.schemas.json'}"
TO_DTS = ("--from", "ticdc-open", "--to", "tencent-dts")
LOST = "ticdc-open to tencent-dts loses commit_ts, commit_time.ms, delete.commit_ts, schema.commit_ts, resolved"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The first records of a history in three partitions."""
    path = tmp_path / "log.jsonl"
    write(path, read(OPEN, stop=150))
    return path


def test_a_loss_that_affects_a_pipeline_is_refused_with_the_fix(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert run(["transcode", str(log), *TO_DTS, "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        f"{LOST}\n"
        "error: ticdc-open to tencent-dts loses what a pipeline needs: resolved (a pipeline would have no cuts: "
        "no point at which all tables are complete). Allow it with --allow-loss resolved\n"
    )
    assert not out.exists()


def test_an_allowed_loss_is_reported(log: Path, tmp_path: Path) -> None:
    done = invoke("transcode", log, *TO_DTS, "--allow-loss", "order,resolved", "--out", tmp_path / "out.jsonl")
    assert (done.return_value, done.stderr) == (0, f"{LOST}\n")


def test_a_loss_is_an_object_for_machines(log: Path, tmp_path: Path) -> None:
    args = ("--allow-loss", "resolved", "--out", tmp_path / "out.jsonl", "--json")
    done = invoke("transcode", log, *TO_DTS, *args)
    lost = ["commit_ts", "commit_time.ms", "delete.commit_ts", "schema.commit_ts", "resolved"]
    assert json.loads(done.stderr) == {
        "loss": {"from": "ticdc-open", "to": "tencent-dts", "lost": lost, "needed": ["resolved"]}
    }


def test_an_unknown_key_shows_the_nearest(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        invoke("transcode", log, *TO_DTS, "--allow-loss", "resolve", "--out", tmp_path / "out.jsonl")
    assert str(caught.value).startswith('unknown key "resolve". Did you mean "resolved"? Known: after, before, ')


@pytest.mark.parametrize(
    "source, target, target_options, fix",
    [
        (
            "ticdc-open",
            "ticdc-avro",
            {"enable-tidb-extension": "true", "avro-enable-watermark": "true"},
            "Allow it with --allow-loss before, or lose less with -O enable-tidb-extension=true "
            "-O avro-enable-watermark=true -O avro-include-before-value=true",
        ),
        (
            "ticdc-avro",
            "ticdc-open",
            {},
            "Allow it with --allow-loss op.update, or if the records of ticdc-avro have the old rows, declare it with "
            "-o avro-include-before-value=true",
        ),
        (
            "ticdc-open",
            "ticdc-open",
            {"output-old-value": "false"},
            "Allow it with --allow-loss op.insert,op.update,before",
        ),
    ],
)
def test_the_fix_names_the_options_that_lose_less(
    source: str, target: str, target_options: dict[str, Any], fix: str
) -> None:
    read, write = protocol(source), protocol(target)
    with pytest.raises(ConfigError) as caught:
        loss(read, read.read_options({}), write, write.read_options(target_options)).check(())
    assert str(caught.value).partition("). ")[2].split("). ")[-1] == fix


@pytest.mark.parametrize(
    "name, options",
    [
        ("ticdc-open", {}),
        ("ticdc-avro", {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}),
        ("ticdc-debezium", {"enable-tidb-extension": "true"}),
        ("debezium-mysql", {}),
        ("tencent-dts", {}),
    ],
)
def test_a_protocol_loses_nothing_to_itself(name: str, options: dict[str, Any]) -> None:
    known = protocol(name)
    assert loss(known, known.read_options({}), known, known.read_options(options)).keys == ()


def test_marks_that_options_leave_out_are_lost_to_itself_too() -> None:
    known = protocol("ticdc-avro")
    lost = loss(known, known.read_options({}), known, known.read_options({}))
    assert lost.keys == ("schema", "schema.ddl", "schema.commit_ts", "schema.commit_time", "resolved")
    assert lost.remedies == {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}


def test_a_change_that_the_target_cannot_carry_is_an_error_with_its_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    args = ["--from", "ticdc-avro", "-o", REGISTRY, "--to", "ticdc-open", "--allow-loss", "op.update"]
    assert run(["transcode", str(AVRO), *args, "--out", str(out)]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: delete of shop.items at shop_items:0:8: ticdc-open needs a commit_ts or a commit time"
    )
    assert not out.exists()


def _records(path: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The records of each partition, in the order of the log."""
    records: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in pa.Table.from_batches(read(path)).drop_columns(["timestamp", "timestampType"]).to_pylist():
        records.setdefault((record["topic"], record["partition"]), []).append(record)
    return records


def _rows(log: Path, name: str) -> int:
    decoded = invoke("decode", log, "--protocol", name, "--json")
    assert decoded.return_value == 0
    return sum(json.loads(line)["kind"] == "row" for line in decoded.stdout.splitlines())


def test_on_spark_every_record_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    args = ("transcode", OPEN, "--from", "ticdc-open", "--to", "ticdc-open", "-O", "profile=classic")
    assert invoke(*args, "--out", tmp_path / "plain.parquet").return_value == 0
    done = invoke(*args, "--out", tmp_path / "spark", "--spark", "--json")
    plain = _records(tmp_path / "plain.parquet")
    assert json.loads(done.stdout) == {
        "wrote": str(tmp_path / "spark"),
        "records": sum(map(len, plain.values())),
        "dead_letters": 0,
    }
    assert len(plain) == 3
    assert _records(tmp_path / "spark") == plain
    assert {path.name for path in tmp_path.iterdir()} == {"plain.parquet", "spark"}


def test_on_spark_a_partition_has_its_own_encoder(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "dts"
    invoke("transcode", OPEN, *TO_DTS, "--allow-loss", "resolved", "--spark", "--out", out)
    partitions = _records(out)
    assert sorted(partitions) == [("shop", 0), ("shop", 1), ("shop", 2)]
    for records in partitions.values():
        numbers = [int(h["value"]) for r in records for h in r["headers"] if h["key"] == "ps"]
        assert numbers == list(range(numbers[0], numbers[0] + len(records)))
    assert _rows(out, "tencent-dts") == _rows(OPEN, "ticdc-open")


@pytest.mark.heavy
def test_on_spark_events_that_span_several_records_are_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    logs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    write(logs[0], read(DTS, stop=1203))
    write(logs[1], read(DTS, start=1203))
    args = ("--from", "tencent-dts", "--to", "ticdc-open", "--allow-loss", "checkpoint", "--spark")
    done = invoke("transcode", *logs, *args, "--out", tmp_path / "open", "--json")
    assert (done.return_value, json.loads(done.stdout)["dead_letters"]) == (0, 0)
    assert _rows(tmp_path / "open", "ticdc-open") == _rows(DTS, "tencent-dts")


def test_on_spark_dead_letters_are_shown_and_errors_are_changefeeds(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"key_text":"no"}\n')
    args = ("transcode", log, "--from", "ticdc-open", "--to", "ticdc-open", "--spark")
    done = invoke(*args, "--out", tmp_path / "out")
    assert (done.return_value, done.stdout) == (3, f"wrote {tmp_path / 'out'}, 1 dead letter\n")
    assert done.stderr.splitlines()[-1].startswith("dead_letter ")
    with pytest.raises(ConfigError) as caught:
        invoke(*args, "--out", tmp_path / "out")
    assert str(caught.value) == f"{tmp_path / 'out'} exists already; remove it or name another folder"


@pytest.mark.parametrize(
    "args, message",
    [
        (
            ("-O", "partition-num=3", "--out", "{tmp}/out"),
            "ticdc-open: option partition-num is not supported on Spark: it sends rows to other topics or partitions, but "
            "each partition has an encoder of its own. Remove it, or transcode without --spark",
        ),
        (
            ("--out", "{tmp}/o.jsonl"),
            "{tmp}/o.jsonl: Spark writes a folder of Parquet files: give a name without an extension",
        ),
    ],
)
def test_on_spark_wrong_options_are_refused(
    spark: SparkSession, log: Path, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    arguments = [arg.replace("{tmp}", str(tmp_path)) for arg in args]
    with pytest.raises(ConfigError) as caught:
        invoke("transcode", log, "--from", "ticdc-open", "--to", "ticdc-open", "--spark", *arguments)
    assert str(caught.value) == message.replace("{tmp}", str(tmp_path))
