"""A moment of a run, for tests of how it is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from changefeed.pipeline.monitoring.view import RunNow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def now(**more: Any) -> RunNow:
    times: dict[str, Any] = {"started": NOON, "at": NOON, "stage_since": NOON}
    return RunNow(pipeline="p", host="h", pid=7, every=5.0, **{"stage": "planning", **times, **more})
