"""Numbers of examples for properties: few new ones in each run, and many in the nightly run.

CHANGEFEED_EXAMPLES   factor for the numbers in the tests (0.5)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("CHANGEFEED_EXAMPLES", "0.5"))


def examples(count: int, **more: Any) -> settings:
    """Settings with a number of examples, and without a time limit."""
    return settings(max_examples=max(1, round(count * TIMES)), deadline=None, **more)


def large_examples(count: int) -> settings:
    """The same for examples that are large, or take long to draw."""
    return examples(count, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])


def by_day(values: Iterable[Any], every: int, *, first: int = 0) -> list[Any]:
    """Parameters of a test, of which each run tries one in `every`; the nightly run tries all.

    Args:
        values: values, or sets of them from `pytest.param`.
        first: the number of the first value that each run tries; tests of the same values take different ones.
    """
    result = []
    for number, value in enumerate(values):
        if number % every == first % every:
            result.append(value)
        elif hasattr(value, "marks"):
            result.append(pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.nightly]))
        else:
            result.append(pytest.param(value, marks=pytest.mark.nightly))
    return result
