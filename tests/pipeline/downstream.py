"""A pipeline without Spark: real chunks, real plans, real typed changes, and tables that are lists of dicts.

Only what Spark would do is done here in its place: the last change of a key, MERGE, and the few SQL expressions that a
rewrite has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from changefeed.frames.chunks import pack
from changefeed.frames.payloads import schema_from_dict
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.actions import AddColumns, AnyAction, Copy, Create, Merge, Rewrite, chains
from changefeed.pipeline.barrier import absorbed, barrier, still_pending
from changefeed.pipeline.by_key import reach
from changefeed.pipeline.pending import ChunkInfo
from changefeed.pipeline.plan import Planned, make
from changefeed.pipeline.rules import Rules
from changefeed.pipeline.state import FolderSum, State, read_state, write_state
from changefeed.pipeline.writes import overlaps
from changefeed.protocols.base import Capabilities
from changefeed.stages.changes import Window, worker
from tests.pipeline.upstream import KINDS, Change, Ddl, Row

Event = Ddl | Change | int  # an int is a resolved mark


@dataclass(frozen=True)
class Chunk:
    info: ChunkInfo
    payload: bytes | None


def chunks_of(events: Iterable[Event], partition: int, offset: int, folder: str, topic: str = "log") -> list[Chunk]:
    """One task's chunks: events of one partition, from this offset on, as the decode stage hands them over."""
    builder, control, records = BatchBuilder(), [], []
    for record, event in enumerate(events):
        place = Place(topic, partition, offset + record, None, record)
        records.append({"topic": topic, "partition": partition, "offset": offset + record, "timestamp": None})
        if isinstance(event, int):
            control.append(Resolved(event, place))
        elif isinstance(event, Ddl):
            control.append(SchemaChange("other", event.database, event.table, event.text, place, commit_ts=event.ts))
        else:
            op = "insert" if event.before is None else "delete" if event.after is None else "update"
            builder.add(
                _shape(event), place, op, before=event.before, after=event.after, commit_ts=event.ts, commit_time=0
            )
    packed = pack(Decoded(builder.build(), control, []), record_batch(records))
    return [_chunk(row, folder) for row in packed.to_pylist()]


def _shape(change: Change) -> TableShape:
    images = [i for i in (change.before, change.after) if i is not None]
    names = [c for c in change.kinds if any(c in i for i in images)]
    columns = tuple(
        Column(c, ColumnType.parse(KINDS[change.kinds[c]][1]), c != "id", change.keyed and c == "id") for c in names
    )
    carried = [None if i is None or list(i) == names else tuple(i) for i in (change.before, change.after)]
    return TableShape(change.database, change.table, columns, *carried)


def _chunk(row: dict[str, Any], folder: str) -> Chunk:
    event = schema_from_dict(msgspec.json.decode(row["payload"])) if row["kind"] == "schema" else None
    info = ChunkInfo(
        folder, row["kind"], row["database"], row["table"], row["shape"], row["rows"], row["min_commit_ts"],
        row["max_commit_ts"], row["topic"], row["partition"], row["first_offset"], row["last_offset"], event,
    )  # fmt: skip
    return Chunk(info, row["payload"] if row["kind"] == "rows" else None)


@dataclass
class Lake:
    """The sink and its ledger."""

    rules: Rules
    random: Random
    state: State = field(default_factory=State)
    pending: dict[str, list[Chunk]] = field(default_factory=dict)
    paths: dict[str, list[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def read(self, fresh: list[Chunk], folder: str) -> None:
        """Takes a batch into the pending store."""
        self.pending[folder] = fresh
        infos = [c.info for c in fresh]
        self.state = absorbed(self.state, infos, (folder, FolderSum(0, 0, "")), folder, 0, quarantine=False)

    def step(self, partitions: int) -> bool:
        """Applies what the marks allow; False when there was nothing to do."""
        upto = barrier(self.state, {("log", p) for p in range(partitions)}, None)
        if upto is None or (upto == self.state.barrier and not any(h.released for h in self.state.held.values())):
            return False
        self.apply(self.state.barrier, upto)
        return True

    def apply(self, after: int | None, upto: int | None) -> None:
        """One step."""
        infos = [c.info for folder in self.state.pending for c in self.pending[folder]]
        planned = make(self.state, infos, after, upto, self.rules)
        self._run(planned)
        self.notes += planned.notes
        pending = still_pending(replace(self.state, barrier=upto), infos, planned.held)
        reached = replace(planned.reached(self.state), barrier=upto, pending=pending)
        self.state = read_state(write_state(reached))
        self.pending = {folder: self.pending[folder] for folder in pending}

    def apply_by_key(self, partitions: set[tuple[str, int]], everywhere: bool = True, *, settled: bool = False) -> None:
        """One step without a barrier."""
        infos = [c.info for folder in self.state.pending for c in self.pending[folder]]
        spoken = Capabilities(frozenset(), everywhere=everywhere, restored_ddl=self.rules.restored_ddl)
        far = reach(self.state, infos, partitions, spoken, settled=settled)
        planned = make(self.state, infos, None, None, self.rules, far)
        self._run(planned)
        self.notes += planned.notes
        self.state = read_state(write_state(planned.reached(far.left(infos, planned.unknown))))
        self.pending = {folder: self.pending[folder] for folder in self.state.pending}

    def rows(self, name: str) -> list[Row]:
        """What the table holds."""
        here = self.state.tables[name]
        columns = {c.name for c in here.table.columns}
        for row in self.paths[here.path]:
            assert set(row) == columns, (name, row, columns)
        return self.paths[here.path]

    def _run(self, planned: Planned) -> None:
        """The groups side by side, in any order; each in its own."""
        groups = [list(reversed(group)) for group in chains(planned.actions)]
        assert sum(map(len, groups)) == len(planned.actions)
        while groups:
            group = self.random.choice(groups)
            self._do(group.pop())
            groups = [g for g in groups if g]

    def _do(self, action: AnyAction) -> None:
        path, columns = action.path, [c.name for c in action.table.columns]
        match action:
            case Create():
                self.paths[path] = []
            case Copy(source=source):
                self.paths[path] = [dict(row) for row in self.paths[source]]
            case AddColumns():
                self.paths[path] = [dict.fromkeys(columns) | row for row in self.paths[path]]
            case Rewrite(expressions=expressions):
                self.paths[path] = [{c: evaluated(expressions[c], row) for c in columns} for row in self.paths[path]]
            case Merge():
                self._merge(action, columns)

    def _merge(self, action: Merge, columns: list[str]) -> None:
        rows = [] if action.load else self.paths[action.path]
        changes = sorted(self._changes(action), key=_order)
        assert action.partial or all(c["_has"] is None for c in changes)
        if not action.table.keys:
            new = [{c: change[f"c{i}"] for i, c in enumerate(columns)} for change in changes]
            self.paths[action.path] = rows + new
            return
        keyed = {tuple(row[k] for k in action.table.keys): row for row in rows}
        for change in changes:
            values = {c: change[f"c{i}"] for i, c in enumerate(columns)}
            key = tuple(values[k] for k in action.table.keys)
            if change["_deleted"]:
                keyed.pop(key, None)
            else:
                has = change["_has"] or [True] * len(columns)
                carried = {c: values[c] for c, there in zip(columns, has, strict=True) if there}
                keyed[key] = keyed.get(key, dict.fromkeys(columns)) | carried
        self.paths[action.path] = list(keyed.values())

    def _changes(self, action: Merge) -> list[Row]:
        found = []
        for chunk in (c for folder in action.folders or self.state.pending for c in self.pending[folder]):
            named = (chunk.info.database, chunk.info.table) == action.source
            if chunk.info.kind == "rows" and named and overlaps(chunk.info, action.after, action.upto):
                payload = pa.RecordBatch.from_pydict({"payload": pa.array([chunk.payload], pa.binary())})
                for batch in worker(action.table, Window(action.after, action.upto))([payload]):
                    found += batch.to_pylist()
        return found


def _order(change: Row) -> tuple[Any, ...]:
    return tuple(change[c] for c in ("_ts", "_half", "_partition", "_offset"))


_CAST = re.compile(r"CAST\((.*) AS ([a-z]+(?:\([0-9,]+\))?)\)", re.DOTALL)


def evaluated(sql: str, row: Row) -> Any:
    """The value of an expression of a rewrite."""
    if found := _CAST.fullmatch(sql):
        value = evaluated(found[1], row)
        kind = found[2].partition("(")[0]
        cast = {"int": int, "bigint": int, "string": str, "decimal": Decimal}[kind]
        return None if value is None else cast(value)
    if sql == "NULL":
        return None
    if sql.startswith("'"):
        return re.sub(r"\\(.)", r"\1", sql[1:-1])
    assert sql.startswith("`"), sql
    return row[sql.strip("`")]
