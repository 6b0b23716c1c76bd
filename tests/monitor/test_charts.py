"""Charts and dumps: scales, ends, and what is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from changefeed.monitor.charts import chart, number
from changefeed.monitor.dumps import dump

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _points(*values: float) -> list[tuple[datetime, float]]:
    return [(NOON + timedelta(seconds=n), value) for n, value in enumerate(values)]


def test_a_line_from_the_left_to_the_right() -> None:
    made = chart(_points(0, 50, 100), "Lag", "seconds")
    assert made is not None
    assert made.line == "64.0,134.0 347.0,73.0 630.0,12.0"
    assert [text for _, text in made.ticks] == ["0", "25", "50", "75", "100"]
    assert made.title == "Lag, 3 points: newest 100 seconds, lowest 0 seconds, highest 100 seconds"
    assert (made.first, made.last) == ("03-01 12:00:00", "03-01 12:00:02")


@pytest.mark.parametrize("values", [(0.0, 0.0), (0.001, 0.001), (28_615_002.0, 1.0), (0.3, 0.7), (9.99e12, 0.0)])
def test_every_point_is_inside(values: tuple[float, ...]) -> None:
    made = chart(_points(*values), "Rate", "rows")
    assert made is not None
    assert 2 <= len(made.ticks) <= 6
    assert all(len(text) <= 8 for _, text in made.ticks)
    for point in made.line.split():
        x, y = map(float, point.split(","))
        assert made.left <= x <= made.right
        assert 0 <= y <= made.bottom


def test_one_point_is_not_a_line() -> None:
    assert chart(_points(1), "Lag", "seconds") is None


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (1234.5, "1,234"), (12.345, "12.3"), (1.5, "1.5"), (0.01234, "0.0123"), (100, "100")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_a_long_value_is_shown_around_its_error() -> None:
    made = dump("value", bytes(100_000), 50_000)
    assert (made.size, len(made.lines)) == (100_000, 256)
    assert made.before + made.after + 4096 == 100_000
    assert [(line.offset, n) for line in made.lines for n, (_, marked) in enumerate(line.bytes) if marked] == [
        (f"{50_000 // 16 * 16:08x}", 50_000 % 16)
    ]


def test_no_value_and_an_empty_one() -> None:
    assert dump("key", None).size is None
    assert (dump("key", b"").size, dump("key", b"").lines) == (0, ())
