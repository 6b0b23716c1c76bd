"""The progress line names the partitions that hold back the cut."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.api.results import Progress
from changefeed.cli.output import Output
from changefeed.cli.run_ import _Steps
from changefeed.pipeline.config.load import read
from changefeed.pipeline.state import Counts, State
from changefeed.sources.kafka.source_offset import SourceOffset

STATE = State(
    resolved={"shop": {0: 7}},
    positions={"shop": {0: 4, 1: 2}},
    source=SourceOffset({"shop": {"0": 4, "1": 2, "2": -2}}).text(),
    counts=Counts(rows=9, applied=4),
)


def _pipeline(protocol: str = "ticdc-open", **pipeline: Any) -> Any:
    source = {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"], "protocol": protocol}
    return read({"source": source, "sink": {"type": "delta", "path": "lake"}, "pipeline": pipeline})


@pytest.mark.parametrize(
    "pipeline, state, waits",
    [
        (_pipeline(), STATE, ["shop:1", "shop:2"]),
        (_pipeline(consistency="key"), STATE, []),
        (_pipeline("debezium-mysql"), STATE, []),
        (_pipeline(), State(positions={"shop": {0: 1}}), []),
    ],
)
def test_partitions_without_a_mark_hold_back_pending_changes(pipeline: Any, state: State, waits: list[str]) -> None:
    assert list(Progress.of(pipeline, state).waits_for) == waits


def test_the_line_names_them() -> None:
    lines: list[str] = []
    _Steps(Output(), lines.append, cuts=True)(Progress.of(_pipeline(), STATE))
    assert lines[0].endswith(", 0 tables at no cut yet, waiting for shop:1, shop:2: no resolved event yet")


def test_a_pipeline_without_cuts_waits_for_none() -> None:
    lines: list[str] = []
    _Steps(Output(), lines.append, cuts=False)(Progress.of(_pipeline(consistency="key"), STATE))
    assert lines[0].endswith(" pending, 0 tables")
