"""Numbers of examples for properties: few new ones in each run, and many in the nightly run.

CHANGEFEED_EXAMPLES   factor for the numbers in the tests (0.5)
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("CHANGEFEED_EXAMPLES", "0.5"))


def examples(count: int, **more: Any) -> settings:
    """Settings with a number of examples, and without a time limit."""
    return settings(max_examples=max(1, round(count * TIMES)), deadline=None, **more)


def large_examples(count: int) -> settings:
    """The same for examples that are large, or take long to draw."""
    return examples(count, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
