"""Iceberg tables in a local folder, and writes to them by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable

from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import ConvertedFrom, Write, WriteId
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


COLUMNS = {
    "tiny tinyint": (-128, 127), "small smallint unsigned": (0, 65535), "whole int": (-(2**31), 2**31 - 1),
    "big bigint": (-(2**63), 2**63 - 1), "huge bigint unsigned": (Decimal(0), Decimal(2**64 - 1)),
    "money decimal(20,4)": (Decimal("-0.0001"), Decimal("9999999999999999.9999")), "long decimal(65,30)": ("-1.5", "9" * 35),
    "half float": (-0.5, 3.0), "real double": (-1e308, 1e-308), "day date": (date(1000, 1, 1), date(9999, 12, 31)),
    "wall datetime(6)": (datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),
    "moment timestamp(3)": (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)),
    "span time(3)": ("-838:59:59.000", "00:00:00.001"), "text varchar(40)": ("", "z" * 40),
    "data varbinary(40)": (b"", b"\xff" * 40), "flag boolean": (False, True), "doc json": ("{}", "[1]"),
    "place point": ({"srid": 0, "wkb": b"\x01"}, {"srid": 4326, "wkb": b"\x02"}), "vec vector(2)": ([0.5, 1.0], [-2.0, 3.5]),
}  # fmt: skip

KEYS = [name for name in COLUMNS if not name.startswith(("half", "real", "place", "vec"))]


def same(actual: list[Row], wanted: list[Row]) -> bool:
    """Whether the rows are the same, in any order."""
    return len(actual) == len(wanted) and all(row in actual for row in wanted)


WIDE = table("*id int", "note varchar(20)", "total decimal(10,2)", "size smallint", "weight float")


def kept(name: str, of: Any = WIDE, **others: Any) -> ConvertedFrom:
    """The values of a column."""
    return ConvertedFrom(column=name, type=next(c.type for c in of.columns if c.name == name), **others)
