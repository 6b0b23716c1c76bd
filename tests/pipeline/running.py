"""Pipelines in tests: a definition over a record log, and what its ledger and tables say afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from changefeed.pipeline.definition import Definition
from changefeed.pipeline.ledger import Cut, cuts
from changefeed.pipeline.load import read
from changefeed.pipeline.paths import own_folder
from tests.pipeline.oracle import History, same_rows
from tests.pipeline.tables import rows


def definition(log: Path | str, lake: Path, *, limit: int = 100_000, **pipeline: Any) -> Definition:
    """A pipeline of files into Delta tables."""
    return read(
        {
            "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": limit},
            "sink": {"type": "delta", "path": str(lake)},
            "pipeline": {"name": "test", **pipeline},
        }
    )


def published(pipeline: Definition) -> list[Cut]:
    """The cuts of the ledger."""
    return cuts(f"{own_folder(pipeline)}/ledger")


def check_cuts(pipeline: Definition, history: History) -> None:
    """Every published cut is the history's exact state at its commit_ts, and they only go forward."""
    found = published(pipeline)
    steps = [(cut.step, cut.epoch) for cut in found]
    assert [step for step, _ in steps] == list(range(1, len(steps) + 1)), "a step twice, or one missing"
    assert [epoch for _, epoch in steps] == sorted(epoch for _, epoch in steps)
    barriers = [cut.state.barrier for cut in found if cut.state.barrier is not None]
    assert barriers == sorted(barriers)
    for cut in found:
        if cut.state.barrier is None:
            continue
        wanted = history.at(cut.state.barrier)
        assert sorted(t.table.name for t in cut.state.tables.values()) == sorted(wanted)
        for here in cut.state.tables.values():
            lies = rows(f"{pipeline.sink.path}/{here.path}", here.version, here.table)
            assert not (said := same_rows(lies, wanted[here.table.name])), (
                f"{here.table.name} at {cut.state.barrier}: {said}"
            )
