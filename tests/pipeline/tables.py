"""Delta tables as canonical rows, read by a reader that is not Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from changefeed.frames.convert import to_canonical
from changefeed.model.definition import Table


def rows(path: str | Path, version: int | None, table: Table) -> list[dict[str, Any]]:
    """The rows of one version of a Delta table, with the values of the canonical text."""
    result = QueryBuilder().register("t", DeltaTable(str(path), version=version)).execute("select * from t").read_all()
    arrow = pa.table(result)
    columns = {c.name: to_canonical(arrow.column(c.name), c.type) for c in table.columns}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
