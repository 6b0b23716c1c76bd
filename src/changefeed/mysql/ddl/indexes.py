"""The indexes of a table: unique keys, other indexes, and the names that the server makes for them.

Rule 1. Unique keys and other indexes share one name space, ignoring case. An index without a name is called as its first
        column, or `functional_index` if it has an expression; then `…_2`, `…_3` while an index before it has that name.
Rule 2. ALTER drops and renames first, then adds in order. IF NOT EXISTS looks at the indexes from before the statement, and
        at those added so far: for the name, or for that of the first column.
Rule 3. The index that a foreign key needs is made only if no other one begins with its columns, and is dropped when one comes.
Rule 4. A dropped column leaves its indexes; an index without parts is dropped. If the statement adds a column of that name, it
        stays in them, by its first characters: so the index identifies no row.
Rule 5. The key of a table inferred from rows is taken for its primary key; a primary key that is added replaces it.
Rule 6. A unique key with a period has the period's two columns. If these are not known, it is an index like others.
Rule 7. Of a table whose DDL was not all read, some indexes are unknown: only two unique keys of one name are an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from changefeed.errors import SchemaError
from changefeed.model.definition import PRIMARY, Index, Table, UniqueKey
from changefeed.mysql.ddl.statements import AddColumn, AddIndex, AddKey, ColumnChange, DropColumn, DropKey, RenameKey

AnyIndex = UniqueKey | Index


def created(
    added: Iterable[AddKey | AddIndex], columns: list[str], periods: Mapping[str, tuple[str, str]], *, named_first: bool
) -> list[AnyIndex]:
    """The indexes of a new table.

    Args:
        added: in their order.
        columns: the names of the table's columns.
        periods: lower-case name of each period -> its columns.
        named_first: TiDB: names that the statement has are taken before names are made.
    """
    spelled = [_spelled(_definition(add, periods), columns) for add in added]
    taken = [i.name for i in spelled if i.name] if named_first else []
    return _named([], _without_implied(spelled), taken)


def altered(
    table: Table, changes: tuple[ColumnChange, ...], renamed: Mapping[str, str], columns: list[str]
) -> list[AnyIndex]:
    """The indexes after ALTER TABLE.

    Args:
        table: before it.
        changes: the parts of the statement.
        renamed: lower-case name of each old column that stays -> its new name.
        columns: the names of the columns after it.

    Raises:
        SchemaError: a unique key is added whose name is in use, or which names a column that is not there.
    """
    where = f"table {table.database}.{table.name}"
    assumed = not table.uniques and bool(table.keys)
    before: list[AnyIndex] = [UniqueKey(PRIMARY, table.keys)] if assumed else list(table.uniques)
    before += table.indexes
    present = {i.name.lower() for i in before}
    kept = _kept(before, changes, renamed)
    added: list[AnyIndex] = []
    for change in changes:
        if not isinstance(change, AddKey | AddIndex):
            continue
        new = _spelled(_definition(change, {}), columns)
        if change.if_not_exists and (new.name or new.columns[0]).lower() in present:
            continue
        if isinstance(new, UniqueKey):
            missing = [n for n in new.columns if n not in columns]
            if missing:
                raise SchemaError(f"{where} has no column {missing[0]} for key {new.name or missing[0]}")
        if assumed and new.name == PRIMARY:
            kept, assumed = [i for i in kept if i.name != PRIMARY], False
        kept = _without_stale(kept, new, where)
        added.append(new)
        present.add((new.name or new.columns[0]).lower())
    left = _without_implied(kept + added)
    return _named([i for i in left if i in kept], [i for i in left if i not in kept], [])


def _definition(change: AddKey | AddIndex, periods: Mapping[str, tuple[str, str]]) -> AnyIndex:
    if isinstance(change, AddIndex):
        return change.index
    if change.period is None:
        return change.key
    columns = periods.get(change.period.lower())
    if columns is None:
        return Index(change.key.name, change.key.columns)
    return replace(change.key, columns=tuple(n for n in change.key.columns if n != change.period) + columns)


def _spelled(index: AnyIndex, columns: list[str]) -> AnyIndex:
    """The index with the columns' own spelling: in DDL they may be written in any case."""
    names = {name.lower(): name for name in columns}
    return replace(index, columns=tuple(names.get(n.lower(), n) for n in index.columns))


def _kept(indexes: list[AnyIndex], changes: tuple[ColumnChange, ...], renamed: Mapping[str, str]) -> list[AnyIndex]:
    """The indexes that are neither dropped nor left without parts, with their new names."""
    drops = [c for c in changes if isinstance(c, DropKey)]
    dropped = {c.name.lower() for c in drops if not c.constraint}
    unique_dropped = dropped | {c.name.lower() for c in drops}
    names = {c.name.lower(): c.to for c in changes if isinstance(c, RenameKey)}
    added = {c.column.name.lower(): c.column.name for c in changes if isinstance(c, AddColumn)}
    again = {c.name.lower() for c in changes if isinstance(c, DropColumn)}.intersection(added)
    stay = {name: added[name] for name in again} | dict(renamed)
    kept: list[AnyIndex] = []
    for index in indexes:
        gone = unique_dropped if isinstance(index, UniqueKey) else dropped
        columns = tuple(stay.get(n.lower(), n) for n in index.columns if not n or n.lower() in stay)
        if index.name.lower() in gone or not columns:
            continue
        name = names.get(index.name.lower(), index.name)
        if again.isdisjoint(n.lower() for n in index.columns):
            kept.append(replace(index, name=name, columns=columns))
        else:
            kept.append(Index(name, columns))
    return kept


def _without_stale(kept: list[AnyIndex], new: AnyIndex, where: str) -> list[AnyIndex]:
    """The indexes without another one of the new one's name, see Rule 7."""
    same = [i for i in kept if new.name and i.name.lower() == new.name.lower()]
    if any(isinstance(i, UniqueKey) for i in same):
        raise SchemaError(f"{where} already has a key {new.name}")
    return [i for i in kept if i not in same]


def _without_implied(indexes: list[AnyIndex]) -> list[AnyIndex]:
    """The indexes without those of foreign keys for which another one serves, see Rule 3."""
    return [index for at, index in enumerate(indexes) if not _is_served(index, at, indexes)]


def _is_served(index: AnyIndex, at: int, indexes: list[AnyIndex]) -> bool:
    if not isinstance(index, Index) or not index.implied:
        return False
    return any(
        other.columns[: len(index.columns)] == index.columns
        for i, other in enumerate(indexes)
        if i != at and (i < at or not (isinstance(other, Index) and other.implied and other.columns == index.columns))
    )


def _named(kept: list[AnyIndex], added: list[AnyIndex], taken: list[str]) -> list[AnyIndex]:
    """All indexes; unnamed ones of `added` get the names that the server makes, see Rule 1."""
    names = {name.lower() for name in taken} | {i.name.lower() for i in kept}
    indexes = list(kept)
    for index in added:
        first = "functional_index" if "" in index.columns else index.columns[0]
        name, count = index.name or first, 2
        while not index.name and (name.lower() in names or name.lower() == PRIMARY.lower()):
            name, count = f"{first}_{count}", count + 1
        names.add(name.lower())
        indexes.append(replace(index, name=name))
    return indexes


def split(indexes: list[AnyIndex]) -> tuple[tuple[UniqueKey, ...], tuple[Index, ...]]:
    """The unique keys, and the other indexes."""
    uniques = tuple(i for i in indexes if isinstance(i, UniqueKey))
    return uniques, tuple(i for i in indexes if isinstance(i, Index))
