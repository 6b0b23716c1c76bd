#!/usr/bin/env python3
"""A shop's history into Delta tables, on this machine, in about a minute: `make demo`.

It runs the commands that you would type, then reads what they wrote with another Delta reader (the `deltalake` package,
no Spark), and follows one order from the log into its table. Each run starts afresh. Of changefeed it uses the public names
alone: `import changefeed as cf`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from rich.console import Console
from rich.table import Table

import changefeed as cf

ROOT = Path(__file__).resolve().parent.parent
SHOP = Path("examples") / "shop"
LAKE = SHOP / "out" / "lake"
ORDER = 18446744073709000377
WIDEST, ROWS = 22, 3

console = Console(width=110, highlight=False, markup=False, no_color=True)


def main() -> int:
    shutil.rmtree(ROOT / SHOP / "out", ignore_errors=True)
    pipeline = str(SHOP / "pipeline.yaml")
    say("1. What would happen, before anything does")
    changefeed("explain", pipeline)
    say("2. Apply all that the log has, then stop")
    changefeed("run", pipeline, "--once")
    status = cf.Pipeline.load(ROOT / pipeline).status()
    say("3. The tables, read by another Delta reader")
    for name, version in sorted(status.cuts[-1].tables.items()):
        show_table(name, version)
    say(f"4. One change, explained: order {ORDER}")
    explain_order(status)
    say("5. What to try next")
    console.print(NEXT, soft_wrap=True)
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


def rows(name: str, version: int, where: str = "true") -> list[dict[str, Any]]:
    """Rows of one version of a table, `database.table`."""
    table = DeltaTable(ROOT.joinpath(LAKE, *name.split(".")), version=version)
    result = QueryBuilder().register("t", table).execute(f"SELECT * FROM t WHERE {where}").read_all()
    return list(pa.table(result).to_pylist())


def show_table(name: str, version: int) -> None:
    """The first rows of a table, values cut short."""
    shown = rows(name, version)
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


def explain_order(status: cf.Status) -> None:
    """The order's events in the log, its row in the table, and the cut that the row belongs to."""
    console.print("\nIn the log (commit time, change, topic:partition:offset):")
    for event in sorted(events_of_order(), key=lambda event: event.commit_ts or 0):
        console.print(f"  {event.commit_time:%H:%M:%S}  {event}", soft_wrap=True)
    last = status.cuts[-1]
    console.print("\nIn the table:")
    for cut in status.cuts:
        if "shop.orders" in cut.tables:
            version = cut.tables["shop.orders"]
            shown = rows("shop.orders", version, f"id = {ORDER}")
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
  changefeed status {SHOP}/pipeline.yaml            positions, cuts, what waits
  changefeed run {SHOP}/pipeline.yaml --once        again: nothing to do
  changefeed decode {SHOP}/history.jsonl.gz --protocol ticdc-open
  changefeed init                                      a pipeline of your own

`changefeed` is in .venv/bin, the tables are in {LAKE}, and docs/guides/quickstart.md goes on from here."""

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # a file, as Python starts
    sys.exit(main())
