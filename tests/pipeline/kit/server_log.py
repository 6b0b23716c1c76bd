"""Records as Debezium's connector for MySQL writes them, with the names that servers give: JSON without schemas.

log = ServerLog()
log.ddl("CREATE TABLE t (id BIGINT PRIMARY KEY)", "shop", "t", columns=("id bigint",))
log.rows("shop", "t", (None, {"id": 1}))
storage, notes = run(log.records, consistency="key", chance=Random(1))
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.model.batch import record_batch
from changefeed.pipeline.flow import Batch
from changefeed.protocols import protocol
from changefeed.stages.changes import Redefinition
from changefeed.stages.decode import RecordReader
from tests.pipeline.kit.downstream import noted
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow

Record = dict[str, Any]
Row = dict[str, Any]
Image = tuple[Row | None, Row | None]  # before and after
PREFIX, SERVER = "srv", "11111111-2222-3333-4444-555555555555"
_TYPES = {"bigint": (-5, None), "int": (4, None), "varchar": (12, 20), "text": (-1, None)}


class ServerLog:
    """Records in the order in which the connector sends them.

    Attributes:
        records: the records, in the form that a decoder takes.
        position: of the last event in the binlog.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.position, self.transaction, self._offsets = 300, 0, Counter[str]()

    def begin(self) -> int:
        """The position of the next event in the binlog, in a transaction of its own."""
        self.position += 100
        self.transaction += 1
        return self.position

    def ddl(
        self, text: str, database: str, table: str | None, columns: Iterable[str] | None = None, *, again: bool = False
    ) -> None:
        """A schema change.

        Args:
            text: the statement.
            database: the event's database.
            table: the names of tables in the event's source block.
            columns: the table after the statement, as `name type`, in `tableChanges`; None for none.
            again: the event belongs to the statement of the event before, which the connector has split.
        """
        if not again:
            self.begin()
        changes = [] if columns is None else [_table_change(database, (table or "").split(",")[0], list(columns))]
        value = {
            "source": self._source(database, table), "ts_ms": 1764000000000, "databaseName": database, "schemaName": None,
            "ddl": text, "tableChanges": changes,
        }  # fmt: skip
        self._record(PREFIX, {"databaseName": database}, value)

    def rows(self, database: str, table: str, *images: Image, stored: tuple[str, str] | None = None) -> None:
        """A transaction with changes of rows of one table; `stored`: the server's spelling of its name, if it is another."""
        start, name = self.begin(), f"{SERVER}:{self.transaction}"
        self._mark("BEGIN", name)
        for number, (before, after) in enumerate(images, 1):
            self.position = start + number
            op = "c" if before is None else "d" if after is None else "u"
            source = self._source(*(stored or (database, table)))
            value = {
                "before": before, "after": after, "source": source, "op": op, "ts_ms": 1764000000000,
                "transaction": {"id": name, "total_order": number, "data_collection_order": number},
            }  # fmt: skip
            image = after or before or {}
            self._record(f"{PREFIX}.{database}.{table}", {"id": image["id"]}, value)
        count = [{"data_collection": f"{database}.{table}", "event_count": len(images)}]
        self._mark("END", name, event_count=len(images), data_collections=count)

    def truncated(self, database: str, table: str, *, topic: str) -> None:
        """TRUNCATE with `skipped.operations=none`: a record with the statement's name, in the topic of the table's rows."""
        self.begin()
        value = {"before": None, "after": None, "source": self._source(database, table), "op": "t", "transaction": None}
        self._record(f"{PREFIX}.{database}.{topic}", None, value | {"ts_ms": 1764000000000})

    def _mark(self, status: str, name: str, event_count: int | None = None, data_collections: Any = None) -> None:
        value = {
            "status": status, "id": name, "event_count": event_count, "data_collections": data_collections,
            "ts_ms": 1764000000000,
        }  # fmt: skip
        self._record(f"{PREFIX}.transaction", {"id": name}, value)

    def _source(self, database: str, table: str | None) -> Record:
        return {
            "version": "3.6.3.Final", "connector": "mysql", "name": PREFIX, "ts_ms": 1764000000000, "snapshot": "false",
            "db": database, "sequence": None, "table": table,
            "server_id": 1, "gtid": f"{SERVER}:{self.transaction}", "file": "bin.000003", "pos": self.position, "row": 0,
            "thread": 7, "query": None,
        }  # fmt: skip

    def _record(self, topic: str, key: Any, value: Any) -> None:
        encoded = [None if part is None else json.dumps(part).encode() for part in (key, value)]
        self.records.append(
            {"topic": topic, "partition": 0, "offset": self._offsets[topic], "key": encoded[0], "value": encoded[1]}
        )
        self._offsets[topic] += 1


def _table_change(database: str, table: str, columns: list[str]) -> Record:
    described = []
    for position, text in enumerate(columns, 1):
        name, kind, *default = text.split(" ", 2)
        jdbc, length = _TYPES[kind.partition("(")[0]]
        if "(" in kind:
            length = int(kind.partition("(")[2][:-1])
        described.append(
            {
                "name": name,
                "jdbcType": jdbc,
                "nativeType": None,
                "typeName": kind.partition("(")[0].upper(),
                "typeExpression": None,
                "charsetName": None,
                "length": length,
                "scale": None,
                "position": position,
                "optional": name != "id",
                "autoIncremented": False,
                "generated": False,
                "comment": None,
                "hasDefaultValue": bool(default),
                "defaultValueExpression": default[0] if default else None,
                "enumValues": None,
            }
        )
    keys = [c["name"] for c in described if c["name"] == "id"]
    table_document = {"defaultCharsetName": None, "primaryKeyColumnNames": keys, "columns": described, "comment": None}
    return {"type": "ALTER", "id": f'"{database}"."{table}"', "table": table_document}


def read_log(path: Path) -> list[Record]:
    """The records of a record log."""

    def decoded(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {name: line[name] for name in ("topic", "partition", "offset")}
        | {"key": decoded(line["key"]), "value": decoded(line["value"])}
        for line in lines
    ]


def run(
    records: list[Record],
    *,
    chance: Random | None = None,
    protocol_name: str = "debezium-mysql",
    behavior: str = "evolve",
    **pipeline: Any,
) -> tuple[Storage, list[str]]:
    """A pipeline in memory over the records, at once or in batches by chance; returns also the notes of its steps.

    With `consistency: transaction`, the records of one position stay together in a batch.
    """
    storage, notes, partitions = Storage(), list[str](), {(r["topic"], r["partition"]) for r in records}
    flow = memory_flow(
        storage,
        protocol(protocol_name).capabilities,
        memory_definition(**pipeline, **{"schema.change.behavior": behavior}),
    )
    options = flow.executor.options
    flow.executor.options = replace(options, redefinition=Redefinition(protocol_name, {}))
    flow.begin()
    with noted(notes):
        rest = list(records)
        while rest:
            count = len(rest) if chance is None else chance.randint(1, 8)
            while 0 < count < len(rest) and _position(rest[count - 1]) == _position(rest[count]) is not None:
                count += 1
            batch, rest = rest[:count], rest[count:]
            caught_up = not rest or (chance is not None and chance.random() < 0.5)
            flow.take(Batch(lambda dated, fragments: [_chunks(batch, protocol_name)], "", partitions, caught_up))  # noqa: B023
            if caught_up and chance is not None and chance.random() < 0.5:
                flow.step(flow.ledger.state, partitions, idle=True)
        flow.step(flow.ledger.state, partitions, idle=True)
    return storage, notes


def error_of(records: list[Record], **pipeline: Any) -> str:
    """The message of the error that stops a pipeline over the records."""
    try:
        run(records, **pipeline)
    except UnsupportedError as error:
        return str(error)
    raise AssertionError("the run was not stopped")


def tables(storage: Storage) -> Mapping[str, list[Row]]:
    """The rows of all tables, in order."""
    state = storage.published()[-1]
    assert state.counts.pending == 0, state.counts
    return {
        name: sorted(storage.tables.rows(table.path), key=lambda row: repr(sorted(row.items(), key=repr)))
        for name, table in state.tables.items()
    }


def _position(record: Record) -> Any:
    source = json.loads(record["value"] or b"{}").get("source") if record["topic"] == PREFIX else None
    return source and (source["file"], source["pos"])


def _chunks(records: list[Record], protocol_name: str) -> Any:
    batch, reader = record_batch(records), RecordReader(protocol_name, {})
    return reader.pack(reader(batch), batch)
