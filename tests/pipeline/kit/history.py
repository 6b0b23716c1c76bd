"""A history of three tables in a few lines, with every kind of change that a step can hold, as a record log.

    orders    created, filled, a column added, one dropped, keys changed, rows deleted, renamed to sales, filled on
    notes     no key, appended to, truncated
    drafts    created, and never filled

Two partitions that lag behind each other; each transaction has a commit_ts of its own, marks come every few of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from changefeed import record_log
from changefeed.model import text
from changefeed.model.table import canonical
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores

_STEP = 1 << 18  # one millisecond of a TSO


class HistoryBuilder:
    """Events of two partitions, as they would arrive."""

    def __init__(self, partitions: int = 2) -> None:
        self.ts = 450_000_000_000_000_000
        self.partitions = partitions
        self._offsets = [0] * partitions
        self._lines: list[str] = []

    def schema(self, database: str, table: str | None, ddl: str) -> int:
        """One DDL statement, to every partition. Returns its commit_ts."""
        self.ts += _STEP
        for partition in range(self.partitions):
            self._line(partition, kind="schema", type="other", database=database, table=table, ddl=ddl)
        return self.ts

    def rows(self, *changes: tuple[str, dict[str, Any] | None, dict[str, Any] | None]) -> int:
        """One transaction: (table, before, after) each; the row's first value decides its partition."""
        self.ts += _STEP
        for table, before, after in changes:
            op = "insert" if before is None else "delete" if after is None else "update"
            image = after or before or {}
            keys = [name for name in image if name == "id"]
            columns = [{"name": n, "type": _type(n), "nullable": n != "id", "key": n in keys} for n in image]
            shape = canonical([table, columns])
            shape_line = {
                "kind": "shape",
                "shape": shape,
                "database": "app",
                "table": table,
                "columns": columns,
                "wire": None,
            }
            self._lines.append(canonical(shape_line))
            irregular = {name: value for name, value in (after or {}).items() if value == "0000-00-00"}
            self._line(
                next(iter(image.values())) % self.partitions,
                kind="row", op=op, database="app", table=table, shape=shape, keys=keys, before=before,
                after=after and after | dict.fromkeys(irregular), **({"irregular": irregular} if irregular else {}),
            )  # fmt: skip
        return self.ts

    def resolved(self, *partitions: int) -> int:
        """A mark at the last commit_ts, on all partitions or on those named."""
        for partition in partitions or range(self.partitions):
            self._line(partition, kind="resolved", partition=partition)
        return self.ts

    @property
    def records(self) -> int:
        """The number of records if each row is a record of its own."""
        return sum(json.loads(line)["kind"] != "shape" for line in self._lines)

    def write(self, path: Path, stores: Stores | None = None, **options: Any) -> Path:
        """The history as a record log of `ticdc-open`, by default a record for each row."""
        ticdc_open = protocol("ticdc-open")
        settings = {"max-batch-size": 1} | {name.replace("_", "-"): value for name, value in options.items()}
        encoder = ticdc_open.encoder(ticdc_open.read_options(settings), stores or Stores())
        record_log.write(path, [encoder.encode(events) for events in text.parse(self._lines)])
        return path

    def _line(self, to: int, **fields: Any) -> None:
        place = f"app:{to}:{self._offsets[to]}"
        self._offsets[to] += 1
        self._lines.append(canonical({**fields, "commit_ts": self.ts, "position": place}))


def _type(name: str) -> str:
    types = {"id": "bigint", "total": "decimal", "note": "varchar", "qty": "int", "n": "int"}
    return (types | {"unit price": "int", "price": "int", "day (first)": "date"})[name]


def small_history(path: Path) -> tuple[Path, list[int]]:
    """The log, and the commit_ts of its marks."""
    h = HistoryBuilder()
    marks = []
    h.schema("app", None, "CREATE DATABASE `app`")
    h.schema(
        "app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`total` DECIMAL(10,2),PRIMARY KEY(`id`))"
    )
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    for i in range(6):
        h.rows(("orders", None, {"id": i, "total": f"{i}.50"}), ("notes", None, {"n": i, "note": f"order {i}"}))
    marks.append(h.resolved())
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
    h.rows(("orders", {"id": 1, "total": "1.50", "note": None}, {"id": 1, "total": "9.00", "note": "dear"}))
    h.rows(("orders", {"id": 2, "total": "2.50", "note": None}, None), ("notes", None, {"n": 2, "note": "gone"}))
    h.resolved(0)
    h.rows(("orders", {"id": 3, "total": "3.50", "note": None}, {"id": 30, "total": "3.50", "note": "moved"}))
    marks.append(h.resolved())
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` DROP COLUMN `total`")
    h.rows(("orders", None, {"id": 7, "note": "new"}))
    h.schema("app", "orders", "RENAME TABLE `app`.`orders` TO `app`.`sales`")
    h.rows(("sales", {"id": 7, "note": "new"}, {"id": 7, "note": "sold"}), ("sales", None, {"id": 8, "note": "more"}))
    h.schema("app", "notes", "TRUNCATE TABLE `app`.`notes`")
    h.rows(("notes", None, {"n": 9, "note": "after"}))
    h.schema("app", "drafts", "CREATE TABLE `app`.`drafts` (`id` BIGINT NOT NULL,PRIMARY KEY(`id`))")
    marks.append(h.resolved())
    h.rows(("sales", None, {"id": 99, "note": "after the last mark"}))
    return h.write(path), marks


def lagging_history(path: Path) -> Path:
    """Schema changes of every kind between rows of both partitions; keys stay in theirs, and marks come at the end."""
    h = HistoryBuilder()
    h.schema("app", None, "CREATE DATABASE `app`")
    h.schema(
        "app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`total` DECIMAL(10,2),PRIMARY KEY(`id`))"
    )
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    for i in range(4):
        h.rows(("orders", None, {"id": i, "total": f"{i}.50"}), ("notes", None, {"n": i, "note": f"order {i}"}))
    h.schema("app", "notes", "TRUNCATE TABLE `app`.`notes`")
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
    for i in (4, 5):
        h.rows(("orders", None, {"id": i, "total": "1.00", "note": "dear"}), ("notes", None, {"n": i, "note": "kept"}))
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` DROP COLUMN `total`")
    h.rows(("orders", {"id": 1, "note": None}, None), ("orders", None, {"id": 6, "note": "new"}))
    h.schema("app", "orders", "RENAME TABLE `app`.`orders` TO `app`.`sales`")
    for i in (2, 3):
        h.rows(("sales", {"id": i, "note": None}, {"id": i, "note": "sold"}), ("notes", None, {"n": i, "note": "last"}))
    h.schema("app", "drafts", "CREATE TABLE `app`.`drafts` (`id` BIGINT NOT NULL,PRIMARY KEY(`id`))")
    h.resolved()
    return h.write(path)
