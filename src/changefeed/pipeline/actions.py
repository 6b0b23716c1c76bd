"""The writes of a step, as values: planned by `plan.py`, kept in the ledger, done by `compose.py`."""

from __future__ import annotations

import msgspec

from changefeed.model.definition import Table
from changefeed.pipeline.state import State


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
        load: the table is empty or stale before: replace it rather than merge.
        partial: some images lack columns.
    """

    source: tuple[str, str]
    after: int | None
    upto: int | None
    load: bool = False
    partial: bool = False


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
    """A step: the writes in their order, the folders they read, and the state after (without versions and counts)."""

    actions: list[AnyAction]
    folders: tuple[str, ...]
    state: State
    notes: list[str]


def write_plan(plan: Plan) -> str:
    """The plan as JSON text."""
    return msgspec.json.encode(plan).decode()


def read_plan(text: str) -> Plan:
    """The plan that `write_plan` wrote."""
    return msgspec.json.decode(text, type=Plan)


def fused(actions: list[AnyAction]) -> list[AnyAction]:
    """The same writes, with a Create that is followed by rows made one write."""
    out: list[AnyAction] = []
    for action in actions:
        before = next((i for i in range(len(out) - 1, -1, -1) if touches(out[i], action.path)), None)
        if isinstance(action, Merge) and before is not None and isinstance(out[before], Create):
            out[before] = msgspec.structs.replace(action, load=True)
        else:
            out.append(action)
    return out


def touches(action: AnyAction, path: str) -> bool:
    """Whether the write reads or writes what lies at `path`."""
    return action.path == path or (isinstance(action, Copy) and action.source == path)


def chains(actions: list[AnyAction]) -> list[list[AnyAction]]:
    """The writes in groups that share no path: each group in its order, the groups side by side as one likes."""
    groups: list[tuple[set[str], list[AnyAction]]] = []
    for action in actions:
        paths: set[str] = {action.path} | ({action.source} if isinstance(action, Copy) else set())
        members: list[AnyAction] = []
        for group in [g for g in groups if g[0] & paths]:
            groups.remove(group)
            paths, members = paths | group[0], members + group[1]
        groups.append((paths, [*members, action]))
    return [sorted(members, key=actions.index) for _, members in groups]
