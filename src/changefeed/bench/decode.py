"""Decoding speed of Open Protocol records: reference, kernel, and the usual alternatives.

In process, one core: CPU seconds of this process, the best of several runs. On Spark: see `on_spark`. Everything is
measured on the same rows in one run.

    json.loads, msgspec   only the values' JSON to Python objects: without types and checks
    reference, kernel     records to typed columns, with all checks
"""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from changefeed.bench import on_spark, turns, workload
from changefeed.bench.peers import messages
from changefeed.codec.decoding import decoder
from changefeed.model.batch import Decoded

if TYPE_CHECKING:
    from pyspark.sql import Column

PROTOCOL = "ticdc-open"
_BATCH = 4_000


@dataclass(frozen=True, slots=True)
class Measured:
    """The speed of one way to decode.

    Attributes:
        where: `core`, one core of one process; `spark` and `files`, all cores, see `on_spark`.
        what: the way, as in the module's table.
        rows_in_record: number of messages per record.
        seconds: for all rows.
        rows_per_second, mb_per_second: MB are 10^6 bytes of record values.
    """

    where: str
    what: str
    rows_in_record: int
    seconds: float
    rows_per_second: float
    mb_per_second: float


def run(records: int = 500_000, *, spark: bool = True, json: bool = False, seed: int = 1) -> list[str]:
    """Measures, and returns the lines to print.

    Args:
        records: number of rows.
        spark: whether to measure on Spark too.
        json: return one JSON object per measurement instead of a table.
        seed: seed of the rows.
    """
    measured = measure(records, spark=spark, seed=seed)
    if json:
        return [json_module.dumps(asdict(m)) for m in measured]
    return [*_table(measured), "", *_ratios(measured)]


def measure(records: int, *, spark: bool, seed: int = 1) -> list[Measured]:
    """Returns all measurements, in the order of the module's table."""
    single, batched = (workload.records(records, seed=seed, rows_in_record=n) for n in (1, 16))
    measured = list(_in_process(single, 1)) + list(_in_process(batched, 16))
    return measured + (list(_on_spark(single)) if spark else [])


def _in_process(records: pa.Table, rows_in_record: int) -> Iterator[Measured]:
    batches = records.combine_chunks().to_batches(-(-_BATCH // rows_in_record))
    bodies = [body for value in records.column("value").to_pylist() for body in messages(value)]
    size = sum(map(len, records.column("value").to_pylist()))
    ways: dict[str, Callable[[], Any]] = {
        "json.loads": lambda: all(json_module.loads(body) for body in bodies),
        "msgspec": lambda: all(msgspec.json.decode(body) for body in bodies),
        "reference": lambda: _decode_all("off", batches),
        "kernel": lambda: _decode_all("on", batches),
    }
    for what, seconds in turns.fastest(ways, once="reference").items():
        yield _measured("core", what, rows_in_record, seconds, len(bodies), size)


def _decode_all(kernel: Any, batches: list[pa.RecordBatch]) -> None:
    decodes = decoder(PROTOCOL, kernel=kernel)
    for batch in batches:
        _check(decodes.decode(batch))


def _check(decoded: Decoded) -> None:
    assert decoded.tables and not decoded.dead, "all rows of the workload are valid"  # noqa: PT018  # not a test: one message for both


def _measured(where: str, what: str, rows_in_record: int, seconds: float, rows: int, size: int) -> Measured:
    return Measured(where, what, rows_in_record, seconds, rows / seconds, size / seconds / 1e6)


def _on_spark(records: pa.Table) -> Iterator[Measured]:
    cores = os.cpu_count() or 1  # each decodes the records once
    size, copies = sum(map(len, records.column("value").to_pylist())), dict.fromkeys(("spark", "files"), cores)
    with on_spark.session() as spark:
        seconds_by_place = on_spark.measure(spark, records, copies, PROTOCOL, {}, ("from_json", _from_json))
    for where, ways in seconds_by_place.items():
        for what, seconds in ways.items():
            yield _measured(where, what, 1, seconds, len(records) * cores, size * cores)


def _from_json(value: Column) -> Column:
    from pyspark.sql import functions as f

    image = ", ".join(f"{name}: struct<v: {kind}>" for name, kind in workload.JSON_TYPES.items())
    schema = f"struct<u: struct<{image}>, p: struct<{image}>, d: struct<{image}>>"
    return f.from_json(f.substring(value, 9, 2**31 - 1).cast("string"), schema)


def _table(measured: list[Measured]) -> list[str]:
    lines = [f"{'where':<6} {'what':<11} {'rows in record':>14} {'rows/s':>12} {'MB/s':>8}"]
    for m in measured:
        speed = f"{m.rows_per_second:>12,.0f} {m.mb_per_second:>8,.1f}"
        lines.append(f"{m.where:<6} {m.what:<11} {m.rows_in_record:>14} {speed}")
    return lines


def _ratios(measured: list[Measured]) -> list[str]:
    speed = {(m.where, m.what, m.rows_in_record): m.rows_per_second for m in measured}
    pairs = [
        (("core", "kernel", 1), ("core", "json.loads", 1)),
        (("core", "kernel", 16), ("core", "json.loads", 16)),
        (("spark", "decode", 1), ("spark", "from_json", 1)),
        (("spark", "decode", 1), ("spark", "one way", 1)),
    ]
    lines = [
        f"{mine[0]}: {mine[1]} is {speed[mine] / speed[other]:.2f} x {other[1]}, {mine[2]} rows in a record"
        for mine, other in pairs
        if mine in speed
    ]
    return [*lines, f"{os.cpu_count()} cores"]
