"""Retries: for which errors, how often, and after which wait."""

from __future__ import annotations

import pytest

from changefeed.errors import ChangefeedError, ConfigError, SourceError
from changefeed.pipeline.edge import translated
from changefeed.pipeline.retry import Retries, Retry, seconds

AWAY = SourceError("brokers are away", transient=True)


@pytest.mark.parametrize("text, value", [("1 second", 1.0), ("250 milliseconds", 0.25), ("2 minutes", 120.0)])
def test_an_interval_in_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


def test_the_wait_doubles_and_a_step_begins_the_count_again() -> None:
    retries_seen: list[Retry] = []
    slept: list[float] = []
    retries = Retries(8, 1.5, retries_seen.append, sleep=slept.append)
    assert all(retries.wait(AWAY, 3) for _ in range(8))
    assert not retries.wait(AWAY, 3)
    assert retries.wait(AWAY, 4)
    assert [retry.seconds for retry in retries_seen] == [1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 60.0, 60.0, 1.5]
    assert [retry.number for retry in retries_seen] == [*range(1, 9), 1]
    assert sum(slept) == sum(retry.seconds for retry in retries_seen)


def test_without_a_source_there_is_no_limit_unless_nothing_is_to_be_tried_again() -> None:
    seen: list[Retry] = []
    gone = iter([True] * 2000 + [False])
    retries = Retries(2, 1.0, seen.append, sleep=lambda _: None, source_is_gone=lambda: next(gone))
    while retries.wait(AWAY, 0):
        pass
    assert [retry.limit for retry in seen] == [2, 2] + [None] * 2000
    assert [retry.seconds for retry in seen[:3]] == [1.0, 2.0, 60.0]
    assert not Retries(0, 1.0, source_is_gone=lambda: True).wait(AWAY, 0)


@pytest.mark.parametrize("error", [ConfigError("x"), SourceError("x"), ChangefeedError("x")])
def test_permanent_errors_are_not_retried(error: ChangefeedError) -> None:
    assert not Retries(8, 1.0, sleep=lambda _: None).wait(error, 0)


def test_a_request_to_stop_ends_the_wait() -> None:
    slept: list[float] = []
    assert not Retries(8, 30.0, stopping=lambda: bool(slept), sleep=slept.append).wait(AWAY, 0)
    assert slept == [1.0]


def test_an_error_from_an_executor_stays_transient_or_permanent() -> None:
    import traceback

    def text(error: Exception) -> str:
        return (
            "Traceback (most recent call last):\n"
            + "".join(traceback.format_exception_only(error))
            + "\n\tat org.apache.x\n"
        )

    passing, lasting = translated(text(AWAY)), translated(text(SourceError("gone")))
    assert isinstance(passing, SourceError)
    assert isinstance(lasting, SourceError)
    assert (str(passing), passing.transient) == ("brokers are away", True)
    assert (str(lasting), lasting.transient) == ("gone", False)
