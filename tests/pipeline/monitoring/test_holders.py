"""The holders of the barrier are named in every case, and none where nothing waits."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.pipeline.config.load import read
from changefeed.pipeline.monitoring.holders import Holder, held_by_of, held_text
from changefeed.pipeline.state import Counts, Hold, Incomplete, State
from changefeed.sources.kafka.source_offset import SourceOffset

OFFSETS = SourceOffset({"shop": {"0": 4, "1": 2, "2": -2}}).text()
READ = {"shop": {0: 4, 1: 2}}
PENDING = Counts(rows=9, applied=4)
DONE = Counts(rows=9, applied=9)


def _pipeline(protocol: str = "ticdc-open", **pipeline: Any) -> Any:
    source = {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"], "protocol": protocol}
    return read({"source": source, "sink": {"type": "delta", "path": "lake"}, "pipeline": pipeline})


def _state(resolved: dict[int, int], newest: int, counts: Counts, **more: Any) -> State:
    latest = {"shop": {0: newest}}
    return State(resolved={"shop": resolved}, positions=READ, latest=latest, source=OFFSETS, counts=counts, **more)


@pytest.mark.parametrize(
    "state, names",
    [
        # without a resolved event: also a partition without a record, and also when nothing is pending yet
        (_state({0: 7}, 9, PENDING), ["shop:1", "shop:2"]),
        (_state({}, 9, PENDING), ["shop:0", "shop:1", "shop:2"]),
        # it had one, and has fallen silent
        (_state({0: 7, 1: 25, 2: 25}, 25, PENDING, barrier=7), ["shop:0"]),
        (_state({0: 25, 1: 7, 2: 7}, 25, DONE, barrier=7), ["shop:1", "shop:2"]),
        # all have fallen silent
        (_state({0: 7, 1: 7, 2: 7}, 9, PENDING, barrier=7), ["every partition"]),
        # nothing waits
        (_state({0: 7, 1: 7, 2: 7}, 7, DONE, barrier=7), []),
        (State(), []),
        # a table in quarantine has pending rows, and holds back no other
        (_state({0: 7, 1: 7, 2: 7}, 7, PENDING, barrier=7, held={"a.b": Hold(3, released=True)}), []),
    ],
)
def test_partitions_are_named(state: State, names: list[str]) -> None:
    assert [holder.name for holder in held_by_of(_pipeline(), state)] == names
    assert held_by_of(_pipeline(consistency="key"), state) == ()
    assert held_by_of(_pipeline("debezium-mysql"), state) == ()


def test_a_transaction_that_lacks_events_is_named() -> None:
    state = State(positions=READ, source=OFFSETS, counts=PENDING, incomplete=Incomplete("a:5", 1, 3))
    assert held_by_of(_pipeline("debezium-mysql"), state) == (
        Holder("transaction", "a:5", "transaction a:5: 1 of 3 events read to the end of all partitions"),
    )


def test_tables_that_are_held_are_named_with_their_reason() -> None:
    held = {"a.late": Hold(3, late=True), "a.quarantined": Hold(4), "a.released": Hold(5, released=True)}
    state = _state({0: 7, 1: 7, 2: 7}, 7, DONE, barrier=7, held=held)
    assert held_by_of(_pipeline(), state) == (
        Holder("table", "a.late", "its topic has not caught up", 3),
        Holder("table", "a.quarantined", "in quarantine, by its dead letters", 4),
    )


def test_a_sentence_names_five_of_them() -> None:
    holders = [Holder("partition", f"shop:{number}", "no resolved event yet") for number in range(7)]
    assert held_text(holders[:1], "14:02") == "held by shop:0 (no resolved event yet), since 14:02"
    assert held_text(holders).endswith("shop:4 (no resolved event yet) and 2 more")
    assert held_text([]) == ""
