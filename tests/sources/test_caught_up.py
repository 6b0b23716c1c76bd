"""Whether a batch of topics was the last one: its number of records, compared with the limit that Spark applies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.pipeline.config.load import read
from changefeed.sources import record_source

LIMIT = 100
_SOURCE: dict[str, Any] = {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"], "protocol": "ticdc-open"}
_SOURCE |= {"max-records-per-batch": LIMIT}


@pytest.mark.parametrize(
    "before, after, caught_up",
    [
        ({"shop": {"0": 10, "1": 20}}, {"shop": {"0": 60, "1": 67}}, True),  # 97 taken, 100 may have been cut to 98
        ({"shop": {"0": 10, "1": 20}}, {"shop": {"0": 60, "1": 68}}, False),
        ({"shop": {"0": 10}}, {"shop": {"0": 109}}, False),
        ({"shop": {"0": 10}}, {"shop": {"0": 108}}, True),
        ({"shop": {"0": 10}}, {"shop": {"0": 110}}, False),
        ({"shop": {"0": 10}}, {"shop": {"0": 10}}, True),
        # Partitions that are new begin at 0.
        ({"shop": {"0": 10}}, {"shop": {"0": 10, "1": 97}, "new": {"0": 1}}, False),
        ({"shop": {"0": 10}}, {"shop": {"0": 10, "1": 95}, "new": {"0": 1}}, True),
    ],
)
def test_a_batch_below_its_limit_was_the_last(
    before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], caught_up: bool
) -> None:
    topics = record_source(read({"source": _SOURCE, "sink": {"type": "delta", "path": "lake"}}).source)
    assert topics.caught_up(json.dumps(before), json.dumps(after)) is caught_up


def test_after_the_first_batch_caught_up_is_unknown() -> None:
    topics = record_source(read({"source": _SOURCE, "sink": {"type": "delta", "path": "lake"}}).source)
    assert not topics.caught_up(None, json.dumps({"shop": {"0": 1}}))
