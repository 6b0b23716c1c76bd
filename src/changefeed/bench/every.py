"""How fast records of each protocol become columns, on one core, against the library that one would use instead.

The same changes in every protocol, CPU seconds of this process, the best of several runs. The library makes Python
objects of values, nothing typed and nothing checked; reference and kernel make typed columns and check everything.
"""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from changefeed.bench.changes import Workload, workload
from changefeed.bench.peers import PEERS
from changefeed.errors import ConfigError, MissingExtraError
from changefeed.kernel import decoder
from changefeed.protocols import PROTOCOLS
from changefeed.protocols.base import Stores

_RUNS = 3


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one way was; MB are 10^6 bytes of record values.

    Attributes:
        ratio: how many times as fast as the library.
    """

    protocol: str
    what: str
    seconds: float
    rows_per_second: float
    mb_per_second: float
    ratio: float | None


def run(rows: int, *, json: bool = False) -> list[str]:
    """Measures, and returns the lines to print."""
    found = [speed for name in PROTOCOLS for speed in measure(workload(name, rows))]
    if json:
        return [json_module.dumps(asdict(speed)) for speed in found]
    lines = [f"{'protocol':<15} {'what':<10} {'rows/s':>12} {'MB/s':>8} {'':>8}"]
    for s in found:
        ratio = "" if s.ratio is None else f"{s.ratio:.2g} x"
        lines.append(f"{s.protocol:<15} {s.what:<10} {s.rows_per_second:>12,.0f} {s.mb_per_second:>8,.1f} {ratio:>8}")
    return [line.rstrip() for line in lines]


def measure(work: Workload) -> Iterator[Speed]:
    """The library, the reference, and the kernel where it has a twin; a library that is not installed is left out."""
    values = work.values
    size, usual = sum(map(len, values)), None
    for what, way in _ways(work, values):
        runs = 1 if what == "reference" else _RUNS
        seconds = max(min(_timed(way) for _ in range(runs)), 1e-9)
        usual = seconds if what == PEERS[work.protocol][0] else usual
        ratio = None if usual is None or usual == seconds else usual / seconds
        yield Speed(work.protocol, what, seconds, work.rows / seconds, size / seconds / 1e6, ratio)


def _ways(work: Workload, values: list[bytes]) -> Iterator[tuple[str, Callable[[], Any]]]:
    name, library = PEERS[work.protocol]
    with suppress(MissingExtraError):
        yield name, library(values, work.schemas)
    yield "reference", lambda: _decode(work, "off")
    try:
        _decoder(work, "on")
    except ConfigError:
        return
    yield "kernel", lambda: _decode(work, "on")


def _decoder(work: Workload, kernel: Literal["on", "off"]) -> Any:
    return decoder(work.protocol, work.options, Stores(get_schema=work.schemas.__getitem__), kernel=kernel)


def _decode(work: Workload, kernel: Literal["on", "off"]) -> None:
    decodes, rows = _decoder(work, kernel), 0
    for batch in work.batches:
        decoded = decodes.decode(batch)
        assert not decoded.dead, "the workload is made of sound rows"
        rows += sum(map(len, decoded.tables))
    assert rows == work.rows


def _timed(way: Callable[[], Any]) -> float:
    start = time.process_time()
    way()
    return time.process_time() - start
