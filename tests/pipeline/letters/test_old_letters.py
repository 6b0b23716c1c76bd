"""The Delta table in which earlier versions kept dead letters: read as it is, and taken into files by the next run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import letters
from changefeed.pipeline.letter_files import StoredLetter
from changefeed.pipeline.run import run
from changefeed.sinks import old_letters
from changefeed.spark_runtime.files import read_by
from changefeed.storage.folders import folder_at
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.running import definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.s3 import S3Server

_TIME = pa.timestamp("us", "UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TABLE = pa.schema(
    [
        ("at", _TIME), ("pipeline", pa.string()), ("reason", pa.string()), ("error", pa.string()), ("protocol", pa.string()),
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("index", pa.int32()), ("byte", pa.int64()),
        ("schema_id", pa.string()), ("sha256", pa.string()), ("database", pa.string()), ("table", pa.string()),
        ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(_HEADER)), ("replayed", _TIME),
    ]
)  # fmt: skip
AT = datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)
WANTED = [
    StoredLetter(
        topic="app", partition=0, offset=70000, at=AT, pipeline="test", reason="truncated", error="ends early",
        protocol="ticdc-open", sha256="00", value=b"\xff", headers=(("h", b"v"), ("h", None)),
    ),
    StoredLetter(
        topic="app", partition=0, offset=70001, index=2, at=AT, pipeline="test", reason="defect", error="e", byte=9,
        protocol="ticdc-open", schema_id="5", sha256="01", database="app", table="orders", key=b"", replayed=AT,
    ),
]  # fmt: skip


def _write(at: str, options: dict[str, str] | None = None) -> None:
    rows: list[dict[str, Any]] = []
    for letter in WANTED:
        row = {name: getattr(letter, name) for name in _TABLE.names}
        rows.append(row | {"headers": [{"key": key, "value": value} for key, value in letter.headers] or None})
    write_deltalake(at, pa.Table.from_pylist(rows[::-1], _TABLE), storage_options=options)


def _pipeline(tmp_path: Path) -> Definition:
    small_history(tmp_path / "app.jsonl")
    return definition(tmp_path / "app.jsonl", tmp_path / "lake")


def test_a_run_takes_them_into_a_file(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = _pipeline(tmp_path)
    place = tmp_path / "lake/_changefeed/dead_letters"
    _write(str(place))
    assert letters(pipeline, replayed=True) == WANTED
    assert letters(pipeline) == WANTED[:1]
    run(pipeline, spark, once=True)  # these records have not been passed: the run marks their letters
    now = letters(pipeline, replayed=True)
    assert [one.replayed is not None for one in now] == [True, True]
    assert now[1] == WANTED[1]
    assert sorted(path.name for path in place.glob("*.jsonl")) == [f"{number:020}.jsonl" for number in (1, 2)]
    assert DeltaTable(str(place)).version() == 0


def test_a_commit_that_a_power_cut_has_left_incomplete_is_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = _pipeline(tmp_path)
    place = tmp_path / "lake/_changefeed/dead_letters"
    _write(str(place))
    (place / "_delta_log" / f"{1:020}.json").write_bytes(b'{"commitInfo":{}}\n{"add":{"path":"x')
    run(pipeline, spark, once=True)
    assert [one.offset for one in letters(pipeline, replayed=True)] == [70000, 70001]


def test_they_are_read_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    path = f"s3://lake/{tmp_path.name}/dead_letters"
    _write(path, {**s3.environ, "AWS_S3_ALLOW_UNSAFE_RENAME": "true"})
    folder = folder_at(path, s3.storage())
    read = old_letters(_pipeline(tmp_path).sink, path, None, folder)
    assert [(row["offset"], row["headers"]) for row in read] == [(70000, [("h", b"v"), ("h", None)]), (70001, [])]
    assert old_letters(_pipeline(tmp_path).sink, f"{path}/none", None, folder_at(f"{path}/none", s3.storage())) == []


@pytest.mark.parametrize("by", ["a run", "a command"])
def test_they_are_read_where_only_spark_can(by: str, spark: SparkSession, tmp_path: Path) -> None:
    own, name = spark.newSession(), tmp_path.name.replace("_", "-")
    own.conf.set(f"fs.viewfs.mounttable.{name}.link./tables", tmp_path.as_uri())
    _write(str(tmp_path / "dead_letters"))
    sink, path = _pipeline(tmp_path).sink, f"viewfs://{name}/tables/dead_letters"
    if by == "a run":
        read = old_letters(sink, path, own, None)
    else:
        with read_by(own):
            read = old_letters(sink, path)
    assert [(row["offset"], row["headers"]) for row in read] == [(70000, [("h", b"v"), ("h", None)]), (70001, [])]
