"""How many examples a property is tried with: few in each run, new ones each time, and many in the nightly one.

CHANGEFEED_EXAMPLES   by how much the numbers in the tests are multiplied (0.5)
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("CHANGEFEED_EXAMPLES", "0.5"))


def examples(count: int, **more: Any) -> settings:
    """Settings with so many examples, and without a limit of time."""
    return settings(max_examples=max(1, round(count * TIMES)), deadline=None, **more)


def large_examples(count: int) -> settings:
    """The same of examples that are large, or take long to draw."""
    return examples(count, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
