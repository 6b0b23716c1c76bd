"""Iceberg tables in a local folder, and writes to them by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable

from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import Write, WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import Given, Row, apply, sorted_rows, table

PATH = "shop/orders"
ORDERS = table("*id int", "note varchar(20)")


@dataclass
class Tables:
    """A sink, and PyIceberg's own view of its tables."""

    root: Path
    step: int = 0
    epoch: int = 1
    options: TableOptions = field(default_factory=TableOptions)
    limits: Limits = field(default_factory=Limits)
    catalog: str = "test"

    @property
    def uri(self) -> str:
        """The URI of the catalog."""
        return f"sqlite:///{self.root}/catalog.db"

    def sink(self, metadata: tuple[str, ...] = ()) -> IcebergTables:
        properties = {"type": "sql", "uri": self.uri}
        folder = LocalFolder(str(self.root))
        catalog = TableCatalog(self.catalog, properties, "{database}", folder, f"file://{self.root}")
        return IcebergTables(catalog, metadata, None, "changefeed:test:1", self.limits, options=self.options)

    def write(
        self,
        sink: IcebergTables,
        kind: Any,
        *rows: Row,
        of: Any = ORDERS,
        path: str = PATH,
        deleted: Sequence[Row] = (),
        **fields: Any,
    ) -> None:
        """Makes a write in a step of its own, with changes if there are rows."""
        self.step += 1
        write: Write = kind(path=path, number=1, table=of, **fields)
        changes = Given(of, rows, tuple(deleted)) if rows or deleted else None
        apply(sink, write, changes, WriteId(self.epoch, self.step, 1), "{}")

    @contextmanager
    def opened(self, path: str = PATH) -> Iterator[IcebergTable]:
        """The table as PyIceberg opens it."""
        catalog = load_catalog(self.catalog, type="sql", uri=self.uri)
        try:
            yield catalog.load_table(tuple(path.split("/")))
        finally:
            catalog.close()

    def rows(self, path: str = PATH) -> list[Row]:
        """The rows as PyIceberg reads them, in the columns' order."""
        with self.opened(path) as table:
            read: pa.Table = table.scan().to_arrow()
        return sorted_rows(read.to_pylist())

    def ids(self, path: str = PATH) -> dict[str, int]:
        """Column -> field id."""
        with self.opened(path) as table:
            return {field.name: field.field_id for field in table.schema().fields}

    def files(self, path: str = PATH) -> set[str]:
        """The data files."""
        with self.opened(path) as table:
            return set(table.inspect.files().column("file_path").to_pylist())
