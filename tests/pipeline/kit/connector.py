"""Records of a Debezium connector, written by hand: schema changes of a whole server, rows of the tables that it captures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.flow import Batch, Flow
from changefeed.protocols import protocol
from tests.pipeline.kit.in_memory import Storage, debezium_chunks, memory_definition, memory_flow

Record = dict[str, Any]
Row = dict[str, Any]
_SERVER = "11111111-2222-3333-4444-555555555555"


class Connector:
    """Sends records, each with the next position of the binlog."""

    def __init__(self, delimiter: str = ".", routed: str | None = None) -> None:
        self.delimiter, self.routed = delimiter, routed
        self.position, self.number = 400, 0
        self.records: list[Record] = []
        self._offsets = Counter[str]()

    def ddl(self, database: str, table: str, text: str, snapshot: str = "false") -> None:
        """A schema change, in the topic that has those of all databases."""
        if snapshot == "false":
            self.number += 1
            self.position += 100
        value = {
            "source": self._source(database, table, snapshot),
            "ts_ms": 1,
            "databaseName": database,
            "schemaName": None,
            "ddl": text,
            "tableChanges": [],
        }
        self._send("srv", {"databaseName": database}, value)

    def read(self, database: str, table: str, row: Row, snapshot: str = "true") -> None:
        """A row of a snapshot, at the position of the last event."""
        value = {"before": None, "after": row, "source": self._source(database, table, snapshot), "op": "r", "ts_ms": 1}
        self._send(self.topic(database, table), {"id": row["id"]}, value)

    def rows(self, *rows: tuple[str, str, Row], sent: int | None = None) -> None:
        """One transaction with an insert for each row; `sent` of them arrive, the END counts all of them."""
        self.number += 1
        id = f"{_SERVER}:{self.number}"
        mark: dict[str, Any] = {"data_collections": None, "ts_ms": 1}
        self._send("srv.transaction", {"id": id}, {"status": "BEGIN", "id": id, "event_count": None, **mark})
        for order, (database, table, row) in enumerate(rows[:sent], 1):
            self.position += 100
            transaction = {"id": id, "total_order": order, "data_collection_order": order}
            value = {"before": None, "after": row, "source": self._source(database, table), "transaction": transaction}
            self._send(self.topic(database, table), {"id": row["id"]}, {**value, "op": "c", "ts_ms": 1})
        counts = Counter(f"{database}.{table}" for database, table, _ in rows)
        mark["data_collections"] = [{"data_collection": n, "event_count": c} for n, c in counts.items()]
        self._send("srv.transaction", {"id": id}, {"status": "END", "id": id, "event_count": len(rows), **mark})

    def topic(self, database: str, table: str) -> str:
        """The topic of a table."""
        return self.routed or self.delimiter.join(("srv", database, table))

    def taken(self) -> list[Record]:
        """The records since the last call."""
        records, self.records = self.records, []
        return records

    def _source(self, database: str, table: str, snapshot: str = "false") -> dict[str, Any]:
        return {
            "version": "3.6.3.Final", "connector": "mysql", "name": "srv", "ts_ms": self.position, "snapshot": snapshot,
            "db": database, "table": table, "server_id": 1, "gtid": f"{_SERVER}:{self.number}" if self.number else None,
            "file": "bin.000003", "pos": self.position, "row": 0, "thread": 7, "query": None,
        }  # fmt: skip

    def _send(self, topic: str, key: Any, value: Any) -> None:
        parts = {"key": json.dumps(key).encode(), "value": json.dumps(value).encode()}
        self.records.append({"topic": topic, "partition": 0, "offset": self._offsets[topic], **parts})
        self._offsets[topic] += 1


class MemoryRun:
    """A pipeline in memory that reads what a connector sends, batch by batch."""

    def __init__(self, connector: Connector, topics: Iterable[str] = (), **pipeline: Any) -> None:
        self.connector, self.storage = connector, Storage()
        self.definition: Definition = memory_definition(**pipeline)
        self.partitions = {(topic, 0) for topic in topics}
        self.flow = self._begun()

    def take(self) -> None:
        """Reads what was sent since the last time, and applies it as the last batch of `run --once`."""
        records = self.connector.taken()
        self.partitions |= {(record["topic"], 0) for record in records}
        self.flow.take(Batch(partial(debezium_chunks, records), "", self.partitions, True, self.partitions))
        self.flow.step(self.flow.ledger.state, self.partitions, idle=True)

    def restart(self) -> None:
        """Ends the run, and begins another."""
        self.flow = self._begun()

    def rows(self, table: str) -> list[Row]:
        """The rows of a table, by `database.table`, in the order of their ids."""
        path = self.flow.ledger.state.tables[table].path
        return sorted(self.storage.tables.rows(path), key=lambda row: int(row["id"]))

    @property
    def tables(self) -> list[str]:
        """The tables of the last cut."""
        return sorted(self.flow.ledger.state.versions())

    @property
    def left_out(self) -> list[str]:
        """The tables that are known by DDL alone."""
        return sorted(self.flow.ledger.state.uncaptured)

    def _begun(self) -> Flow:
        flow = memory_flow(self.storage, protocol("debezium-mysql").capabilities, self.definition)
        flow.begin()
        return flow
