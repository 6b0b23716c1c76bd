"""Changes of one table, and the rows that they end with."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType

INT, TEXT = ColumnType("int"), ColumnType("varchar")
TABLE = Table(
    "app", "t", (Column("id", INT, key=True), Column("a", INT), Column("it's", TEXT), Column("b", INT)), ("id",)
)
ALL = [True] * 4
NAMES = [c.name for c in TABLE.columns]


def change(ts: int | None, offset: int, key: int, values: tuple[Any, ...] | None, **metadata: Any) -> dict[str, Any]:
    """A change of `key`: the other columns' values, or None for a delete."""
    full = values if values is not None else (None, None, None)
    row = {f"c{i}": value for i, value in enumerate((key, *full))}
    return {
        **row, "_has": None, "_deleted": values is None, "_irregular": {}, "_ts": ts, "_topic": "t", "_partition": 0,
        "_offset": offset, "_index": None, "_half": 0 if values is None else 1, "_op": "update",
        "_time": datetime(2026, 1, 1, tzinfo=UTC), **metadata,
    }  # fmt: skip


def reduced(changes: list[dict[str, Any]]) -> dict[int, dict[str, Any] | None]:
    """Key -> column -> (value, irregular text) of the known columns; None for a deleted row.

    Unknown columns keep the sink's values.
    """
    rows: dict[int, dict[str, Any] | None] = {}
    gone: set[int] = set()
    for row in sorted(changes, key=lambda c: (c["_ts"], c["_half"], c["_partition"], c["_offset"])):
        key, has = row["c0"], row["_has"] or ALL
        if row["_deleted"]:
            rows[key] = None
            gone.add(key)
            continue
        old = rows.get(key) or (dict.fromkeys(NAMES, (None, None)) if key in gone else {})
        new = {n: (row[f"c{i}"], row["_irregular"].get(n)) for i, n in enumerate(NAMES) if has[i]}
        rows[key] = {**old, **new}
    return rows


def as_known(row: Any, *, partial: bool) -> dict[str, Any] | None:
    """A row of `latest` in the same form."""
    if row["_deleted"]:
        return None
    has = row["_has"] if partial else ALL
    return {n: (row[f"c{i}"], row["_irregular"].get(n)) for i, n in enumerate(NAMES) if has[i]}


def random_changes(seed: int, *, partial: bool) -> list[dict[str, Any]]:
    """Transactions that change every key at most once, except a key that is deleted and inserted in the same one."""
    random, changes = Random(seed), list[dict[str, Any]]()
    for ts in range(1, 90):
        for key in random.sample(range(15), random.randint(1, 5)):
            gone, left = random.random() < 0.2, random.random() < 0.1
            place = {"_partition": random.randint(0, 2)}
            if gone or left:
                changes.append(change(ts, len(changes), key, None, **place))
            if gone:
                continue
            has = (
                [True, *random.choices([True, False], k=3)] if partial and random.random() < 0.6 and not left else None
            )
            values = [random.choice([None, f"{len(changes)}"]) for _ in range(3)]
            values = [v if h else None for v, h in zip(values, (has or ALL)[1:], strict=True)]
            irregular = {"a": "odd"} if values[0] is None and (has or ALL)[1] and random.random() < 0.3 else {}
            number = [None if values[i] is None else int(values[i] or 0) for i in (0, 2)]
            row = change(ts, len(changes), key, (number[0], values[1], number[1]), _has=has, _irregular=irregular)
            changes.append({**row, "_partition": random.randint(0, 2)})
    return changes


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any] | None]] = {
    "several versions": (
        [change(1, 0, 1, (1, "x", 1)), change(3, 1, 1, (3, "z", 3)), change(2, 2, 1, (2, "y", 2))],
        {"id": (1, None), "a": (3, None), "it's": ("z", None), "b": (3, None)},
    ),
    "absent is not NULL": (
        [change(1, 0, 1, (None, "x", None), _has=[True, True, True, False]),
         change(2, 1, 1, (None, None, None), _has=[True, False, True, False])],
        {"id": (1, None), "a": (None, None), "it's": (None, None)},
    ),
    "a partial insert after a delete has NULL in what it leaves out": (
        [change(1, 0, 1, (1, "x", 1)), change(2, 1, 1, None),
         change(3, 2, 1, (None, "new", None), _has=[True, False, True, False])],
        {"id": (1, None), "a": (None, None), "it's": ("new", None), "b": (None, None)},
    ),
    "deleted last": (
        [change(1, 0, 1, (1, "x", 1)), change(2, 1, 1, (None, "y", None), _has=[True, False, True, False]),
         change(3, 2, 1, None)],
        None,
    ),
    "one row leaves the key, another takes it, in one transaction": (
        [change(1, 5, 1, (7, "moved in", 7), _partition=0), change(1, 3, 1, None, _partition=1)],
        {"id": (1, None), "a": (7, None), "it's": ("moved in", None), "b": (7, None)},
    ),
    "irregular texts belong to their values": (
        [change(1, 0, 1, (None, None, 1), _irregular={"a": "A", "it's": "T"}),
         change(2, 1, 1, (None, "fine", None), _has=[True, False, True, False])],
        {"id": (1, None), "a": (None, "A"), "it's": ("fine", None), "b": (1, None)},
    ),
}  # fmt: skip
