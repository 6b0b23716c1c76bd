"""Decoding speed of each protocol, compared with the usual alternatives, in one run.

The same changes are decoded from every form of every protocol. In process, one core: CPU seconds of this process, the best
of several runs; the library converts values to Python objects without types and checks; reference and kernel make typed
columns with all checks. On Spark, all cores: see `on_spark`.
"""

from __future__ import annotations

import json as json_module
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from changefeed.bench import on_spark, spark_peers, turns
from changefeed.bench.changes import FORMS, Workload, workload
from changefeed.bench.peers import PEERS
from changefeed.codec.decoding import decoder
from changefeed.errors import ConfigError, MissingExtraError
from changefeed.protocols.base import Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Approximate number of rows and bytes of values: with fewer, the start of jobs would dominate. `spark` is in a heap of 3 GiB,
# `files` on disk.
ON_SPARK = {"spark": (300_000, 300_000_000), "files": (1_000_000, 600_000_000)}


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one way to decode; MB are 10^6 bytes of record values.

    Attributes:
        form: a key of `changes.FORMS`.
        where: `core`, one core of one process; `spark` and `files`, all cores, see `on_spark`.
        ratio: speed relative to the usual alternative; None for the alternative itself.
    """

    form: str
    where: str
    what: str
    seconds: float
    rows_per_second: float
    mb_per_second: float
    ratio: float | None


def run(rows: int, *, spark: bool = True, json: bool = False) -> Iterator[str]:
    """Measures, and yields the results line by line.

    Args:
        rows: number of changes of each form.
        spark: whether to measure on Spark too.
        json: yield one JSON object per measurement instead of a table.
    """
    if not json:
        yield f"{'where':<6} {'form':<23} {'what':<10} {'rows/s':>12} {'MB/s':>8} {'':>8}".rstrip()
    for s in _all(rows, spark=spark):
        ratio = "" if s.ratio is None else f"{s.ratio:.3g} x"
        speed = f"{s.rows_per_second:>12,.0f} {s.mb_per_second:>8,.1f} {ratio:>8}"
        line = f"{s.where:<6} {s.form:<23} {s.what:<10} {speed}".rstrip()
        yield json_module.dumps(asdict(s)) if json else line


def _all(rows: int, *, spark: bool) -> Iterator[Speed]:
    works = [workload(form, rows) for form in FORMS]
    for work in works:
        yield from measure(work)
    if spark:
        with on_spark.session() as started:
            for work in works:
                yield from measure_on_spark(started, work)


def measure(work: Workload) -> Iterator[Speed]:
    """Measures the library if it is installed, the reference, and the kernel if it supports the protocol."""
    values = work.values
    seconds = turns.fastest(dict(_ways(work, values)), once="reference")
    yield from _speeds(work, "core", seconds, _peer(work)[0], times=1)


def measure_on_spark(spark: SparkSession, work: Workload) -> Iterator[Speed]:
    """Measures Spark's own function for such values if there is one, the stage `decode`, and transfer without decoding."""
    copies = {where: _copies(work, *most) for where, most in ON_SPARK.items()}
    usual = spark_peers.usual(work.form, work.values, work.schemas)
    with tempfile.TemporaryDirectory() as folder:
        options = dict(work.options)
        if work.schemas:
            listed = [{"id": number, "subject": str(number), "schema": text} for number, text in work.schemas.items()]
            file = Path(folder) / "schemas.json"
            file.write_text(json_module.dumps(listed))
            options["schema-registry"] = str(file)
        records = pa.Table.from_batches(work.batches)
        seconds_by_place = on_spark.measure(spark, records, copies, work.protocol, options, usual)
    for where, seconds in seconds_by_place.items():
        yield from _speeds(work, where, seconds, None if usual is None else usual[0], copies[where])


def _copies(work: Workload, rows: int, size: int) -> int:
    """Returns the number of copies of the records, a multiple of the number of cores."""
    cores, wanted = os.cpu_count() or 1, min(rows / work.rows, size / sum(map(len, work.values)))
    return max(1, math.ceil(wanted / cores)) * cores


def _speeds(work: Workload, where: str, seconds: dict[str, float], usual: str | None, times: int) -> Iterator[Speed]:
    rows, size = work.rows * times, sum(map(len, work.values)) * times
    for what, took in seconds.items():
        ratio = seconds[usual] / took if usual in seconds and what != usual else None
        yield Speed(work.form, where, what, took, rows / took, size / took / 1e6, ratio)


def _ways(work: Workload, values: list[bytes]) -> Iterator[tuple[str, Callable[[], Any]]]:
    name, library = _peer(work)
    with suppress(MissingExtraError):
        yield name, library(values, work.schemas)
    yield "reference", lambda: decode(work, "off")
    try:
        _decoder(work, "on")
    except ConfigError:
        return
    yield "kernel", lambda: decode(work, "on")


def _peer(work: Workload) -> tuple[str, Callable[[Sequence[bytes], Mapping[int, str]], Callable[[], Any]]]:
    return PEERS[FORMS[work.form][1].values]


def _decoder(work: Workload, kernel: Literal["on", "off"]) -> Any:
    return decoder(work.protocol, work.options, Stores(get_schema=work.schemas.__getitem__), kernel=kernel)


def decode(work: Workload, kernel: Literal["on", "off"]) -> None:
    """Decodes the records with a new decoder."""
    decodes, rows = _decoder(work, kernel), 0
    for batch in work.batches:
        decoded = decodes.decode(batch)
        assert not decoded.dead, "all rows of the workload are valid"
        rows += sum(map(len, decoded.tables))
    assert rows == work.rows
