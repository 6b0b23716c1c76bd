"""Delta and Iceberg tables as canonical rows, read by a reader that is not Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog

from changefeed.frames.convert import to_canonical
from changefeed.model.definition import Table
from changefeed.pipeline.config.definition import Definition


def rows(path: str | Path, version: int | None, table: Table) -> list[dict[str, Any]]:
    """The rows of one version of a Delta table, with the values of the canonical text."""
    result = QueryBuilder().register("t", DeltaTable(str(path), version=version)).execute("select * from t").read_all()
    return canonical_rows(pa.table(result), table)


def sink_rows(pipeline: Definition, path: str, version: int | None, table: Table) -> list[dict[str, Any]]:
    """The rows of one version of a table of a pipeline, by its path below the sink's."""
    if pipeline.sink.type != "iceberg":
        return rows(f"{pipeline.sink.path}/{path}", version, table)
    properties = getattr(pipeline.sink, "catalog_properties", None)
    return canonical_rows(iceberg_table(pipeline.sink.path, path, version, properties), table)


def iceberg_table(
    folder: str | Path, path: str, version: int | None = None, properties: dict[str, str] | None = None
) -> pa.Table:
    """One version of an Iceberg table in the catalog with these properties; without them, in that of a local sink."""
    catalog = load_catalog("changefeed", **(properties or {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}))
    try:
        return catalog.load_table(tuple(path.split("/"))).scan(snapshot_id=version).to_arrow()
    finally:
        catalog.close()


def canonical_rows(arrow: pa.Table, table: Table) -> list[dict[str, Any]]:
    """The rows with the values of the canonical text."""
    columns = {c.name: to_canonical(arrow.column(c.name), c.type) for c in table.columns}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
