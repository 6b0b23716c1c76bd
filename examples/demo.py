#!/usr/bin/env python3
"""A shop's history into Delta or Iceberg tables, on this machine, in about a minute: `make demo`, `make demo SINK=iceberg`.

It runs the commands that you would type, then reads what they wrote with another reader (the packages `deltalake` and
`pyiceberg`, no Spark), and follows one order from the log into its table. Each run starts afresh. Of changefeed it uses the
public names alone: `import changefeed as cf`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from rich.console import Console
from rich.table import Table

import changefeed as cf

ROOT = Path(__file__).resolve().parent.parent
SHOP = Path("examples") / "shop"
ORDER = 18446744073709000377
WIDEST, ROWS = 22, 3

console = Console(width=110, highlight=False, markup=False, no_color=True)


def delta(lake: Path, name: str, version: int) -> pa.Table:
    """One version of a Delta table, `database.table`, below the folder of all tables."""
    table = DeltaTable(lake.joinpath(*name.split(".")), version=version)
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def iceberg(lake: Path, name: str, version: int) -> pa.Table:
    """One snapshot of an Iceberg table, `database.table`, in the catalog of the folder."""
    from pyiceberg.catalog import load_catalog  # not needed for Delta tables

    catalog = load_catalog("changefeed", type="sql", uri=f"sqlite:///{lake}/catalog.db")
    try:
        return catalog.load_table(name).scan(snapshot_id=version).to_arrow()
    finally:
        catalog.close()


@dataclass(frozen=True)
class Sink:
    """A kind of table: its pipeline, the folder of its tables, and another reader."""

    words: str
    pipeline: Path
    lake: Path
    read: Callable[[Path, str, int], pa.Table]

    def rows(self, name: str, version: int) -> list[dict[str, Any]]:
        """The rows of one version of a table, `database.table`."""
        return list(self.read(ROOT / self.lake, name, version).to_pylist())


SINKS = {
    "delta": Sink("another Delta reader", SHOP / "pipeline.yaml", SHOP / "out" / "lake", delta),
    "iceberg": Sink("PyIceberg", SHOP / "iceberg.yaml", SHOP / "out" / "iceberg", iceberg),
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "delta"
    if name not in SINKS:
        sys.exit(f"SINK={name}: expected {' or '.join(SINKS)}")
    sink = SINKS[name]
    pipeline = str(sink.pipeline)
    shutil.rmtree(ROOT / sink.lake, ignore_errors=True)
    say("1. What would happen, before anything does")
    changefeed("explain", pipeline)
    say("2. Apply all that the log has, then stop")
    changefeed("run", pipeline, "--once")
    status = cf.Pipeline.load(ROOT / pipeline).status()
    say(f"3. The tables, read by {sink.words}")
    for table, version in sorted(status.cuts[-1].tables.items()):
        show_table(sink, table, version)
    say(f"4. One change, explained: order {ORDER}")
    explain_order(sink, status)
    say("5. What to try next")
    console.print(NEXT.format(pipeline=pipeline, lake=sink.lake), soft_wrap=True)
    return 0


def say(title: str) -> None:
    console.print(f"\n{title}\n{'─' * len(title)}")


def changefeed(*args: str) -> None:
    """Runs one command as a user would."""
    console.print("$ changefeed", *args)
    sys.stdout.flush()
    done = subprocess.run([sys.executable, "-m", "changefeed.cli", *args], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def show_table(sink: Sink, name: str, version: int) -> None:
    """The first rows of a table, values cut short."""
    shown = sink.rows(name, version)
    console.print(f"\n{name}, version {version}: {len(shown)} rows")
    columns = list(shown[0])[:5]
    table = Table(box=None, pad_edge=False)
    for title in [*columns, *(["…"] if len(shown[0]) > len(columns) else [])]:
        table.add_column(title, no_wrap=True)
    for row in sorted(shown, key=lambda row: str([row[c] for c in columns]))[:ROWS]:
        table.add_row(*[cut_short(row[c]) for c in columns])
    console.print(table)


def cut_short(value: Any) -> str:
    shown = "NULL" if value is None else value if isinstance(value, str) else str(value)
    shown = "".join(c if c.isprintable() else "·" for c in shown)
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def events_of_order() -> Iterator[cf.RowChange | cf.SchemaChange]:
    """The changes of the order in the log, and the schema changes of its table."""
    statements: set[str | None] = set()
    for event in cf.read(ROOT / SHOP / "history.jsonl.gz", protocol="ticdc-open"):
        if isinstance(event, cf.RowChange) and event.key == {"id": ORDER}:
            yield event
        if isinstance(event, cf.SchemaChange) and event.table == "orders" and event.ddl not in statements:
            statements.add(event.ddl)  # every partition has it
            yield event


def explain_order(sink: Sink, status: cf.Status) -> None:
    """The order's events in the log, its row in the table, and the cut that the row belongs to."""
    console.print("\nIn the log (commit time, change, topic:partition:offset):")
    for event in sorted(events_of_order(), key=lambda event: event.commit_ts or 0):
        console.print(f"  {event.commit_time:%H:%M:%S}  {event}", soft_wrap=True)
    last = status.cuts[-1]
    console.print("\nIn the table:")
    for cut in status.cuts:
        if "shop.orders" in cut.tables:
            version = cut.tables["shop.orders"]
            shown = [row for row in sink.rows("shop.orders", version) if row["id"] == ORDER]
            console.print(f"  cut {cut.commit_ts}, version {version} of shop.orders")
            for row in shown:
                console.print("   ", ", ".join(f"{n}: {cut_short(v)}" for n, v in row.items()), soft_wrap=True)
    console.print(EXPLANATION.format(commit_ts=last.commit_ts), soft_wrap=True)


EXPLANATION = """
  id        is above 2^63: bigint unsigned upstream, decimal(20,0) here
  status    the log has the member's number; CREATE TABLE named the members
  priority  ALTER TABLE … ADD COLUMN … DEFAULT 3 gave it to every order there was; only later rows carry it
  remark    was called note when the order was placed

At {commit_ts} all tables are what they were upstream at this very moment: the ledger pins one version of each."""

NEXT = f"""
  changefeed status {{pipeline}}            positions, cuts, what waits
  changefeed run {{pipeline}} --once        again: nothing to do
  changefeed decode {SHOP}/history.jsonl.gz --protocol ticdc-open
  changefeed init                                      a pipeline of your own

`changefeed` is in .venv/bin, the tables are in {{lake}}, and docs/guides/quickstart.md goes on from here."""

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # a file, as Python starts
    sys.exit(main())
