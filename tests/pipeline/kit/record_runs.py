"""Runs a pipeline over records in memory, in batches, with the protocol and options of its definition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import yaml

from changefeed import record_log
from changefeed.model.batch import record_batch
from changefeed.pipeline.config.load import read
from changefeed.pipeline.flow import Batch
from changefeed.pipeline.frontier.base import Partition
from changefeed.protocols import protocol
from changefeed.sources import protocol_of
from changefeed.stages.changes import Redefinition
from changefeed.stages.decode import worker
from tests.pipeline.kit.in_memory import Storage, memory_flow

FIELD = Path(__file__).parents[2] / "data" / "field"
COLUMNS = ["topic", "partition", "offset", "key", "value", "headers"]


class RecordRun:
    """A pipeline over records.

    Args:
        options: name and options of the protocol.
        pipeline: options of the pipeline.
    """

    def __init__(self, options: dict[str, Any], base: Path | None = None, **pipeline: Any) -> None:
        section = {
            "source": {"type": "files", "path": "log.jsonl", "protocol": options},
            "sink": {"type": "delta", "path": "lake"},
            "pipeline": {"name": "test", "parallelism": 1, "consistency": "key", **pipeline},
        }
        self.definition = read(section, base=base)
        choice = protocol_of(self.definition.source)
        assert choice is not None
        known = protocol(choice.name)
        self.storage = Storage()
        self.reader = choice.name, choice.options
        capabilities = known.capabilities_of(known.read_options(choice.options))
        redefinition = Redefinition(choice.name, choice.options)
        self.flow = memory_flow(self.storage, capabilities, self.definition, redefinition=redefinition)
        self.flow.begin()

    def run(self, records: Iterable[dict[str, Any]], size: int = 1000) -> RecordRun:
        """Reads all records, `size` in a batch, until the source has nothing more."""
        batch = list(records)
        partitions: set[Partition] = {(record["topic"], record["partition"]) for record in batch}
        for start in range(0, len(batch), size):
            part = record_batch([{name: record[name] for name in COLUMNS} for record in batch[start : start + size]])
            ended = start + size >= len(batch)
            self.flow.take(Batch(lambda dated, fragments: self._chunks(part, dated), "", partitions, caught_up=ended))  # noqa: B023
        self.flow.step(self.flow.ledger.state, partitions, idle=True)
        return self

    def _chunks(self, records: pa.RecordBatch, dated: Any) -> list[pa.RecordBatch]:
        name, options = self.reader
        return list(worker(name, options, dated)([records]))

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a table, in order."""
        table = self.storage.published()[-1].tables[name]
        rows = self.storage.tables.rows(table.path)
        return sorted((tuple(row.values()) for row in rows), key=repr)

    def columns(self, name: str) -> list[str]:
        """The columns of a table, with their types."""
        return [f"{c.name} {c.type}" for c in self.storage.published()[-1].tables[name].table.columns]

    def tables(self) -> list[str]:
        """The names of all tables."""
        return sorted(self.storage.published()[-1].tables)


def field_run(name: str, size: int = 1000, options: Mapping[str, Any] = MappingProxyType({})) -> RecordRun:
    """Runs one of the cases in tests/data/field, with more options of its protocol."""
    written = yaml.safe_load((FIELD / f"{name}.yaml").read_text())
    named = written["source"]["protocol"]
    choice = {"name": named} if isinstance(named, str) else named
    run = RecordRun(choice | dict(options), FIELD, consistency=written["pipeline"].get("consistency", "transaction"))
    return run.run(field_records(name), size)


def field_records(name: str) -> list[dict[str, Any]]:
    """The records of one of the cases in tests/data/field."""
    records: list[dict[str, Any]] = pa.Table.from_batches(record_log.read(FIELD / f"{name}.jsonl")).to_pylist()
    return records


def json_record(topic: str, offset: int, key: Any, value: Any, partition: int = 0) -> dict[str, Any]:
    """A record whose key and value are JSON; None for none."""
    data = [None if tree is None else json.dumps(tree).encode() for tree in (key, value)]
    return {"topic": topic, "partition": partition, "offset": offset, "key": data[0], "value": data[1], "headers": []}
