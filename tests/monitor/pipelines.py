"""Pipelines for the page: ledgers, heartbeats and dead letters, written by the classes with which a run writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from changefeed.model.definition import Table, UniqueKey
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.pipeline.letter_files import LetterFiles, StoredLetter
from changefeed.pipeline.monitoring.heartbeat import Heartbeat
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.pipeline.state import Counts, Hold, LastWrite, State, TableState
from changefeed.pipeline.store.files import FileStore
from changefeed.storage.local import LocalFolder
from changefeed.ticdc import tso

HOSTILE = "<script>alert(1)</script>"
START = tso.at(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000))


def table(name: str, columns: int = 2) -> Table:
    """A table with a key; more columns are those that were added later."""
    shown = tuple(Column(f"c{n}", ColumnType("bigint"), n > 0, n == 0) for n in range(columns))
    return Table("shop", name, shown, ("c0",), (UniqueKey("PRIMARY", ("c0",)),))


def state(step: int, names: Sequence[str], **more: Any) -> State:
    """The state after a step: each step writes one table, and a column is added in step 20."""
    written = {name: max(s for s in (*range(max(1, step - len(names)), step + 1), 1) if s % len(names) == n or s == 1)
               for n, name in enumerate(names)}  # fmt: skip
    tables = {
        f"shop.{name}": TableState(
            table(name, 3 if step >= 20 else 2), f"shop/t{n}", True, LastWrite(written[name], 1, written[name], 1)
        )
        for n, name in enumerate(names)
    }
    barrier = START + (step * 1000 << tso.LOGICAL_BITS)
    known: dict[str, Any] = {
        "positions": {"orders": {0: step * 10, 1: step * 7}},
        "resolved": {"orders": {0: barrier, 1: barrier + 1}},
        "latest": {"orders": {0: barrier + 5, 1: barrier + 9}},
        "counts": Counts(step * 17, step * 16, step * 15, step // 2, step // 20, 0),
    }
    return State(**{"barrier": barrier, "tables": tables, **known, **more})


def write(folder: Path, name: str, steps: int, names: Sequence[str] = ("a", "b", HOSTILE)) -> FileStore:
    """Writes the ledger of a pipeline into `<folder>/_changefeed`, with one table held back."""
    store = FileStore(LocalFolder(f"{folder}/_changefeed/ledger"), name)
    store.claim()
    for step in range(1, steps + 1):
        store.finish(state(step, names, held={f"shop.{names[0]}": Hold(START)} if step == steps else {}))
    return store


def now(name: str, **more: Any) -> RunNow:
    """The heartbeat of a run that is alive."""
    now = datetime.now(UTC)
    known: dict[str, Any] = {
        "pipeline": name, "epoch": 1, "host": "host-1", "pid": 77, "started": now - timedelta(minutes=5), "at": now,
        "every": 60.0, "stage": "planning", "stage_since": now, "left": 7, "behind": {"orders": {0: 3, 1: 4}},
        "phases": {"read": 1.5, "write": 3.0}, "applied": 30, "busy": 4.5,
    }  # fmt: skip
    return RunNow(**{**known, **more})


def beat(folder: Path, name: str, **more: Any) -> None:
    """Writes a heartbeat of a run that is alive."""
    Heartbeat(LocalFolder(f"{folder}/_changefeed/heartbeat")).write(now(name, **more))


def letter(offset: int, value: bytes = b"\x00\xffbad", **more: Any) -> StoredLetter:
    """A dead letter."""
    known: dict[str, Any] = {
        "topic": "orders", "partition": 0, "offset": offset, "database": "shop", "table": "a", "at": datetime.now(UTC),
        "pipeline": "test", "reason": "truncated", "error": f"value ends early {HOSTILE}", "protocol": "ticdc-open",
        "byte": 1, "sha256": hashlib.sha256(value).hexdigest(), "key": None, "value": value, "headers": (("h", b"x"),),
    }  # fmt: skip
    return StoredLetter(**{**known, **more})


def dead(folder: Path, letters: Sequence[StoredLetter]) -> LetterFiles:
    """Writes dead letters."""
    files = LetterFiles(LocalFolder(f"{folder}/_changefeed/dead_letters"))
    files.write(letters)
    return files


def define(folder: Path, name: str, more: str = "") -> Path:
    """Writes a definition into the folder, whose tables are beside it."""
    path = folder / "pipeline.yaml"
    source = "source: {type: files, path: x.jsonl, protocol: ticdc-open}"
    path.write_text(f"{source}\nsink: {{type: delta, path: .}}\npipeline: {{name: {name}}}\n{more}")
    return path
