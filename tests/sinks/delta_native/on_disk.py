"""A sink of Delta tables without Spark: rows are written natively, other writes are computed by the sink in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import CommitProperties, Transaction

from changefeed.errors import SinkError
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import Applied, Changes, Commit, PreparedWrite, TableSnapshot, WriteRequest
from changefeed.sinks.delta import log
from changefeed.sinks.delta.native.commit import _landed, fenced
from changefeed.sinks.delta.native.opened import open_table
from changefeed.sinks.delta.native.snapshot import damaged_files
from changefeed.sinks.delta.native.step import NativeWrites
from changefeed.sinks.memory import MemorySink, Row, Version
from changefeed.sinks.writes import Append, Load, Touch, Upsert, Write, WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.applying import read

_NO_SPARK: Any = SimpleNamespace(conf=SimpleNamespace(getAll={}))


@dataclass
class Disk:
    """A folder of tables, used like a `Lake`: every run has the same one."""

    folder: Path
    merges_on_read: bool = False
    made: list[str] = field(default_factory=list)

    @property
    def tables(self) -> Disk:
        return self

    def __getitem__(self, path: str) -> list[Version]:
        """A list with only the newest version."""
        rows = self.table(path)
        return [Version(dict(zip(rows.schema.names, rows.schema.types, strict=True)), tuple(rows.to_pylist()))]

    def table(self, path: str, version: int | None = None) -> pa.Table:
        return read(f"{self.folder}/{path}", version=version)

    def rows(self, path: str, version: int = -1) -> list[Row]:
        table_rows: list[Row] = self.table(path, None if version < 0 else version).to_pylist()
        return table_rows


class DiskSink(MemorySink):
    """The tables of a `Disk`, written by one pipeline."""

    __slots__ = ("native",)
    lake: Any  # a `Disk`

    def __init__(self, lake: Any, metadata_columns: tuple[str, ...] = (), owner: str = "", **others: Any) -> None:
        super().__init__(lake, metadata_columns, owner)
        rules = CompactionRules(many=3, every=2) if lake.merges_on_read else None
        self.native = NativeWrites(
            LocalFolder(str(lake.folder)),
            metadata_columns,
            lake.merges_on_read,
            rules,
            Limits(least_marked=0, held_bytes=3_000),
        )

    def owned_by(self, owner: str) -> DiskSink:
        return DiskSink(self.lake, self.metadata_columns, owner)

    def has_written(self, path: str) -> bool | None:
        snapshot = self.snapshot(path)
        return None if snapshot is None else snapshot.write_id is not None

    def snapshot(self, path: str) -> TableSnapshot | None:
        return self.native.snapshot(path, self.owner)

    def take_back(self, path: str, version: int) -> list[int]:
        return []

    @property
    def needs_session(self) -> bool:
        return False

    def is_newest(self, path: str, version: int) -> bool:
        snapshot = self.snapshot(path)
        return snapshot is not None and snapshot.revision == version

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        for version in range(through, after, -1):
            text = Path(self._at(path), "_delta_log", f"{version:020d}.json").read_text()
            commit = log._commit(version, [json.loads(line) for line in text.split("\n") if line])
            number = commit.transactions.get(self.owner)
            write_id = None if number is None else log.unpack(number)
            yield Commit(version, commit.operation, write_id, commit.changes_table)

    def damaged_files(self, path: str, version: int) -> list[str]:
        return damaged_files(LocalFolder(self._at(path)), version)

    def has_files(self, path: str) -> bool:
        return Path(self._at(path)).exists()

    def delete(self, path: str) -> None:
        shutil.rmtree(self._at(path), ignore_errors=True)

    def prepare(self, requests: Sequence[WriteRequest]) -> Sequence[PreparedWrite]:
        return self.native.prepare(_NO_SPARK, self.owner, requests)

    def apply(self, prepared: PreparedWrite) -> Applied:
        request = prepared.request
        write, changes, write_id = request.write, request.changes, request.write_id
        opened = open_table(LocalFolder(self._at(write.path)), self.owner)
        last = opened.write_id if opened is not None else None
        if last is not None and last.epoch > write_id.epoch:
            raise fenced(self._at(write.path), self.owner, last, write_id)
        if last is not None and last >= write_id:
            return Applied()
        if (applied := self.native.apply(_NO_SPARK, self.owner, prepared)) is not None:
            self.lake.made.append(type(write).__name__)
            return applied
        assert not isinstance(write, Touch | Upsert | Append), "these are native"
        self._otherwise(write, changes, opened, write_id)
        return Applied()

    def _otherwise(self, write: Write, changes: Changes | None, opened: Any, write_id: WriteId) -> None:
        """Replaces the table's rows and columns, as the very next version."""
        before = self.lake[write.path][-1] if opened is not None else Version({}, ())
        assert isinstance(write, Load) == (changes is not None)
        types, rows = self._after(write, before, list(changes.batches()) if changes is not None else [])
        table = pa.Table.from_pylist([dict(row) for row in rows], pa.schema(types.items()))
        properties = CommitProperties(
            max_commit_retries=0, app_transactions=[Transaction(self.owner, log.pack(write_id))]
        )
        at = self._at(write.path)
        target: Any = DeltaTable(at, opened.version) if opened is not None else at
        mode: Any = "overwrite" if opened is not None else "error"
        schema: Any = {"schema_mode": "overwrite"} if opened is not None else {}
        error: Exception | None = None
        try:
            write_deltalake(target, table, mode=mode, commit_properties=properties, **schema)
        except (DeltaError, OSError) as failed:
            error = failed
        if opened is not None:
            _landed(opened, write_id, error)
        elif error is not None:
            raise SinkError(f"{write.path}: {error}", transient=True) from error

    def _at(self, path: str) -> str:
        return f"{self.lake.folder}/{path}"
