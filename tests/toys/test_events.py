"""The source of changes in `events.py`: it keeps the contract of `changefeed.sources`, and a definition may name it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import changefeed as cf
from changefeed.codec.decoding import decoder
from changefeed.errors import ConfigError
from changefeed.model.batch import record_batch
from changefeed.model.position import Position
from changefeed.model.text.write import lines
from changefeed.pipeline.config.load import read
from changefeed.sources import Source, source
from tests.docs.fenced import blocks
from tests.docs.shown import ROOT
from tests.sources.conformance import Conformance, Row, changes_of, resolved_of
from tests.toys.events import EventsFolder, EventsSource
from tests.toys.lake import LakeSink
from tests.toys.two_runs import SALES, history, load, rows, run_twice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YAML = """
source: {type: tests.toys.events, path: events}
sink: {type: tests.toys.lake, path: lake}
pipeline: {name: own}
"""


def write(folder: Path, records: list[Row]) -> None:
    """Decodes records, and appends their events to the files of their partitions."""
    folder.mkdir(exist_ok=True)
    decode = decoder("ticdc-open", {})
    for row in records:
        events = ",".join(lines(decode.decode(record_batch([row]))))
        with (folder / f"{row['topic']}.{row['partition']}.jsonl").open("a") as file:
            file.write(f"[{events}]\n")


@dataclass
class Events:
    """A folder."""

    folder: Path

    def arrive(self, records: list[Row]) -> None:
        write(self.folder, records)

    def source(self, limit: int = 100_000) -> Source:
        return EventsSource(EventsFolder(self.folder), limit)


class TestEvents(Conformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Events:
        return Events(tmp_path / "events")


def test_a_pipeline_runs_from_a_source_of_changes(tmp_path: Path, spark: SparkSession) -> None:
    records, last = history(tmp_path)
    summary = run_twice(load(tmp_path, YAML), spark, records, partial(write, tmp_path / "events"))
    assert summary.commit_ts == last
    assert rows(LakeSink(tmp_path / "lake"), summary)["app.sales"] == SALES


def test_commands_need_no_protocol(tmp_path: Path) -> None:
    records, _ = history(tmp_path)
    write(tmp_path / "events", records)
    pipeline = load(tmp_path, YAML)
    checks = {check.name: check for check in pipeline.check().checks}
    assert checks["definition"].message == "tests.toys.events → tests.toys.lake"
    assert (checks["source"].status, checks["records"].status) == ("ok", "ok")
    assert checks["records"].message.endswith(" schema changes, 7 resolved events")
    explained = pipeline.explain()
    assert (explained.protocol, explained.dead_letters) == ("JSON events", 0)
    assert {table.table for table in explained.tables} >= {"app.sales", "app.notes"}


@pytest.mark.parametrize(
    "section, message",
    [
        (
            {"type": "tests.toys.events", "path": "x", "protocol": "ticdc-open"},
            'definition: unknown name in source "protocol". Known: max-records-per-batch, path, type',
        ),
        ({"type": "tests.toys.lines", "path": "x"}, "definition: source.protocol is missing"),
    ],
)
def test_a_source_of_records_has_a_protocol_and_one_of_changes_has_none(section: Row, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read({"source": section, "sink": {"type": "delta", "path": "lake"}})
    assert str(caught.value) == message


def test_the_guide_makes_chunks_of_changes() -> None:
    [block] = [block for block in blocks(ROOT / "docs/guides/own.md", "python") if "def chunks_of" in block]
    names: dict[str, Any] = {}
    exec(block, names)
    at = [Position("orders", partition, offset) for partition, offset in ((0, 5), (0, 6), (1, 9))]
    events = [
        cf.RowChange("insert", "shop", "orders", after={"id": 1}, keys=("id",), commit_ts=7, position=at[0]),
        cf.RowChange("delete", "shop", "orders", before={"id": 1}, keys=("id",), commit_ts=7, position=at[1]),
        cf.Resolved(7, at[2]),
    ]
    chunks = names["chunks_of"](events, [("orders", 0, 4), *((p.topic, p.partition, p.offset) for p in at)]).to_pylist()
    read = [(c["partition"], c["first_offset"], c["rows"]) for c in chunks if c["kind"] == "read"]
    assert read == [(0, 4, 3), (1, 9, 1)], "the record without an event counts, too"
    assert [op for *_, op, _ in changes_of(chunks)] == ["insert", "delete"]
    assert resolved_of(chunks) == [(1, 7)]
    assert names["chunks_of"]([], [("orders", 0, 4)]).column("kind").to_pylist() == ["read"]


def test_a_module_that_opens_no_source_is_named(tmp_path: Path) -> None:
    definition = read({"source": {"type": "tests.toys.events", "path": "x"}, "sink": {"type": "delta", "path": "lake"}})
    other = definition.source.model_copy(update={"type": "tests.toys.lake"})
    with pytest.raises(ConfigError) as caught:
        source(other)
    assert str(caught.value) == (
        'source "tests.toys.lake" has no open_changes: define it in the module, as docs/guides/own.md shows'
    )
