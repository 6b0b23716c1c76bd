"""The bundled histories are parts of the recorded ones, and complete in themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import changefeed as cf
from changefeed import record_log
from changefeed.pipeline.config.load import load
from changefeed.sources.files.section import FilesSource
from tests.pipeline.kit.oracle import History
from tools.make_example import DEBEZIUM_EXAMPLE, EXAMPLE, HISTORY, make, make_debezium

CUTS = json.loads(HISTORY.with_name("open-3.newarch.cuts.json").read_text())


@pytest.mark.parametrize(
    "bundled, write", [(EXAMPLE, make), (DEBEZIUM_EXAMPLE, make_debezium)], ids=["shop", "debezium"]
)
def test_the_script_makes_the_very_records_that_are_bundled(
    bundled: Path, write: Callable[[Path], int], tmp_path: Path
) -> None:
    made = tmp_path / bundled.name
    assert write(made) == sum(records.num_rows for records in record_log.read(bundled))
    assert pa.Table.from_batches(record_log.read(made)) == pa.Table.from_batches(record_log.read(bundled))
    assert bundled.stat().st_size < 170_000


def test_the_debezium_history_ends_with_a_whole_transaction() -> None:
    *_, last = cf.read(DEBEZIUM_EXAMPLE, protocol="debezium-mysql")
    assert isinstance(last, cf.TransactionMark)
    assert last.status == "end"


@pytest.fixture(scope="module")
def histories() -> tuple[History, History]:
    return History(EXAMPLE), History(HISTORY)


@pytest.mark.parametrize("cut", [*CUTS.values(), None], ids=[*CUTS, "end"])
def test_a_row_that_is_kept_is_the_whole_history_s_at_every_cut(
    cut: int | None, histories: tuple[History, History]
) -> None:
    part, whole = (history.at(cut) for history in histories)
    assert part.keys() == whole.keys()
    for table, rows in part.items():
        assert [row for row in rows if row not in whole[table]] == []
        assert len(rows) < len(whole[table]) or not whole[table]


def test_it_has_every_kind_of_change(histories: tuple[History, History]) -> None:
    def kinds(history: History) -> set[tuple[Any, ...]]:
        return {(e["kind"], e["table"], e.get("op"), e.get("type")) for e in history.events}

    part, whole = map(kinds, histories)
    assert part == whole


def test_its_pipeline_reads_it_and_writes_below_a_folder_that_git_ignores() -> None:
    pipeline = load(EXAMPLE.with_name("pipeline.yaml"))
    assert isinstance(pipeline.source, FilesSource)
    assert pipeline.source.path == str(EXAMPLE)
    assert Path(pipeline.sink.path) == EXAMPLE.parent / "out" / "lake"
    assert "out/" in (EXAMPLE.parents[2] / ".gitignore").read_text().splitlines()
