"""Measures a ledger's cost: a step, the newest state, `status`; after one step, after a thousand, after a hundred thousand.

    python bench/ledger.py [--tables 1000] [--partitions 64] [--steps 100000] [--out FILE]

The state has `--tables` tables of ten columns and `--partitions` partitions. Each step writes one table in ten and begins
with a plan. Timed steps make their files durable (fsync). For the steps between them the store writes the pages, but
not the entries that it would delete again, so that a hundred thousand take a minute; their states have `--few` tables. Each
piece of work is repeated `--repeat` times: the shortest wall time is reported, because others may use the machine, and the
CPU time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.planning.actions import Action, Plan, Selection
from changefeed.pipeline.state import Counts, LastWrite, State, TableState
from changefeed.pipeline.store.base import cut_of
from changefeed.pipeline.store.files import _PAGE, FileStore
from changefeed.pipeline.store.reading import FileReader
from changefeed.sinks.writes import Upsert
from changefeed.storage.local import LocalFolder
from tests.pipeline.kit.running import definition


def _state(step: int, tables: list[Table], partitions: int, before: State) -> State:
    """The state after a step that has written every tenth table."""
    tables_before = before.tables or {f"{t.database}.{t.name}": TableState(t, f"shop/{t.name}", True) for t in tables}
    tables_before = {
        name: replace(table, written=LastWrite(step, 1, step, 1)) if n % 10 == step % 10 else table
        for n, (name, table) in enumerate(tables_before.items())
    }
    offsets = {"topic": {p: step * 100 + p for p in range(partitions)}}
    counts = Counts(step * 100, step * 90, step * 90, 0, 0, 0)
    return State(
        barrier=step,
        resolved=offsets,
        marks=offsets,
        latest=offsets,
        positions=offsets,
        tables=tables_before,
        counts=counts,
    )


def _plan(step: int, state: State) -> Plan:
    written = [t for t in state.tables.values() if t.written and t.written.step == step]
    merges = [
        Action(
            write=Upsert(path=t.path, number=1, table=t.table),
            changes=Selection(source=(t.table.database, t.table.name), after=step - 1, through=step),
        )
        for t in written
    ]
    return Plan(actions=list(merges), folders=("000001-0",), sums={}, state=state, notes=[])


def _step(store: FileStore, tables: list[Table], partitions: int) -> None:
    state = _state(store.step + 1, tables, partitions, store.state)
    store.begin(_plan(store.step + 1, state))
    store.finish(state)


def _cost(work: Callable[[], object], repeat: int) -> str:
    """Milliseconds: the least of the clock, and the median of the processor, of this process and those that it started."""
    clock, processor = list[float](), list[float]()
    for _ in range(repeat):
        start, used = time.perf_counter(), _processor()
        work()
        clock.append((time.perf_counter() - start) * 1000)
        processor.append((_processor() - used) * 1000)
    return f"{min(clock):>7.0f} {statistics.median(processor):>5.0f}"


def _processor() -> float:
    return sum(time_of for time_of in os.times()[:4])


def _size(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{len(files)} files, {sum(path.stat().st_size for path in files) / 2**20:.1f} MiB"


def main() -> None:
    """Makes a ledger, step by step, and measures on the way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    columns = tuple(Column(f"column_{n}", ColumnType("bigint"), nullable=n > 0, key=n == 0) for n in range(10))
    tables = [Table("shop", f"table_{n:04}", columns, ("column_0",)) for n in range(options.tables)]
    lines = [
        f"{options.tables} tables, {options.partitions} partitions. Milliseconds by the clock (least of "
        f"{options.repeat}; claim of 3, command of 1), and of the processor (median).",
        "           begin+finish        claim      latest()     status()      command",
        "steps done   clock  cpu    clock  cpu    clock  cpu    clock  cpu    clock  cpu   ledger",
    ]
    lake = Path(tempfile.mkdtemp(prefix="changefeed-bench-ledger-"))
    pipeline, folder = definition(lake / "none.jsonl", lake), lake / "_changefeed" / "ledger"
    try:
        store = FileStore(LocalFolder(str(folder)), "test")
        store.claim()
        for wanted in sorted({1, 1000, options.steps}):
            _go_on(store, wanted - store.step, tables[: options.few], options.partitions)
            lines.append(_measured(store, pipeline, folder, tables, options))
            print(lines[-1], flush=True)
    finally:
        shutil.rmtree(lake)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


def _go_on(store: FileStore, steps: int, tables: list[Table], partitions: int) -> None:
    """Steps of a small state, without their entries: pages, and one entry behind them."""
    state = replace(store.state, tables={})
    for step in range(store.step + 1, store.step + steps):
        state = _state(step, tables, partitions, state)
        number = store._head[0].number
        store._cuts.append((number, cut_of(1, step, store.now(), state, ())))
        store.step = step
        if len(store._cuts) >= _PAGE:
            store._head = (msgspec.structs.replace(store._head[0], **store._pack()), store._head[1])
    store.state = state
    _step(store, tables, partitions)


def _measured(
    store: FileStore, pipeline: object, folder: Path, tables: list[Table], options: argparse.Namespace
) -> str:
    done = store.step
    store.state = replace(store.state, tables={})
    _step(store, tables, options.partitions)  # writes the definitions
    step = _cost(lambda: _step(store, tables, options.partitions), options.repeat)
    claim = _cost(lambda: FileStore(LocalFolder(str(folder)), "test").claim(), 3)
    again = FileStore(LocalFolder(str(folder)), "test")
    again.claim()
    store.__dict__.update(again.__dict__)
    latest = _cost(FileReader(LocalFolder(str(folder)), "test").latest, options.repeat)
    own = _cost(lambda: status(pipeline, 1).to_dict(), options.repeat)  # type: ignore[arg-type]
    yaml = folder.parents[1] / "pipeline.yaml"
    yaml.write_text(
        "source: {type: files, path: x, protocol: ticdc-open}\nsink: {type: delta, path: .}\npipeline: {name: test}\n"
    )
    command = [sys.executable, "-m", "changefeed.cli", "status", str(yaml)]
    whole = _cost(lambda: subprocess.run(command, check=True, capture_output=True), 1)
    return f"{done:>10} {step} {claim} {latest} {own} {whole}   {_size(folder)}"


if __name__ == "__main__":
    main()
