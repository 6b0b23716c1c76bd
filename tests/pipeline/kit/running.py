"""Pipelines in tests: a definition over a record log, and checks of its ledger and tables after a run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read as definition_of
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.paths import ledger_folder
from changefeed.pipeline.state import State, TableState
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.pipeline.store.reading import FileReader
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.tables import sink_rows

SHOP = Path(__file__).parents[2] / "data" / "shop"


def definition(
    log: Path | str,
    lake: Path,
    *,
    limit: int = 100_000,
    protocol: str | dict[str, Any] = "ticdc-open",
    writer: str = "native",
    write_mode: str = "copy-on-write",
    sink: str = "delta",
    options: Any = None,
    **pipeline: Any,
) -> Definition:
    """A pipeline of files into tables; names of options may have `_` for `-`. `options`: more of the sink."""
    own = {"writer": writer, "write-mode": write_mode} if sink == "delta" else {}
    own |= dict(options or {})
    return definition_of(
        {
            "source": {"type": "files", "path": str(log), "protocol": protocol, "max-records-per-batch": limit},
            "sink": {"type": sink, "path": str(lake), **own},
            "pipeline": {"name": "test", **{name.replace("_", "-"): value for name, value in pipeline.items()}},
        }
    )


def check_expected(pipeline: Definition, cut: str, only: Collection[str] = (), doubles: Collection[str] = ()) -> None:
    """Asserts that the tables of the last cut are those that were recorded with the shop's history.

    Tables named `zz_…` mark where a recording begins and ends.

    Args:
        pipeline: a pipeline that has run.
        cut: name of the recorded tables.
        only: tables to compare; if empty, all tables, and there may be no others.
        doubles: decimal columns that the protocol sends as doubles; they are compared as doubles.
    """
    state = published(pipeline)[-1].state
    wanted = {path.name.removesuffix(".jsonl.gz") for path in (SHOP / "expected" / cut).glob("*.jsonl.gz")}
    tables = {t.table.name: t for t in state.tables.values() if not t.table.name.startswith("zz_")}
    wanted &= set(only or wanted)
    assert set(tables) >= wanted if only else set(tables) == wanted
    for name in wanted:
        difference = differing(pipeline, tables[name], cut, some_columns=bool(only), doubles=doubles)
        assert not difference, f"{name}: {difference}"


def differing(
    pipeline: Definition, at: TableState, cut: str, *, some_columns: bool = False, doubles: Collection[str] = ()
) -> str:
    """Returns how a table differs from the recorded one, or an empty text.

    Args:
        at: the table in the state of a cut.
        cut: name of the recorded tables.
        some_columns: whether the table may have columns that were dropped.
        doubles: as in `check_expected`.
    """
    table, expected = at.table, _expected(cut, at.table.name)
    actual = sink_rows(pipeline, at.path, at.version, table)
    if some_columns:
        actual = [{column: row[column] for column in expected[0]} for row in actual]
    documents = {c.name for c in table.columns if c.type.name == "json"}
    for row in (*actual, *expected):
        row.update({c: row[c] and float(row[c]) for c in doubles if c in row})
        # MySQL's binlog has lost the upstream's spaces
        row.update({c: row[c] and json.loads(row[c]) for c in documents if c in row})
    return same_rows(actual, expected)


def _expected(cut: str, table: str) -> list[dict[str, Any]]:
    with gzip.open(SHOP / "expected" / cut / f"{table}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Published:
    """A cut with its whole state."""

    epoch: int
    step: int
    state: State


def published(pipeline: Definition) -> list[Published]:
    """The cuts of the ledger that are not packed: at least the last hundred."""
    reader = FileReader(
        folder_to_read(ledger_folder(pipeline), pipeline.storage, pipeline.spark), pipeline.pipeline.name
    )

    def read() -> list[Published]:
        head = reader.head()
        entries = [entry for entry, _ in reader.live(head)] if head else []
        return [Published(e.epoch, e.step, reader.state(e)) for e in entries if e.status == "done"]

    return reader.steady(read)


def check_cuts(pipeline: Definition, history: History) -> None:
    """Asserts that every published cut is the history's exact state at its commit_ts, and that cuts only go forward."""
    cuts = published(pipeline)
    steps = [(cut.step, cut.epoch) for cut in read_ledger(pipeline).history()]
    assert [step for step, _ in steps] == list(range(1, len(steps) + 1)), "a step twice, or one missing"
    assert [epoch for _, epoch in steps] == sorted(epoch for _, epoch in steps)
    barriers = [cut.state.barrier for cut in cuts if cut.state.barrier is not None]
    assert barriers == sorted(barriers)
    for cut in cuts:
        if cut.state.barrier is None:
            continue
        wanted = history.at(cut.state.barrier)
        assert sorted(t.table.name for t in cut.state.tables.values()) == sorted(wanted)
        for current in cut.state.tables.values():
            actual = sink_rows(pipeline, current.path, current.version, current.table)
            assert not (difference := same_rows(actual, wanted[current.table.name])), (
                f"{current.table.name} at {cut.state.barrier}: {difference}"
            )
