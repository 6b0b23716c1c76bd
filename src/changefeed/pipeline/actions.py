"""The writes of a step, as values: planned by `plan.py`, kept in the ledger, done by `compose.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from changefeed.model.definition import Table
from changefeed.pipeline.state import FolderSum, Sendings, State


class Action(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One write to one table. `number` counts the writes to `path` in this step, from 1."""

    path: str
    number: int
    table: Table


class Create(Action, frozen=True, tag=True, kw_only=True):
    """An empty table with these columns, whatever was at the path before."""


class Merge(Action, frozen=True, tag=True, kw_only=True):
    """The changes of an upstream table with after < commit_ts <= upto.

    Attributes:
        source: database and table, as the rows name them.
        folders: of the pending store; none named are all that the step reads.
        load: the table is empty or stale before: replace it rather than merge.
        partial: some images lack columns.
        declared: DDL has told the table's types.
        reads: where rows that a snapshot has read may lie, see `stages.changes`; of a table without a key.
    """

    source: tuple[str, str]
    after: int | None
    upto: int | None
    folders: tuple[str, ...] = ()
    load: bool = False
    partial: bool = False
    declared: bool = False
    reads: int | None = None


class AddColumns(Action, frozen=True, tag=True, kw_only=True):
    """Columns that the table did not have, NULL in every row."""


class Rewrite(Action, frozen=True, tag=True, kw_only=True):
    """Every row anew: column -> SQL expression over the old row."""

    expressions: dict[str, str]


class Copy(Action, frozen=True, tag=True, kw_only=True):
    """All rows of the table at `source`."""

    source: str


AnyAction = Create | Merge | AddColumns | Rewrite | Copy


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A step: the writes in their order, the folders they read, and the state after, but for the tables' new versions.

    Attributes:
        sums: folder -> what it holds, of `folders`.
        resent: where in them the producer has begun to send again.
    """

    actions: list[AnyAction]
    folders: tuple[str, ...]
    sums: dict[str, FolderSum]
    resent: Sendings = msgspec.field(default_factory=dict)
    state: State
    notes: list[str]


def write_plan(plan: Plan) -> str:
    """The plan as JSON text."""
    return msgspec.json.encode(plan).decode()


def read_plan(text: str) -> Plan:
    """The plan that `write_plan` wrote."""
    return msgspec.json.decode(text, type=Plan)


def fused(actions: list[AnyAction]) -> list[AnyAction]:
    """The same writes, with a Create that is followed by rows made one write.

    Between the two nothing touches the path, so the rows may come as early as the Create: they lie in the pending store.
    """
    out: list[AnyAction] = []
    last: dict[str, int] = {}  # path -> the newest write of `out` that reads or writes it
    for action in actions:
        before = last.get(action.path)
        if isinstance(action, Merge) and before is not None and isinstance(out[before], Create):
            out[before] = msgspec.structs.replace(action, load=True)
            continue
        last |= dict.fromkeys(touched(action), len(out))
        out.append(action)
    return out


def without(plan: Plan, excluded: Callable[[str], bool]) -> Plan:
    """The plan without the tables, by `database.table`, that are passed over by now."""
    actions = [a for a in plan.actions if not excluded(f"{a.table.database}.{a.table.name}")]
    tables = {name: table for name, table in plan.state.tables.items() if not excluded(name)}
    return msgspec.structs.replace(plan, actions=actions, state=dataclasses.replace(plan.state, tables=tables))


def touched(action: AnyAction) -> set[str]:
    """The paths that the write reads or writes."""
    return {action.path, action.source} if isinstance(action, Copy) else {action.path}


def paths_of(plan: Plan) -> set[str]:
    """The paths that a step reads or writes, or ends with."""
    return {path for action in plan.actions for path in touched(action)} | {t.path for t in plan.state.tables.values()}


def chains(actions: list[AnyAction]) -> list[list[AnyAction]]:
    """The writes in groups that share no path: each group in its order, the groups side by side as one likes."""
    group_of: dict[str, list[int]] = {}
    for i, action in enumerate(actions):
        joined = {id(group_of[p]): group_of[p] for p in touched(action) if p in group_of}
        group = [*(j for members in joined.values() for j in members), i]
        group_of |= dict.fromkeys((p for j in group for p in touched(actions[j])), group)
    groups = {id(group): group for group in group_of.values()}
    return [[actions[i] for i in sorted(group)] for group in groups.values()]
