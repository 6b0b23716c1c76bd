"""Random histories of whole pipelines, every row written natively too, without Spark: the tables are those in memory.

The pipelines are those of `test_crashes_in_memory.py`: tables that are created, changed and dropped, images that are partial,
runs that end anywhere. Each write goes to the sink in memory. If it has rows it goes to a Delta table too, natively, and both
must then hold the same rows; after any other write the Delta table is made again from the memory's.

`CHANGEFEED_NATIVE_HISTORIES` tries so many, `CHANGEFEED_SEED` repeats a seed, which every failure prints.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from changefeed.pipeline import failpoint
from changefeed.sinks.base import Append, Changes, Job, Load, Upsert, Write, WriteId
from changefeed.sinks.delta.native.step import NativeWrites
from changefeed.sinks.memory import MemorySink
from tests.pipeline import in_memory
from tests.pipeline.random_runs import Pipeline, history, logs_of
from tests.sinks.delta_native.applying import read
from tests.sinks.delta_native.histories import sorted_rows

HISTORIES = int(os.environ.get("CHANGEFEED_NATIVE_HISTORIES", "8"))
_NO_SPARK: Any = SimpleNamespace(conf=SimpleNamespace(getAll={}))


class Killed(BaseException):
    """Not an Exception: no handler on the way may take it."""


@dataclass(frozen=True)
class _Held:
    """Changes at hand."""

    held: list[pa.RecordBatch]
    rows: int
    partial: bool
    chunked: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.held)

    def applied(self, read: int) -> None:
        raise NotImplementedError

    def frame(self, spark: Any) -> Any:
        raise NotImplementedError


class Mirrored(MemorySink):
    """Tables in memory, and the same as Delta tables in a folder."""

    __slots__ = ()
    folder: ClassVar[Path]
    made: ClassVar[Counter[str]]

    def apply(self, write: Write, changes: Changes | None, write_id: WriteId, note: str) -> None:
        before = self.snapshot(write.path)
        super().apply(write, changes, write_id, note)
        after = self.snapshot(write.path)
        assert after is not None
        if before is not None and before.version == after.version:
            return
        at = f"{self.folder}/{write.path}"
        newest = self.lake.tables[write.path][-1]
        wanted = pa.Table.from_pylist([dict(row) for row in newest.rows], pa.schema(newest.types.items()))
        kind = type(write).__name__
        if isinstance(write, Load | Upsert | Append) and changes is not None:
            held = _Held(list(changes.batches()), changes.rows, changes.partial)
            native = NativeWrites(str(self.folder), self.metadata_columns)
            assert native.apply(_NO_SPARK, self.owner, Job(write, held, write_id, note)) or self._has_other_columns(
                at, wanted
            )
            self.made[kind] += 1
        else:
            write_deltalake(at, wanted, mode="overwrite", schema_mode="overwrite")
        found = read(at, wanted.column_names)
        assert sorted_rows(found) == sorted_rows(wanted), f"{kind} to {write.path}"

    def _has_other_columns(self, at: str, wanted: pa.Table) -> bool:
        """A `Load` in place of a table with other columns: Spark's, so made here."""
        write_deltalake(at, wanted, mode="overwrite", schema_mode="overwrite")
        return True


@pytest.mark.slow
@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_native_tables_are_those_in_memory(consistency: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("CHANGEFEED_SEED") or (1 if os.environ.get("CI") else secrets.randbelow(2**40)))
    print("seed", seed)
    made = Counter[str]()
    monkeypatch.setattr(in_memory, "MemorySink", Mirrored)
    for number in range(HISTORIES):
        random = Random(f"{seed} {consistency} {number}")
        monkeypatch.setattr(Mirrored, "folder", tmp_path / str(number), raising=False)
        monkeypatch.setattr(Mirrored, "made", made, raising=False)
        upstream = history(random, random.randint(30, 90), partial=number % 2 == 0, moves=consistency != "key")
        pipeline = Pipeline(upstream, logs_of(upstream, random.randint(1, 3), random), consistency)
        for _ in range(3):
            left = random.randint(5, 40)

            def passed(name: str) -> None:
                nonlocal left
                left -= 1
                if left <= 0:
                    raise Killed(name)

            monkeypatch.setattr(failpoint, "on_pass", passed)
            with suppress(Killed):
                pipeline.run(random)
        monkeypatch.setattr(failpoint, "on_pass", None)
        pipeline.run(random)
        pipeline.check()
    assert {"Load", "Upsert", "Append"} <= set(made), made
