"""Applies ALTER TABLE to a table's definition: the new definition, and the effect on existing rows.

Rule 1. All parts of a statement are applied at once: they use the names from before it, so that `CHANGE a b …,
        CHANGE b a …` swaps two columns. Only AFTER may also use a column's new name.
Rule 2. Column names are compared ignoring case; the table's spelling is kept.
Rule 3. Keys follow: a renamed column is renamed in them, a dropped one removed, and the handle key is chosen again.
Rule 4. Every column of the new table has a projection: the old column that its values come from, or the default that
        existing rows get.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from changefeed.errors import SchemaError
from changefeed.model.definition import PRIMARY, Table, UniqueKey
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl.create import spelled
from changefeed.mysql.ddl.defaults import NULL, Default, existing_rows
from changefeed.mysql.ddl.keys import named
from changefeed.mysql.ddl.statements import (
    AddColumn,
    AddKey,
    AlterTable,
    ColumnChange,
    DropColumn,
    DropKey,
    ModifyColumn,
    RenameColumn,
    RenameKey,
    SetDefault,
)


@dataclass(frozen=True, slots=True)
class Projection:
    """The source of one column's values, for existing rows.

    Attributes:
        column: of the new table.
        source: the old column; its type may differ from `column.type`. None for a new column.
        default: the value of a new column, if there is no source.
    """

    column: Column
    source: Column | None
    default: Default = NULL

    @property
    def unknown(self) -> str | None:
        """A sentence: why the values cannot be determined; None if they can."""
        return self.default.unknown


@dataclass(frozen=True, slots=True)
class Altered:
    """A table after ALTER TABLE, and how its rows are computed from the rows before.

    Attributes:
        table: its definition.
        rows: one projection for each of `table.columns`, in that order.
    """

    table: Table
    rows: tuple[Projection, ...]


def alter(table: Table, change: AlterTable) -> Altered:
    """Applies the change; returns the new table and a projection of its rows.

    Raises:
        SchemaError: the change names a column or key that does not exist, or adds one that does; the message names it.
    """
    columns = _Columns(table)
    for part in change.changes:
        columns.redefine(part)
    for part in change.changes:
        columns.place(part)
    order = columns.finished()
    kept = [s for s in order if not s.virtual]
    virtual = tuple((i, s.column.name) for i, s in enumerate(order) if s.virtual)
    keys = _keys(table, change.changes, order)
    new = Table.define(table.database, table.name, tuple(s.column for s in kept), tuple(keys), virtual)
    return Altered(new, tuple(_projection(c, s) for c, s in zip(new.columns, kept, strict=True)))


@dataclass(slots=True)
class _Slot:
    """A column while the table is altered: its old and its new definition. Rows do not contain `virtual` columns."""

    column: Column
    old: Column | None = None
    virtual: bool = False
    stored: bool = False
    counted: bool = False


def _projection(column: Column, slot: _Slot) -> Projection:
    if slot.stored:
        return Projection(column, None, _unknown(column, "it is computed from other columns"))
    if slot.counted:
        return Projection(column, None, _unknown(column, "the upstream numbered the existing rows"))
    return Projection(column, slot.old, NULL if slot.old else existing_rows(column))


def _unknown(column: Column, why: str) -> Default:
    return Default(unknown=f"column {column.name}: {why}, and no row event contains the values")


class _Columns:
    """The columns of a table while it is altered: call `redefine` for all parts, then `place` for all parts."""

    def __init__(self, table: Table) -> None:
        self._table = f"{table.database}.{table.name}"
        self._order = [_Slot(c, c) for c in table.columns]
        for at, name in table.virtual:
            hidden = Column(name, ColumnType("null"))
            self._order.insert(at, _Slot(hidden, hidden, virtual=True))
        self._old = {s.column.name.lower(): s for s in self._order}
        self._moving: dict[int, _Slot] = {}

    def redefine(self, part: ColumnChange) -> None:
        """Drops, modifies or renames an existing column."""
        match part:
            case DropColumn(name, if_exists):
                if self._has(name) or not if_exists:
                    self._order.remove(self._find(name))
            case ModifyColumn(name, _, first, after, _, if_exists):
                if self._has(name) or not if_exists:
                    slot = self._find(name)
                    self._modify(slot, part)
                    if first or after is not None:
                        self._order.remove(slot)
                        self._moving[id(part)] = slot
            case RenameColumn(name, to):
                slot = self._find(name)
                slot.column = replace(slot.column, name=to)
            case SetDefault(name, default):
                slot = self._find(name)
                slot.column = replace(slot.column, default=default)

    def place(self, part: ColumnChange) -> None:
        """Adds or moves a column, relative to the redefined columns."""
        if isinstance(part, AddColumn):
            if not part.if_not_exists or self._at(part.column.name) is None:
                generated = part.generated
                slot = _Slot(part.column, None, generated == "virtual", generated == "stored", part.counted)
                self._insert(slot, part)
        elif isinstance(part, ModifyColumn) and id(part) in self._moving:
            self._insert(self._moving[id(part)], part)

    def finished(self) -> list[_Slot]:
        """The columns in their new order, including virtual ones."""
        seen: set[str] = set()
        for slot in self._order:
            name = slot.column.name
            if name.lower() in seen:
                self._fail(f"already has a column {name}")
            seen.add(name.lower())
        if not any(not s.virtual for s in self._order):
            self._fail("would have no column left")
        return self._order

    def _modify(self, slot: _Slot, part: ModifyColumn) -> None:
        if slot.virtual != (part.generated == "virtual"):
            self._fail(f"column {part.name} cannot change between virtual and not")
        slot.column = part.column
        slot.stored = part.generated == "stored"

    def _insert(self, slot: _Slot, part: AddColumn | ModifyColumn) -> None:
        if part.first:
            self._order.insert(0, slot)
        elif part.after is None:
            self._order.append(slot)
        else:
            at = self._at(part.after)
            before = self._old.get(part.after.lower())
            if at is None and before in self._order:
                at = self._order.index(before)
            if at is None:
                self._fail(f"has no column {part.after} to put {slot.column.name} after")
            self._order.insert(at + 1, slot)

    def _at(self, name: str) -> int | None:
        places = (i for i, s in enumerate(self._order) if s.column.name.lower() == name.lower())
        return next(places, None)

    def _has(self, name: str) -> bool:
        slot = self._old.get(name.lower())
        return any(s is slot for s in self._order)

    def _find(self, name: str) -> _Slot:
        if not self._has(name):
            self._fail(f"has no column {name}")
        return self._old[name.lower()]

    def _fail(self, what: str) -> NoReturn:
        raise SchemaError(f"table {self._table} {what}")


def _keys(table: Table, changes: tuple[ColumnChange, ...], order: list[_Slot]) -> list[UniqueKey]:
    """The unique keys after the change. A table inferred from rows has only its handle key, taken for the primary key."""
    where = f"table {table.database}.{table.name}"
    names = {s.old.name.lower(): s.column.name for s in order if s.old}
    dropped = {c.name.lower() for c in changes if isinstance(c, DropKey)}
    renamed = {c.name.lower(): c.to for c in changes if isinstance(c, RenameKey)}
    keys: list[UniqueKey] = []
    for key in table.uniques or ((UniqueKey(PRIMARY, table.keys),) if table.keys else ()):
        left = tuple(names[n.lower()] for n in key.columns if n.lower() in names)
        if key.name.lower() not in dropped and left:
            keys.append(UniqueKey(renamed.get(key.name.lower(), key.name), left))
    columns = [s.column for s in order]
    known = {c.name for c in columns}
    for change in (c for c in changes if isinstance(c, AddKey)):
        there = any(k.name.lower() == change.key.name.lower() for k in keys)
        if there and not change.if_not_exists:
            raise SchemaError(f"{where} already has a key {change.key.name}")
        if not there:
            added = spelled([change.key], columns)
            missing = [n for n in added[0].columns if n not in known]
            if missing:
                raise SchemaError(f"{where} has no column {missing[0]} for key {change.key.name or missing[0]}")
            keys = named(keys, added)
    return keys
