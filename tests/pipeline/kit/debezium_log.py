"""A log of Debezium written by hand: transactions, rows and schema changes of one connector, as JSON without schemas.

Places are those of one binlog file. `Connector.records` are in the order in which the connector sends them; a producer that
restarts sends a stretch of them again (`again`), with the same places and new offsets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.flow import Batch, Flow
from changefeed.protocols import protocol
from tests.pipeline.kit.in_memory import Storage, debezium_chunks, memory_definition, memory_flow

Record = dict[str, Any]
Partition = tuple[str, int]
Row = dict[str, Any]
SERVER = "11111111-2222-3333-4444-555555555555"


@dataclass
class Connector:
    """A connector named `srv`, of the database `shop`.

    Attributes:
        partitions: number of partitions of each table's topic; rows with a key go to that of the key, others take turns.
        metadata: whether rows have a transaction, whose end is sent.
        gtid: whether transactions have a GTID.
        server, seconds: the server's id, and the time of the next transaction.
    """

    partitions: int = 1
    metadata: bool = True
    gtid: bool = True
    server: int = 1
    uuid: str = SERVER
    file: str = "bin.000003"
    seconds: int = 1_764_000_000
    place: int = 100
    number: int = 0
    records: list[Record] = field(default_factory=list)
    _turn: int = 0

    def ddl(self, *statements: tuple[str, str]) -> None:
        """One statement, as the events (table, text) into which the connector splits it."""
        self._begin()
        for table, text in statements:
            source = self._source(table, 0)
            value = {"source": source, "ts_ms": 1, "databaseName": "shop", "ddl": text, "tableChanges": []}
            self._send("srv", 0, {"databaseName": "shop"}, value)

    def transaction(self, *events: Sequence[tuple[str, Row | None, Row | None]]) -> None:
        """One transaction of events of the binlog, each with its rows: table, before, after; a row with `id` has a key."""
        self._begin()
        ident = f"{self.uuid}:{self.number}" if self.gtid else f"file={self.file},pos={self.place}"
        if self.metadata:
            self._mark("BEGIN", ident, None)
        order = 0
        for rows in events:
            self.place += 100
            for number, (table, before, after) in enumerate(rows):
                halves = [(before, after)]
                if before and after and "id" in before and before["id"] != after["id"]:
                    halves = [(before, None), (None, after)]
                for old, new in halves:
                    order += 1
                    self._row(table, old, new, number, (ident, order))
        if self.metadata:
            self._mark("END", ident, order)

    def again(self, first: int, last: int | None = None) -> None:
        """The connector restarts, and sends the records from number `first` to `last` again."""
        self.records += [dict(record) for record in self.records[first:last]]

    def _begin(self) -> None:
        self.number += 1
        self.place += 100
        self.seconds += 1

    def _source(self, table: str, row: int) -> dict[str, Any]:
        gtid = f"{self.uuid}:{self.number}" if self.gtid else None
        return {
            "version": "3.6.3.Final", "connector": "mysql", "name": "srv", "ts_ms": 1000 * self.seconds, "snapshot": "false",
            "db": "shop", "sequence": None, "table": table, "server_id": self.server, "gtid": gtid, "file": self.file,
            "pos": self.place, "row": row, "thread": 7, "query": None,
        }  # fmt: skip

    def _row(self, table: str, old: Row | None, new: Row | None, number: int, transaction: tuple[str, int]) -> None:
        image = new or old or {}
        if "id" in image:
            key, partition = {"id": image["id"]}, image["id"] % self.partitions
        else:
            key, partition, self._turn = None, self._turn % self.partitions, self._turn + 1
        block = {"id": transaction[0], "total_order": transaction[1], "data_collection_order": transaction[1]}
        op = "c" if old is None else "d" if new is None else "u"
        value = {
            "before": old, "after": new, "source": self._source(table, number), "op": op, "ts_ms": 5,
            "transaction": block if self.metadata else None,
        }  # fmt: skip
        self._send(f"srv.shop.{table}", partition, key, value)

    def _mark(self, status: str, ident: str, events: int | None) -> None:
        value = {"status": status, "id": ident, "event_count": events, "data_collections": None, "ts_ms": 5}
        self._send("srv.transaction", 0, {"id": ident}, value)

    def _send(self, topic: str, partition: int, key: Any, value: Any) -> None:
        texts = [None if part is None else json.dumps(part).encode() for part in (key, value)]
        self.records.append({"topic": topic, "partition": partition, "key": texts[0], "value": texts[1]})


def numbered(records: Iterable[Record]) -> list[Record]:
    """The records with their offsets."""
    offsets: dict[Partition, int] = defaultdict(int)
    with_offsets = []
    for record in records:
        at = record["topic"], record["partition"]
        with_offsets.append({**record, "offset": offsets[at]})
        offsets[at] += 1
    return with_offsets


@dataclass
class Following:
    """A pipeline in memory that follows a log of Debezium."""

    definition: Definition
    storage: Storage = field(default_factory=Storage)
    partitions: set[Partition] = field(default_factory=set)
    _flow: Flow | None = None

    @property
    def flow(self) -> Flow:
        """The run."""
        if self._flow is None:
            self._flow = memory_flow(self.storage, protocol("debezium-mysql").capabilities, self.definition)
            self._flow.begin()
        return self._flow

    def take(self, records: list[Record], *, caught_up: bool = False, ended: Iterable[Partition] = ()) -> None:
        """Reads one batch."""
        self.flow.take(Batch(partial(debezium_chunks, records), "", self.partitions, caught_up, set(ended)))

    def idle(self) -> None:
        """Finds that there is nothing more to read."""
        self.flow.step(self.flow.ledger.state, self.partitions, idle=True)

    def rows(self) -> dict[str, list[str]]:
        """Table -> its rows, sorted; a table that was dropped is missing."""
        tables = self.flow.ledger.state.tables
        return {name: sorted(map(repr, self.storage.tables.rows(t.path))) for name, t in sorted(tables.items())}


def following(records: Iterable[Record], consistency: str = "transaction", **options: Any) -> Following:
    """A pipeline that has the partitions of the records and has read nothing yet."""
    partitions = {(record["topic"], record["partition"]) for record in records}
    return Following(memory_definition(consistency=consistency, **options), partitions=partitions)


def read_at_once(records: list[Record], consistency: str = "transaction", **options: Any) -> Following:
    """A pipeline that has read all records in one batch."""
    run = following(records, consistency, **options)
    run.take(records, caught_up=True)
    run.idle()
    return run
