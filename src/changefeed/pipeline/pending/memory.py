"""The pending store in memory, for rehearsals and tests: real chunks and real typed changes, without Spark."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.pending.chunk_info import ChunkInfo, chunk_info
from changefeed.pipeline.pending.counting import Across, count_across, rows_between
from changefeed.pipeline.planning.actions import Plan, Selection
from changefeed.pipeline.planning.writes import overlaps
from changefeed.pipeline.state import FolderSum, Stretches
from changefeed.stages.changes import NO_READS, ChunkReader, Window, schema

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemoryPending:
    """Folder -> its chunks, as Arrow batches; shared by the runs of one pipeline."""

    folders: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def stage(self, chunks: Iterable[pa.RecordBatch], epoch: int) -> tuple[str, FolderSum]:
        """See `PendingStore`."""
        folder = f"{epoch:06d}-{uuid.uuid4().hex}"
        self.folders[folder] = [batch for batch in chunks if batch.num_rows]
        return folder, self.sum(folder)

    def sum(self, folder: str) -> FolderSum:
        """See `PendingStore`."""
        batches = self.folders.get(folder, [])
        digest = hashlib.md5(repr([batch.to_pylist() for batch in batches]).encode(), usedforsecurity=False)
        return FolderSum(len(batches), sum(batch.nbytes for batch in batches), digest.hexdigest())

    def check(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> None:
        """See `PendingStore`."""
        for folder in folders:
            if self.sum(folder) != sums[folder]:
                raise SinkError(f"memory:{folder}: pending changes are damaged")

    def index(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> list[ChunkInfo]:
        """See `PendingStore`."""
        folders = list(folders)
        self.check(folders, sums)
        return [chunk_info(folder, row) for folder in folders for row in self._rows([folder])]

    def waiting(self, folder: str) -> list[Row]:
        """See `PendingStore`."""
        return [row for row in self._rows([folder]) if row["kind"] == "waiting"]

    def dead(self, folder: str) -> list[Row]:
        """The chunks of dead letters of a folder."""
        return [row for row in self._rows([folder]) if row["kind"] == "dead"]

    def changes(self, plan: Plan, selection: Selection, table: Table, options: RowOptions) -> MemoryChanges:
        """See `PendingStore`."""
        folders = selection.folders or plan.folders
        window = Window(selection.after, selection.through)
        named = (row for row in self._rows(folders) if (row["database"], row["table"]) == selection.source)
        chunks = [(chunk_info("", row), row["payload"]) for row in named if row["kind"] == "rows"]
        least, most = rows_between((info for info, _ in chunks), window)
        payloads = [payload for info, payload in chunks if overlaps(info, window.after, window.upto)]
        return MemoryChanges(payloads, selection, table, plan.left_out(keyed=bool(table.keys)), options, least, most)

    def across(self, windows: Across) -> Counter[str]:
        """See `PendingStore`."""
        counts = Counter[str]()
        for folder in {rows[0] for rows in windows}:
            for row in self._rows([folder]):
                pairs = windows.get(
                    (folder, row["database"], row["table"], row["shape"], row["topic"], row["partition"]), ()
                )
                for name, rows in count_across(row, pairs) if row["kind"] == "rows" else ():
                    counts[name] += rows
        return counts

    def delete_all_but(self, folders: Iterable[str], epoch: int) -> None:
        """See `PendingStore`."""
        keep = set(folders)
        for folder in [f for f in self.folders if f not in keep and int(f.partition("-")[0]) <= epoch]:
            self.folders.pop(folder, None)

    def _rows(self, folders: Iterable[str]) -> Iterator[Row]:
        for folder in folders:
            for batch in self.folders.get(folder, ()):
                yield from batch.to_pylist()


@dataclass(slots=True)
class MemoryChanges:
    """The changes of one write, row by row; see `sinks.base.Changes`."""

    payloads: list[bytes]
    selection: Selection
    table: Table
    repeats: Stretches
    options: RowOptions
    least: int
    rows: int
    read: int = 0

    @property
    def partial(self) -> bool:
        """See `Changes`."""
        return self.selection.partial

    @property
    def chunked(self) -> None:
        """See `Changes`: the rows are in memory."""
        return None

    def frame(self, spark: Any) -> Any:
        """Not available in memory."""
        raise NotImplementedError("changes in memory have no DataFrame")

    def typed(self) -> Iterator[pa.RecordBatch]:
        """The changes as they were read, with the table's types; raises what a write of a run raises, see `ChunkReader`."""
        chosen, options = self.selection, self.options
        reading = ChunkReader(
            self.table, Window(chosen.after, chosen.through), options.irregular,
            options.redefinition if chosen.declared else None, options.inserts, chosen.reads, chosen.sent, self.repeats,
        )  # fmt: skip
        yield from reading.batches(self.payloads)
        self.read = reading.read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Changes`."""
        typed = [row for batch in self.typed() for row in batch.to_pylist()]
        keys = [f"c{i}" for i, c in enumerate(self.table.columns) if c.name in self.table.keys]
        typed = in_order(typed, keys, final_states=self.selection.final_states)
        rows = self._last(typed, keys) if self.table.keys else self._last_reading(typed)
        yield pa.RecordBatch.from_pylist(rows, schema(self.table))

    def _last(self, typed: list[Row], keys: Sequence[str]) -> list[Row]:
        """One row per key: the last change, column by column where images are partial."""
        names = {f"c{i}": c.name for i, c in enumerate(self.table.columns)}
        last: dict[Any, Row] = {}
        for change in typed:
            key = tuple(change[c] for c in keys)
            before = last.get(key)
            if change["_has"] is not None and before is not None and not change["_deleted"]:
                change = _merged(before, change, names)
            last[key] = change
        return list(last.values())

    def _last_reading(self, typed: list[Row]) -> list[Row]:
        """Each row that a snapshot has read, once: see `stages.latest.last_reading`."""
        if self.selection.reads == NO_READS:
            return typed
        reads = defaultdict[Any, list[Any]](list)
        for change in typed:
            if change["_op"] == "read":
                reads[change["_ts"]].append(change["_time"])
        last = {ts: max(times) for ts, times in reads.items() if all(t and t.microsecond == 0 for t in times)}
        return [c for c in typed if c["_op"] != "read" or c["_ts"] not in last or c["_time"] == last[c["_ts"]]]


def _merged(before: Row, change: Row, names: Mapping[str, str]) -> Row:
    """A partial change merged into the one before it; after a delete, columns that it does not contain are NULL."""
    n = len(names)
    base = dict.fromkeys(names) if before["_deleted"] else before
    has_before = [True] * n if before["_deleted"] or before["_has"] is None else before["_has"]
    carried = {c for c, has in zip(names, change["_has"], strict=True) if has}
    values = {c: change[c] if c in carried else base[c] for c in names}
    texts = {} if before["_deleted"] else dict(before["_irregular"] or ())
    other_texts = {name: text for name, text in texts.items() if name not in {names[c] for c in carried}}
    has = [k or c in carried for c, k in zip(names, has_before, strict=True)]
    irregular = list((other_texts | dict(change["_irregular"] or ())).items())
    return change | values | {"_has": None if all(has) else has, "_irregular": irregular}


def in_order(changes: Iterable[Row], keys: Sequence[str], *, final_states: bool) -> list[Row]:
    """The changes in the order that the rules of `stages.latest` give them."""
    together = defaultdict[Any, list[Row]](list)
    for change in changes:
        is_read = change["_ts"] is not None and change["_op"] == "read"
        partition = change["_topic"].encode(), change["_partition"]
        together[change["_ts"], not is_read, partition, tuple(repr(change[key]) for key in keys)].append(change)
    ordered = []
    for (ts, changed, partition, _), group in together.items():
        halves = [change["_half"] for change in group]
        repeats = len(set(halves)) < len(halves)

        def place(change: Row, dated: bool = ts is not None, repeats: bool = repeats) -> tuple[Any, ...]:
            gone = final_states and dated and change["_deleted"] and (repeats or change["_op"] == "update")
            return not gone, change["_offset"], change["_index"] or 0, change["_half"]

        last = max(group, key=place)
        time = (-1, False, False) if ts is None else (ts, changed, not last["_deleted"])
        ordered += [((*time, partition, place(change)), change) for change in group]
    return [change for _, change in sorted(ordered, key=lambda pair: pair[0])]
