"""Measures how long source offsets are where the log names no columns: they have the definitions of all captured tables.

    python bench/schema_histories.py [--tables 100 1000 3000] [--columns 20] [--json]

Each entry of a ledger has the source offset. A MariaDB with the default `binlog_row_metadata`, and one with `FULL`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from changefeed.sources.mysql import open_changes
from tests.services.database import Database, MariaDb
from tests.sources.mysql.following import section

_TYPES = ("VARCHAR(40)", "INT", "DECIMAL(12,2)", "DATETIME", "TEXT")


def created(number: int, columns: int) -> str:
    """The statement that creates a table; names of columns repeat in every seventh table."""
    listed = (f"column_{number % 7}_{place} {_TYPES[place % len(_TYPES)]}" for place in range(columns))
    return f"CREATE TABLE orders_{number} (id BIGINT PRIMARY KEY, {', '.join(listed)});"


def offset_bytes(database: Database, metadata: str) -> int:
    """The length of the source offset at which a pipeline begins that copies nothing."""
    database.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    source = open_changes(section(database, tables=["shop.*"], **{"snapshot.mode": "no_data"}))
    try:
        plan = source.plan(None, None)
        assert plan is not None
        return len(plan.after.text())
    finally:
        source.close()


def main() -> None:
    """Measures each number of tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, nargs="+", default=[100, 1000, 3000])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    there = 0
    with MariaDb() as database:
        database.execute("CREATE DATABASE shop")
        for count in sorted(arguments.tables):
            database.execute("".join(created(number, arguments.columns) for number in range(there, count)), "shop")
            there = count
            named, unnamed = offset_bytes(database, "FULL"), offset_bytes(database, "NO_LOG")
            result = {"tables": count, "columns": arguments.columns, "FULL": named, "NO_LOG": unnamed}
            each = (unnamed - named) / count
            print(json.dumps(result) if arguments.json else f"{count} tables: {unnamed} bytes, {each:.0f} a table more")


if __name__ == "__main__":
    main()
