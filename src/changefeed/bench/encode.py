"""Encoding speed of each protocol that the kernel writes, on one core, compared with the encoder in Python.

The changes are always the same; CPU seconds of this process, the best of several runs. Both write the same bytes.
"""

from __future__ import annotations

import json as json_module
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

import pyarrow as pa

from changefeed.bench.changes import changes
from changefeed.codec.encoding import encoder
from changefeed.errors import ConfigError
from changefeed.model.batch import Decoded
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.by_columns import ColumnEncoder

_RUNS = 3
WAYS: tuple[tuple[str, Mapping[str, str]], ...] = tuple(
    (name, form.options)
    for name in PROTOCOLS
    if issubclass(cast(type, protocol(name).encoder), ColumnEncoder)
    for form in protocol(name).forms
    if form.values.endswith("json")  # the kernel writes text
)


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one way to encode; MB are 10^6 bytes of record values.

    Attributes:
        ratio: speed relative to the encoder in Python; None for that encoder itself.
    """

    protocol: str
    options: str
    what: str
    seconds: float
    rows_per_second: float
    mb_per_second: float
    ratio: float | None


def run(rows: int, *, json: bool = False) -> list[str]:
    """Measures, and returns the lines to print."""
    made = list(changes(rows, random.Random(1)))
    speeds = [speed for name, options in WAYS for speed in measure(name, options, made)]
    if json:
        return [json_module.dumps(asdict(speed)) for speed in speeds]
    lines = [f"{'protocol':<15} {'options':<29} {'what':<10} {'rows/s':>12} {'MB/s':>8} {'':>8}"]
    for s in speeds:
        ratio = "" if s.ratio is None else f"{s.ratio:.2g} x"
        speed = f"{s.rows_per_second:>12,.0f} {s.mb_per_second:>8,.1f} {ratio:>8}"
        lines.append(f"{s.protocol:<15} {s.options:<29} {s.what:<10} {speed}")
    return [line.rstrip() for line in lines]


def measure(name: str, options: Mapping[str, str], made: list[Decoded]) -> Iterator[Speed]:
    """Measures the encoder in Python, and the kernel if it is installed."""
    usual, expected = None, None
    shown = ", ".join(f"{option}={value}" for option, value in options.items())
    rows = sum(len(table) for changed in made for table in changed.tables)
    ways: tuple[tuple[str, Literal["on", "off"], int], ...] = (("encoder", "off", 1), ("kernel", "on", _RUNS))
    for what, kernel, runs in ways:
        try:
            written, seconds = _timed(name, options, made, kernel, runs)
        except ConfigError:
            return
        assert expected is None or written == expected, "both write the same bytes"
        size = sum(len(value) for batch in written for value in batch.column("value").to_pylist() if value is not None)
        yield Speed(name, shown, what, seconds, rows / seconds, size / seconds / 1e6, usual and usual / seconds)
        usual, expected = seconds, written


def _timed(
    name: str, options: Mapping[str, Any], made: list[Decoded], kernel: Literal["on", "off"], runs: int
) -> tuple[list[pa.RecordBatch], float]:
    """Returns the records, and the seconds of the fastest run."""
    written, fastest = [], float("inf")
    for _ in range(runs):
        encodes = encoder(name, options, kernel=kernel)
        start = time.process_time()
        written = [encodes.encode(changed) for changed in made]
        fastest = min(fastest, time.process_time() - start)
    return written, max(fastest, 1e-9)
