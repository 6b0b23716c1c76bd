"""Records of Debezium made from statements and rows, and a pipeline in memory that reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.table import Column
from changefeed.mysql import ddl
from changefeed.mysql.ddl.statements import CreateTable
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.planning.rules import rules_of
from changefeed.protocols import protocol
from changefeed.stages.changes import Redefinition
from tests.pipeline.kit.downstream import noted
from tests.pipeline.kit.in_memory import Storage, debezium_chunks, memory_definition, memory_flow

Record = dict[str, Any]
Row = dict[str, Any]
_PROTOCOL = "debezium-mysql"
_SIZED = frozenset({"datetime", "timestamp", "time", "char", "varchar", "binary", "varbinary", "bit"})


@dataclass
class MadeLog:
    """A log of one server; each statement and each row is a transaction.

    Attributes:
        records: the records so far, in the order in which the connector sends them.
    """

    records: list[Record] = field(default_factory=list)
    _count: int = 0

    def ddl(
        self, text: str, table: str = "t", after: str | None = None, *, database: str = "shop", **charsets: str
    ) -> MadeLog:
        """A statement.

        Args:
            text: the statement.
            table: its table.
            after: the table after it, as the columns and keys of CREATE TABLE; None for no `tableChanges`.
            database: the table's database.
            charsets: the character sets that the connector names, by column.
        """
        source = self._source(database, table)
        changes = [] if after is None else [table_change(database, table, after)]
        for column in changes[0]["table"]["columns"] if changes else ():
            column["charsetName"] = charsets.get(column["name"])
        value = {
            "source": source, "ts_ms": 1764000000000, "databaseName": database, "schemaName": None, "ddl": text,
            "tableChanges": changes,
        }  # fmt: skip
        self._add("srv", {"databaseName": database}, value)
        return self

    def row(
        self, after: Row | None, before: Row | None = None, table: str = "t", key: Sequence[str] = ("id",)
    ) -> MadeLog:
        """A row that is inserted, updated or deleted; `key` has the columns of the record's key."""
        source = self._source("shop", table)
        name = source["gtid"]
        self._add(
            "srv.transaction",
            {"id": name},
            {"status": "BEGIN", "id": name, "event_count": None, "data_collections": None, "ts_ms": 1},
        )
        image = after if after is not None else before
        assert image is not None
        value = {
            "before": before, "after": after, "source": source,
            "transaction": {"id": name, "total_order": 1, "data_collection_order": 1},
            "op": "c" if before is None else "d" if after is None else "u", "ts_ms": 1764000000000,
        }  # fmt: skip
        self._add(f"srv.shop.{table}", {c: image[c] for c in key} if key else None, value)
        collections = [{"data_collection": f"shop.{table}", "event_count": 1}]
        self._add(
            "srv.transaction",
            {"id": name},
            {"status": "END", "id": name, "event_count": 1, "data_collections": collections, "ts_ms": 1},
        )
        return self

    def rows(self, *rows: Row, table: str = "t", key: Sequence[str] = ("id",)) -> MadeLog:
        """Inserted rows."""
        for row in rows:
            self.row(row, table=table, key=key)
        return self

    def _source(self, database: str, table: str) -> dict[str, Any]:
        self._count += 1
        return {
            "version": "3.6.3.Final", "connector": "mysql", "name": "srv", "ts_ms": 1764000000000, "snapshot": "false",
            "db": database, "sequence": None, "table": table, "server_id": 1,
            "gtid": f"11111111-2222-3333-4444-555555555555:{self._count}", "file": "bin.000003", "pos": 100 * self._count,
            "row": 0, "thread": 7, "query": None,
        }  # fmt: skip

    def _add(self, topic: str, key: Any, value: Any) -> None:
        offset = sum(record["topic"] == topic for record in self.records)
        texts = [None if part is None else json.dumps(part).encode() for part in (key, value)]
        self.records.append({"topic": topic, "partition": 0, "offset": offset, "key": texts[0], "value": texts[1]})


def table_change(database: str, table: str, items: str) -> dict[str, Any]:
    """The description of a table by the connector."""
    [created] = ddl.parse(f"CREATE TABLE `{database}`.`{table}` ({items})", None)
    assert isinstance(created, CreateTable)
    carried = created.definition.carrying([v.name for v in created.virtual]).columns
    columns = [_described(column, place) for place, column in enumerate(carried, 1)]
    described = {"defaultCharsetName": None, "primaryKeyColumnNames": list(created.keys), "columns": columns}
    return {"type": "ALTER", "id": f'"{database}"."{table}"', "table": described}


def _described(column: Column, place: int) -> dict[str, Any]:
    t = column.type
    members = None if t.members is None else [f"'{m}'" for m in t.members]
    name = t.name.upper() + (" UNSIGNED" if t.unsigned else "")
    return {
        "name": column.name, "jdbcType": 0, "nativeType": None, "comment": None,
        "defaultValueExpression": None if column.default is None else column.default.strip("'"), "enumValues": members,
        "typeName": name, "typeExpression": name, "charsetName": None,
        "length": t.length if t.name in _SIZED or t.name in ("decimal", "tinyint", "float", "double") else None,
        "scale": t.scale, "position": place, "optional": column.nullable is not False, "autoIncremented": False,
        "generated": False,
    }  # fmt: skip


@dataclass
class Pipeline:
    """A pipeline in memory over records of Debezium; it may be run several times.

    Attributes:
        options: those of the section `pipeline`.
        notes: what the runs noted.
    """

    options: dict[str, Any] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    notes: list[str] = field(default_factory=list)
    _read: int = 0

    def run(self, log: MadeLog, *, batch: int | None = None, **options: Any) -> Pipeline:
        """Reads the rest of a log, at once or in batches of this many records, each with a step of its own."""
        flow, records = self._flow(options), log.records
        partitions = {(record["topic"], 0) for record in records}
        while self._read < len(records):
            fresh = records[self._read :][:batch]
            self._read += len(fresh)
            with noted(self.notes):
                flow.take(Batch(partial(debezium_chunks, fresh), "", partitions, caught_up=True))
                flow.step(flow.ledger.state, partitions, idle=True)
        return self

    def _flow(self, options: dict[str, Any]) -> Flow:
        definition = memory_definition(**self.options, **options)
        redefinition, capabilities = Redefinition(_PROTOCOL, {}), protocol(_PROTOCOL).capabilities
        rules = rules_of(definition, capabilities, redefinition)
        flow = memory_flow(self.storage, capabilities, definition, rules, redefinition)
        flow.begin()
        flow.recover()
        return flow

    def rows(self, name: str = "shop.t") -> list[Row]:
        """The rows of a table, sorted."""
        path = self.storage.published()[-1].tables[name].path
        return sorted(self.storage.tables.rows(path), key=repr)

    def types(self, name: str = "shop.t") -> dict[str, str]:
        """The columns of a table with their types."""
        return {c.name: str(c.type) for c in self.storage.published()[-1].tables[name].table.columns}


def applied(log: MadeLog, *, batch: int | None = None, behavior: str = "evolve", **options: Any) -> Pipeline:
    """A new pipeline that has read a log."""
    return Pipeline({"schema.change.behavior": behavior, **options}).run(log, batch=batch)


BOTH = pytest.mark.parametrize("consistency", ["transaction", "key"])

STEPS = pytest.mark.parametrize("batch", [None, 1])


def refusal(log: MadeLog, **options: Any) -> str:
    with pytest.raises(UnsupportedError) as error:
        applied(log, **options)
    return str(error.value)
