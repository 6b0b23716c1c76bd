"""The writes of a step, as values: planned by `plan.py`, stored in the ledger, carried out by `executor.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from changefeed.model.names import full_name
from changefeed.model.types import ColumnType
from changefeed.pipeline.state import FolderSum, State, Stretches, merged
from changefeed.sinks.writes import AddColumns, Append, Copy, Create, Load, Rewrite, Upsert


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of an upstream table with after < commit_ts <= through, in the pending store.

    Attributes:
        source: database and table, as named in the rows.
        folders: folders of the pending store; empty for all folders of the step.
        partial: some row images lack columns.
        declared: DDL declares types of the table's columns.
        sent: exceptions: as in `TableState`.
        reads: the commit_ts that rows of a snapshot may have, see `stages.changes`; for a table without a key.
        final_states: a commit_ts is a transaction of TiDB, see `stages.latest`.
    """

    source: tuple[str, str]
    after: int | None
    through: int | None
    folders: tuple[str, ...] = ()
    partial: bool = False
    declared: bool = False
    sent: dict[str, ColumnType | None] = {}
    reads: int | None = None
    final_states: bool = False

    @property
    def name(self) -> str:
        """`database.table`, as the rows name it."""
        return full_name(*self.source)


PlannedWrite = Create | Load | Upsert | Append | AddColumns | Rewrite | Copy


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A planned write, and the changes that it applies if it is a `Load`, an `Upsert` or an `Append`."""

    write: PlannedWrite
    changes: Selection | None = None

    @property
    def path(self) -> str:
        """Path of the table, below the sink's root."""
        return self.write.path


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A step: its writes in order, the folders they read, and the state after it, without the tables' new versions.

    Attributes:
        sums: folder -> checksum, for `folders`.
        repeats: positions of rows that were sent again and are left out.
        surplus: the same, only of tables without a key.
    """

    actions: list[Action]
    folders: tuple[str, ...]
    sums: dict[str, FolderSum]
    repeats: Stretches = msgspec.field(default_factory=dict)
    surplus: Stretches = msgspec.field(default_factory=dict)
    state: State
    notes: list[str]

    def left_out(self, *, keyed: bool) -> Stretches:
        """The positions of rows that are left out, of a table with or without a key."""
        return self.repeats if keyed else merged(self.repeats, self.surplus)


def write_plan(plan: Plan) -> str:
    """The plan as JSON."""
    return msgspec.json.encode(plan).decode()


def read_plan(text: str) -> Plan:
    """Reads what `write_plan` wrote."""
    return msgspec.json.decode(text, type=Plan)


def fused(actions: list[Action]) -> list[Action]:
    """The same writes, with each `Create` and the rows that follow it combined into one `Load`.

    Only if no write touches the path between the two and both have the same columns and key: then the rows, which are in
    the pending store, can be written with the `Create`.
    """
    result: list[Action] = []
    last: dict[str, int] = {}  # path -> the newest write of `result` that reads or writes it
    for action in actions:
        before = last.get(action.path)
        if action.changes is not None and before is not None:
            created, table = result[before].write, action.write.table
            if isinstance(created, Create) and (created.table.columns, created.table.keys) == (
                table.columns,
                table.keys,
            ):
                load = Load(path=created.path, number=created.number, table=table)
                result[before] = Action(write=load, changes=action.changes)
                continue
        last |= dict.fromkeys(touched(action), len(result))
        result.append(action)
    return result


def without(plan: Plan, excluded: Callable[[str], bool]) -> Plan:
    """The plan without tables, by `database.table`, that are excluded by now."""
    actions = [a for a in plan.actions if not excluded(a.write.table.full_name)]
    tables = {name: table for name, table in plan.state.tables.items() if not excluded(name)}
    return msgspec.structs.replace(plan, actions=actions, state=dataclasses.replace(plan.state, tables=tables))


def touched(action: Action) -> set[str]:
    """The paths that the write reads or writes."""
    return {action.path, action.write.source} if isinstance(action.write, Copy) else {action.path}


def paths_of(plan: Plan) -> set[str]:
    """The paths that a step reads, writes, or has in its state."""
    return {path for action in plan.actions for path in touched(action)} | {t.path for t in plan.state.tables.values()}


def chains(actions: list[Action]) -> list[list[Action]]:
    """Partitions the writes into groups with disjoint paths: each group keeps its order, groups may run in parallel."""
    group_of: dict[str, list[int]] = {}
    for i, action in enumerate(actions):
        joined = {id(group_of[p]): group_of[p] for p in touched(action) if p in group_of}
        group = [*(j for members in joined.values() for j in members), i]
        group_of |= dict.fromkeys((p for j in group for p in touched(actions[j])), group)
    groups = {id(group): group for group in group_of.values()}
    return [[actions[i] for i in sorted(group)] for group in groups.values()]
