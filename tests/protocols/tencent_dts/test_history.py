"""The recorded shop: the same rows as in another protocol, and checkpoints that keep their promise."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from changefeed.columnar.events import in_order
from changefeed.model.event import Heartbeat, TransactionMark
from tests.protocols.conformance.cases import History, decode, histories, lines

FILES = {history.file: history for history in histories()}
ONE, FOUR = (FILES[f"shop/tencent-dts/{name}.jsonl.gz"] for name in ("one-partition", "four-partitions-split"))
OTHER = FILES["shop/ticdc-open/open-3.newarch.jsonl.gz"]
# TiDB's protocol does not send the members of enum and set.
WITHOUT_MEMBERS = {"flags", "status"}


def images(history: History) -> dict[tuple[str, ...], Counter[str]]:
    """Every row image by table and side."""
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for line in lines(decode(history)):
        event = json.loads(line)
        if event["kind"] == "row":
            assert event["irregular"] == {}
            for side in ("before", "after"):
                if event[side] is not None:
                    known: dict[str, Any] = {n: v for n, v in event[side].items() if n not in WITHOUT_MEMBERS}
                    counts[event["database"], event["table"], *sorted(event["keys"]), side][
                        json.dumps(known, sort_keys=True)
                    ] += 1
    return counts


def test_partitions_hold_the_rows_of_the_one() -> None:
    assert images(FOUR) == images(ONE)


def test_rows_are_those_of_another_protocol() -> None:
    ours, theirs = images(ONE), images(OTHER)
    assert ours.keys() == theirs.keys()
    for key, counts in ours.items():
        missing = counts - theirs[key]  # TiDB sends one change of a row that a transaction has touched twice
        assert not theirs[key] - counts
        assert sum(missing.values()) <= 43


@pytest.mark.parametrize("history", [ONE, FOUR], ids=str)
def test_nothing_follows_a_checkpoint_at_or_below_its_sequence(history: History) -> None:
    promised: dict[int, int] = {}
    seen = sequences(history)
    for partition, sequence, _, is_checkpoint in seen:
        assert sequence > promised.get(partition, 0)
        if is_checkpoint:
            promised[partition] = sequence
    assert len(promised) == len({partition for partition, *_ in seen})


@pytest.mark.parametrize("history", [ONE, FOUR], ids=str)
def test_a_cut_at_any_checkpoint_is_a_cut_between_transactions(history: History) -> None:
    seen = sequences(history)
    spans: dict[str, tuple[int, int]] = {}
    for _, sequence, transaction, _ in seen:
        if transaction:
            low, high = spans.get(transaction, (sequence, sequence))
            spans[transaction] = min(low, sequence), max(high, sequence)
    cuts = [sequence for _, sequence, _, is_checkpoint in seen if is_checkpoint]
    assert len(cuts) >= 68
    for cut in cuts:
        assert not any(low <= cut < high for low, high in spans.values())


def sequences(history: History) -> list[tuple[int, int, str, bool]]:
    """Partition, sequence, transaction, and whether it is a checkpoint, of every event in order."""
    listed = []
    for event in in_order(decode(history)):
        if isinstance(event, Heartbeat):
            assert event.sequence == event.origin["seqId"]
            listed.append((event.place.partition, event.origin["seqId"], "", True))
        else:
            gtid = event.id if isinstance(event, TransactionMark) else event.origin["gtid"]
            listed.append((event.place.partition, event.origin["seqId"], gtid, False))
    return listed
