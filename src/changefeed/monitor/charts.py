"""Draws a line over time as SVG, without scripts and styles of its own: classes of `static/style.css` give it colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH, HEIGHT = 640, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 10, 12, 26
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Chart:
    """A line chart.

    Attributes:
        line: the points of the polyline, in the form of SVG.
        area: those of the area below the line.
        ticks: (y, text) of the lines of the grid.
        first, last: the times at both ends, as text.
        title: a sentence with the newest, lowest and highest value, for those who do not see the line.
    """

    line: str
    area: str
    ticks: tuple[tuple[float, str], ...]
    first: str
    last: str
    title: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def chart(points: Sequence[tuple[datetime, float]], what: str, unit: str) -> Chart | None:
    """Returns the chart of values over time; None with fewer than two points.

    Args:
        points: times and values, oldest first; no value is negative.
        what: what the values are, for the title.
        unit: their unit.
    """
    if len(points) < 2:
        return None
    start, end = points[0][0], points[-1][0]
    seconds = max((end - start).total_seconds(), 0.001)
    step, top = _scale(max(value for _, value in points))
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def x(time: datetime) -> float:
        return round(_LEFT + (time - start).total_seconds() / seconds * (right - _LEFT), 1)

    def y(value: float) -> float:
        return round(bottom - value / top * (bottom - _TOP), 1)

    line = " ".join(f"{x(time)},{y(value)}" for time, value in points)
    values = [value for _, value in points]
    title = (
        f"{what}, {len(points)} points: newest {number(values[-1])} {unit}, lowest {number(min(values))} {unit}, "
        f"highest {number(max(values))} {unit}"
    )
    ticks = tuple((y(step * n), _short(step * n)) for n in range(round(top / step) + 1))
    first, last = (time.strftime("%m-%d %H:%M:%S") for time in (start, end))
    return Chart(line, f"{_LEFT},{bottom} {line} {right},{bottom}", ticks, first, last, title)


def number(value: float) -> str:
    """A number for people: three digits that count, thousands with commas."""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}".rstrip("0").rstrip(".")


def _scale(highest: float) -> tuple[float, float]:
    """The distance of the grid's lines, and the value at the top: two to five lines."""
    if highest <= 0:
        return 1.0, 1.0
    power = 10.0 ** math.floor(math.log10(highest / 2))
    step = next((factor * power for factor in _STEPS if factor * power * 4 >= highest), 10 * power)
    return step, step * max(1, math.ceil(highest / step))


def _short(value: float) -> str:
    """A number that fits beside the chart: `28 M`."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            return number(value / (1e3 if unit == " k" else size)) + unit
    return number(value)
