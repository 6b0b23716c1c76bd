"""An upstream with tables in dicts that changes at random: it emits events, and its tables are the expected result.

Every change is applied immediately to plain dicts; they are the oracle. The same change is emitted as DDL text or as row
images, which is all that the planner receives.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

MEMBERS = ("new", "paid")
# kind -> (DDL, type inferred from rows, default in DDL and as a value)
KINDS: dict[str, tuple[str, str, str, Any]] = {
    "int": ("INT", "int", "7", 7),
    "bigint": ("BIGINT", "bigint", "'-8'", -8),
    "text": ("VARCHAR(20)", "varchar", "'it''s \\\\ ok'", "it's \\ ok"),
    "decimal": ("DECIMAL(10,2)", "decimal", "1.5", "1.50"),
    "enum": ("ENUM('new','paid')", "enum", "'paid'", 2),
}
WIDER = {"int": ("bigint", "text"), "bigint": ("text",), "text": (), "decimal": (), "enum": ()}
NAMES = tuple((d, t) for d in ("app", "Shop") for t in ("Orders", "items", "t3", "T4", "_x"))
# Names that MySQL allows in quotes: with a dot between, several of them are the same text.
DOTTED = (
    *(("app", t) for t in ("b", "b.c", "b.c.d", ".", "`", "`b`.c")),
    *(("app.b", t) for t in ("b", "c", "c.d")),
    ("app.b.c", "d"),
    ("`app`", "b"),
    ("app.`b`", "c"),
)
Row = dict[str, Any]
_SPELLINGS: tuple[Callable[[str], str], ...] = (str, str, str.upper, str.lower)


@dataclass
class Table:
    """Columns by name with their kind; rows by key, or in a list if there is no key.

    Attributes:
        logged: whether the log has its CREATE TABLE or a row of it. Without either, a rename stops a pipeline.
    """

    columns: dict[str, str]
    keyed: bool
    rows: Any = None
    logged: bool = True

    def __post_init__(self) -> None:
        self.rows = {} if self.keyed else []

    def all(self) -> list[Row]:
        return list(self.rows.values()) if self.keyed else self.rows


@dataclass(frozen=True)
class Ddl:
    """A statement, which goes to every partition."""

    ts: int
    database: str
    table: str | None
    text: str


@dataclass(frozen=True)
class Change:
    """One row change of a transaction: images that may leave out columns, and the kinds of all columns that they have."""

    ts: int
    database: str
    table: str
    kinds: dict[str, str]
    keyed: bool
    before: Row | None
    after: Row | None


@dataclass
class Upstream:
    """The current tables, all events so far, and the tables after each commit_ts."""

    random: Random
    partial: bool = False
    keyless: bool = True
    moves: bool = True  # rows change their key
    names: tuple[tuple[str, str], ...] = NAMES  # of tables
    ts: int = 100
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    events: list[Ddl | Change] = field(default_factory=list)
    history: dict[int, dict[tuple[str, str], Table]] = field(default_factory=dict)
    counter: int = 0

    def step(self) -> None:
        """Makes one DDL statement or one transaction."""
        self.ts += self.random.randint(1, 3)
        chance = self.random.random()
        if not self.tables or chance < 0.08:
            self._create()
        elif chance < 0.35:
            self.random.choice([
                self._add, self._add, self._drop_column, self._rename_column, self._modify, self._rename, self._rename,
                self._swap, self._truncate, self._drop, self._like, self._drop_database, self._recreate,
            ])()  # fmt: skip
        else:
            self._transaction()
        self.history[self.ts] = deepcopy(self.tables)

    def exist(self, database: str, name: str, columns: dict[str, str]) -> None:
        """Adds an empty table that exists before the log begins."""
        self.tables[database, name] = Table({"id": "int", **columns}, True, logged=False)

    # Rows.

    def _transaction(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            name = self.random.choice(sorted(self.tables))
            table = self.tables[name]
            chance = self.random.random()
            if not table.keyed or not table.rows or chance < 0.4:
                self._insert(name, table)
            elif chance < 0.7:
                self._update(name, table)
            elif chance < 0.85 or not self.moves:
                self._delete(name, table)
            else:
                self._swap_keys(name, table)

    def _insert(self, name: tuple[str, str], table: Table) -> None:
        row = {c: self._value(kind) for c, kind in table.columns.items()}
        if not table.keyed:
            table.rows.append(row)
        else:
            key = self.random.randint(1, 12)
            if key in table.rows or (self.ts, *name, key) in self._touched:
                return
            row["id"] = key
            table.rows[key] = row
        self._say(name, table, None, row)

    def _update(self, name: tuple[str, str], table: Table) -> None:
        key = self.random.choice(sorted(table.rows))
        if (self.ts, *name, key) in self._touched:
            return
        old = table.rows[key]
        new = {
            c: self._value(k) if c != "id" and self.random.random() < 0.4 else old[c] for c, k in table.columns.items()
        }
        table.rows[key] = new
        self._say(name, table, old, new)

    def _delete(self, name: tuple[str, str], table: Table) -> None:
        key = self.random.choice(sorted(table.rows))
        if (self.ts, *name, key) not in self._touched:
            self._say(name, table, table.rows.pop(key), None)

    def _swap_keys(self, name: tuple[str, str], table: Table) -> None:
        """One row takes the key of another, which takes a third: two updates of one transaction, in either order."""
        free = [k for k in range(1, 13) if k not in table.rows and (self.ts, *name, k) not in self._touched]
        there = [k for k in sorted(table.rows) if (self.ts, *name, k) not in self._touched]
        if len(there) < 2 or not free:
            return
        first, second = self.random.sample(there, 2)
        a, b = table.rows.pop(first), table.rows.pop(second)
        moves = [(a, {**a, "id": second}), (b, {**b, "id": self.random.choice(free)})]
        self.random.shuffle(moves)
        for old, new in moves:
            table.rows[new["id"]] = new
            self._say(name, table, old, new)

    @property
    def _touched(self) -> set[tuple[Any, ...]]:
        images = [(e, i) for e in self.events if isinstance(e, Change) and e.ts == self.ts for i in (e.before, e.after)]
        return {(e.ts, e.database, e.table, i["id"]) for e, i in images if i and e.keyed}

    def _value(self, kind: str) -> Any:
        if self.random.random() < 0.15:
            return None
        self.counter += 1
        number = self.counter
        return {"text": f"v{number}", "decimal": f"{number}.25", "enum": number % 2 + 1}.get(kind, number)

    def _say(self, name: tuple[str, str], table: Table, before: Row | None, after: Row | None) -> None:
        table.logged, kinds = True, dict(table.columns)
        if table.keyed and before is not None:
            if after is None:
                before = {"id": before["id"]} if self.random.random() < 0.5 else before
            elif self.partial and before["id"] == after["id"] and self.random.random() < 0.7:
                after = {c: v for c, v in after.items() if c == "id" or v != before[c]}
                before = {c: v for c, v in before.items() if c in after}
        self.events.append(Change(self.ts, *name, kinds, table.keyed, before and dict(before), after and dict(after)))

    # Tables.

    def _ddl(self, database: str, table: str | None, text: str) -> None:
        self.events.append(Ddl(self.ts, database, table, text))

    def _free(self) -> tuple[str, str]:
        taken = {(d.lower(), t.lower()) for d, t in self.tables}
        return self.random.choice([n for n in self.names if (n[0].lower(), n[1].lower()) not in taken])

    def _quoted(self, database: str, table: str) -> str:
        """A name as a user may spell it: TiDB finds it in any case."""
        change = self.random.choice(_SPELLINGS)
        return _named(change(database), change(table))

    def _cased(self, column: str) -> str:
        return f"`{self.random.choice(_SPELLINGS[1:3])(column)}`"

    def _create(self, name: tuple[str, str] | None = None) -> None:
        if name is None and len(self.tables) > 5:
            return
        name = name or self._free()
        keyed = not self.keyless or self.random.random() < 0.8
        kinds = self.random.choices(sorted(KINDS), k=self.random.randint(1, 3))
        table = Table({"id": "int"} | {f"c{i}": kind for i, kind in enumerate(kinds)}, keyed)
        self.tables[name] = table
        columns = [f"`{c}` {KINDS[k][0]}{' NOT NULL' if c == 'id' else ''}" for c, k in table.columns.items()]
        columns += ["PRIMARY KEY (`ID`)"] if keyed else []
        self._ddl(*name, f"CREATE TABLE {_named(*name)} ({', '.join(columns)})")

    def _like(self) -> None:
        if len(self.tables) > 5:
            return
        name, model = self._free(), self.random.choice(sorted(self.tables))
        like = self.tables[model]
        self.tables[name] = Table(dict(like.columns), like.keyed, logged=like.logged)
        self._ddl(*name, f"CREATE TABLE {_named(*name)} LIKE {self._quoted(*model)}")

    def _recreate(self) -> None:
        name = self.random.choice(sorted(self.tables))
        self._ddl(*name, f"DROP TABLE {self._quoted(*name)}")
        del self.tables[name]
        self.history[self.ts] = deepcopy(self.tables)
        self.ts += 1
        self._create(name)

    def _drop(self) -> None:
        name = self.random.choice(sorted(self.tables))
        del self.tables[name]
        self._ddl(*name, f"DROP TABLE {self._quoted(*name)}")

    def _drop_database(self) -> None:
        database = self.random.choice(list(dict.fromkeys(database for database, _ in self.names)))
        for name in [n for n in self.tables if n[0] == database]:
            del self.tables[name]
        self._ddl(database, None, f"DROP DATABASE {_quoted(database)}")

    def _truncate(self) -> None:
        name = self.random.choice(sorted(self.tables))
        self.tables[name].rows.clear()
        self._ddl(*name, f"TRUNCATE TABLE {self._quoted(*name)}")

    def _rename(self) -> None:
        logged = self._logged()
        if not logged:
            return
        old, new = self.random.choice(logged), self._free()
        self.tables[new] = self.tables.pop(old)
        self._ddl(*new, f"RENAME TABLE {self._quoted(*old)} TO {_named(*new)}")

    def _logged(self) -> list[tuple[str, str]]:
        return sorted(name for name, table in self.tables.items() if table.logged)

    def _swap(self) -> None:
        logged = self._logged()
        if len(logged) < 2:
            return
        a, b = self.random.sample(logged, 2)
        self.tables[a], self.tables[b] = self.tables[b], self.tables[a]
        spelled = [_named(*name) for name in (a, ("app", "swap"), b, a, ("app", "swap"), b)]
        pairs = [" TO ".join(spelled[i : i + 2]) for i in (0, 2, 4)]
        if self.random.random() < 0.5:
            self._ddl(*b, f"RENAME TABLE {', '.join(pairs)}")
        else:  # TiCDC sends one event for each
            for pair, (database, table) in zip(pairs, (("app", "swap"), a, b), strict=True):
                self._ddl(database, table, f"RENAME TABLE {pair}")

    # Columns.

    def _alter(self, text: str, name: tuple[str, str]) -> None:
        self._ddl(*name, f"ALTER TABLE {self._quoted(*name)} {text}")

    def _pick(self) -> tuple[tuple[str, str], Table, list[str]]:
        name = self.random.choice(sorted(self.tables))
        table = self.tables[name]
        return name, table, [c for c in table.columns if c != "id"]

    def _set(self, table: Table, column: str, value: Any) -> None:
        for row in table.all():
            row[column] = value

    def _add(self) -> None:
        name, table, columns = self._pick()
        if len(columns) > 4:
            return
        self.counter += 1
        again = [f"c{i}" for i in range(3) if f"c{i}" not in {c.lower() for c in table.columns}]
        column = self.random.choice([f"n{self.counter}", *again])
        kind = self.random.choice(sorted(KINDS))
        column_type, _, default, value = KINDS[kind]
        chosen = self.random.choice(["NULL", f"NOT NULL DEFAULT {default}", f"DEFAULT {default}"])
        table.columns[column] = kind
        self._set(table, column, None if chosen == "NULL" else value)
        place = self.random.choice(["", "", " FIRST", f" AFTER {self._cased('id')}"])
        self._alter(f"ADD COLUMN `{column}` {column_type} {chosen}{place}", name)

    def _drop_column(self) -> None:
        name, table, columns = self._pick()
        if columns:
            column = self.random.choice(columns)
            del table.columns[column]
            for row in table.all():
                del row[column]
            self._alter(f"DROP COLUMN {self._cased(column)}", name)

    def _rename_column(self) -> None:
        name, table, columns = self._pick()
        if not columns:
            return
        self.counter += 1
        column, to = self.random.choice(columns), f"r{self.counter}"
        self._move(table, {column: to})
        self._alter(f"RENAME COLUMN {self._cased(column)} TO `{to}`", name)

    def _modify(self) -> None:
        name, table, columns = self._pick()
        chosen = [(c, w) for c in columns for w in WIDER[table.columns[c]]]
        if not chosen:
            return
        column, wider = self.random.choice(chosen)
        table.columns[column] = wider
        if wider == "text":
            for row in table.all():
                row[column] = None if row[column] is None else str(row[column])
        spelled = self.random.choice([column, column.upper()])
        self._move(table, {column: spelled})
        self._alter(f"MODIFY COLUMN `{spelled}` {KINDS[wider][0]}", name)

    def _move(self, table: Table, names: dict[str, str]) -> None:
        table.columns = {names.get(c, c): kind for c, kind in table.columns.items()}
        for row in table.all():
            moved = {names.get(c, c): v for c, v in row.items()}
            row.clear()
            row.update(moved)


def _named(database: str, table: str) -> str:
    return f"{_quoted(database)}.{_quoted(table)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
