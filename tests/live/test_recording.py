"""The reason for which an engine has died, as its log has it."""

from __future__ import annotations

import pytest

from tests.live.recording import reason_of


@pytest.mark.parametrize(
    "cause",
    [
        'java.lang.IllegalArgumentException: The column "g" is referenced as PRIMARY KEY, but a matching column is not defined',
        "io.debezium.DebeziumException: Error processing row in t4, internal schema size 6, but row size 4",
    ],
)
def test_the_reason_is_the_innermost_one(cause: str) -> None:
    log = f"io.debezium.DebeziumException: Error processing binlog event\n\tat io.debezium.X.y(X.java:1)\nCaused by: {cause}\n"
    assert reason_of(log) == cause.partition(": ")[2]
    assert reason_of("[main] WARN io.debezium.X - slow") == ""
