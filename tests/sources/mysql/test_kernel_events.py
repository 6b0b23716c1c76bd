"""Streams of events with the kernel and without it: they must read the same log to the same changes, or raise the same error."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources.mysql import kernel_events
from changefeed.sources.mysql.changes import LogDecoder
from changefeed.sources.mysql.definitions import Definitions
from changefeed.sources.mysql.dump import LogEvent, placed
from changefeed.sources.mysql.kernel_events import KernelEventDecoder
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.transactions import Transactions
from tests.kernel.differing import difference
from tests.sources.mysql.kernel import needs_kernel
from tests.sources.mysql.random_logs import random_log
from tests.sources.mysql.recorded_logs import CAPTURED, VECTORS, log

pytestmark = needs_kernel

LOGS = int(os.environ.get("CHANGEFEED_EXAMPLES", "1")) * 25
NAMES = sorted(path.stem for path in VECTORS.glob("*.binlog"))


@pytest.fixture(autouse=True, params=[0, 200], ids=["all-events", "large-events"])
def least(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The size from which events go to the kernel."""
    monkeypatch.setattr(kernel_events, "_LEAST", request.param)
    size: int = request.param
    return size


def events(sent: Iterable[bytes], start: LogPosition) -> Iterator[LogEvent]:
    at = start
    for data in sent:
        event = placed(data, at)
        at = event.end
        yield event


def outcome(kind: type[LogDecoder], sent: Iterable[LogEvent], cut_every: int) -> tuple[list[Any], Any, Counter[bool]]:
    """The changes of a decoder, cut by cut, or its error; the open transaction; row events by whether the kernel read them."""
    transactions, definitions = Transactions({"taskId": "0"}, now=lambda: 7), Definitions()
    decoder = kind(CAPTURED, (), transactions, definitions)
    kernel = decoder if isinstance(decoder, KernelEventDecoder) else None
    cuts, read = list[Any](), Counter[bool]()
    try:
        for number, event in enumerate(sent, 1):
            rows_before = 0 if kernel is None else kernel.rows_of_kernel
            decoder.add(event)
            if event.code in KINDS and kernel is not None:
                read[kernel.rows_of_kernel > rows_before] += 1
            if number % cut_every == 0:
                cuts.append(decoder.decoded())
        cuts.append(decoder.decoded())
    except Exception as error:  # of any kind: both must raise the same
        cuts.append(repr(error))
    return cuts, None if transactions.open is None else transactions.open.plain(), read


def compared(sent: list[bytes], start: LogPosition, cut_every: int = 11) -> Counter[bool]:
    expected, is_open, _ = outcome(LogDecoder, events(sent, start), cut_every)
    actual, is_open_too, read = outcome(KernelEventDecoder, events(sent, start), cut_every)
    assert len(expected) == len(actual)
    assert is_open == is_open_too
    for one, other in zip(expected, actual, strict=True):
        if isinstance(one, str):
            assert one == other
        else:
            assert difference(one[0], other[0]) is None
            assert one[1].equals(other[1])
    return read


@pytest.mark.parametrize("name", NAMES)
def test_recorded_logs(name: str) -> None:
    sent = log(name)
    compared([event.data for event in sent], sent[0].at)


def test_logs_of_random_tables(least: int) -> None:
    description = log("mariadb-types")[0].data
    read = Counter[bool]()
    for seed in range(LOGS):
        sent = random_log(seed, description)
        read += compared(sent, LogPosition("binlog.000007", 4), cut_every=3 + seed % 9)
    assert read[True] > LOGS
    assert least == 0 or read[False] > LOGS
