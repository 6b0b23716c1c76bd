"""Numbers of examples for properties, and shares of long lists of cases: few new ones in each run, all in the nightly run.

CHANGEFEED_EXAMPLES   factor for the numbers in the tests (0.5)
CHANGEFEED_TURN       a number that chooses the cases of `by_turns` and the tests marked `heavy`, new in each run, which
                      prints it; `nightly`: all of them are nightly tests
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("CHANGEFEED_EXAMPLES", "0.5"))
_TURN = os.environ.get("CHANGEFEED_TURN", "nightly")  # tests/conftest.py sets it, for all workers
TURN = None if _TURN == "nightly" else int(_TURN)


def examples(count: int, **more: Any) -> settings:
    """Settings with a number of examples, and without a time limit."""
    return settings(max_examples=max(1, round(count * TIMES)), deadline=None, **more)


def large_examples(count: int) -> settings:
    """The same for examples that are large, or take long to draw."""
    return examples(count, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])


def by_turns(values: Iterable[Any], every: int, *, first: int = 0) -> list[Any]:
    """Parameters of a test, of which each run tries one in `every`, other runs others; the nightly run tries all.

    Args:
        values: values, or sets of them from `pytest.param`.
        first: added to the turn; tests of the same values have different ones, so that a run tries most values in some test.
    """
    result = []
    for number, value in enumerate(values):
        if TURN is not None and number % every == (TURN + first) % every:
            result.append(value)
        elif hasattr(value, "marks"):
            result.append(pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.nightly]))
        else:
            result.append(pytest.param(value, marks=pytest.mark.nightly))
    return result


def has_turn(test: str) -> bool:
    """Whether it is the turn of a test that is marked `heavy`, by its node id: that of every fourth one in each run."""
    return TURN is not None and crc32(test.encode()) % 4 == TURN // 8 % 4  # whatever `by_turns` chooses
