"""States and plans for stores to keep: every field has a value, different for each step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from changefeed.model.definition import Index, Table, UniqueKey, VirtualColumn
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.pipeline.planning.actions import Action, Plan, PlannedWrite, Selection
from changefeed.pipeline.state import Counts, FolderSum, Hold, LastSchemaChange, LastWrite, State, TableState
from changefeed.pipeline.store.base import Cut, cut_of
from changefeed.sinks.writes import (
    AddColumns,
    Constant,
    ConvertedFrom,
    Copy,
    Create,
    IrregularUpdate,
    Null,
    Rewrite,
    Upsert,
)

_NEVER = datetime.fromtimestamp(0, UTC)


def table(name: str, version: int = 0) -> Table:
    """A table whose columns depend on the version of its definition."""
    columns = tuple(Column(f"c{n}", ColumnType("bigint"), nullable=n > 0, key=n == 0) for n in range(version % 4 + 1))
    virtual = (VirtualColumn(1, "v", ColumnType("int"), True, "(`c0` + 1)"),)
    indexes = (Index("i", ("c0", ""), implied=True),)
    return Table("shop", name, columns, ("c0",), (UniqueKey("PRIMARY", ("c0",)),), virtual, indexes, "utf8mb4")


def state(step: int, tables: int = 3) -> State:
    """The state after a step; each step changes, adds and drops tables."""
    names = [f"t{n}" for n in range(tables) if (step + n) % 7]
    table_states = {
        f"shop.{name}": TableState(
            table(name, step // 20),
            f"shop/{name}",
            step % 2 == 0,
            LastWrite(step // (n + 1), 1, step, n) if n else None,
            adopted=n == 2,
        )
        for n, name in enumerate(names)
    }
    return State(
        barrier=step * 10 if step > 1 else None,
        dated={"orders": {3: {"": (step, step * 10), "shop.t1": (step + 1, step * 10 + 2)}}},
        mark=f"uuid:{step}" if step % 3 else None,
        reached={"server \"é\" 'x' \\": step},
        ends={"topic": {0: step}},
        snapshots=(step, step + 1),
        resolved={"topic": {0: step, 1: step + 1}},
        marks={"topic": {0: step}},
        resent={"topic": {0: (1, step)}},
        repeats={"topic": {0: ((1, 0, step, 2),)}},
        passed=step,
        recent=((step, -7),),
        latest={"topic": {0: 2**63 + step}},
        positions={"topic": {p: step * 7 + p for p in range(4)}},
        source=f'{{"topic":{{"0":{step}}}}}',
        tables=table_states,
        left={"shop/gone": LastWrite(step, 1, step, 2)},
        waiting=f"000001-{step}",
        pending=(f"000001-{step}",),
        sums={f"000001-{step}": FolderSum(1, 2, "md5")},
        partly={"folder": {"shop.t0": step}},
        changed={"shop.t0": LastSchemaChange(step, ("ALTER TABLE `t0` ADD `ü` INT",))},
        held={"shop.t1": Hold(step, late=True)} if step % 5 == 0 else {},
        replayed=("topic:0:1",),
        counts=Counts(step, step, step - 1, 1, 2, 3),
    )


def plan(step: int, *paths: str) -> Plan:
    """A plan with writes of every kind, and writes to these paths."""
    made, old = table("t1", step // 20), table("t1", step // 20 + 1)
    writes: list[PlannedWrite] = [
        Create(path="shop/t1", number=1, table=old),
        AddColumns(path="shop/t1", number=2, table=made),
        Rewrite(
            path="shop/t1",
            number=3,
            table=made,
            expressions=(Null(), Constant(value="x"), ConvertedFrom(column="c", type=ColumnType("int"), widening=True)),
            texts=IrregularUpdate(dropped=("a",), renamed={"b": "c"}),
        ),
        Copy(path="shop/t2", number=1, table=table("t2"), source="shop/gone"),
        *(Create(path=path, number=1, table=made) for path in paths),
    ]
    changes = Selection(source=("shop", "t2"), after=None, through=step, folders=("f",))
    actions = [Action(write=write) for write in writes]
    actions.append(Action(write=Upsert(path="shop/t2", number=2, table=table("t2")), changes=changes))
    sums = {"f": FolderSum(1, 2, "x")}
    return Plan(
        actions=actions,
        folders=("f",),
        sums=sums,
        repeats={"topic": {0: ((1, 0, 2, 0),)}},
        state=state(step),
        notes=["note"],
    )


def essence(cut: Cut) -> Cut:
    """A cut without the moment at which it was published."""
    return replace(cut, at=_NEVER, tables=dict(cut.tables))


def wanted(step: int, epoch: int = 1, wrote: tuple[str, ...] = ()) -> Cut:
    """The essence of the cut of a step with `state(step)`."""
    return cut_of(epoch, step, _NEVER, state(step), wrote)
