"""A pipeline from a database into Delta tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import changefeed as cf
from changefeed.pipeline.ledger import read_ledger
from tests.pipeline.kit.tables import rows
from tests.services.database import Database


def load(folder: Path, database: Database, **source: Any) -> cf.Pipeline:
    """A pipeline of all tables of `shop`, with further options of the source."""
    more = "".join(f"\n  {name}: {value}" for name, value in source.items())
    (folder / "pipeline.yaml").write_text(
        f"source:\n  type: mysql\n  host: 127.0.0.1\n  port: {database.port}\n  user: dbz\n  password: dbz\n  tables: ['shop.*']"
        f"{more}\nsink: {{type: delta, path: lake}}\npipeline: {{name: capture}}\n"
    )
    return cf.Pipeline.load(folder / "pipeline.yaml")


def tables(pipeline: cf.Pipeline, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table at the last cut."""
    latest = read_ledger(pipeline.definition).latest()
    assert latest is not None
    return {
        name: sorted(rows(folder / "lake" / t.path, t.version, t.table), key=repr)
        for name, t in latest.state.tables.items()
    }
