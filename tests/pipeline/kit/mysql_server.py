"""A model of a MySQL server whose tables are renamed, swapped and spelled in any case, and of the connector that follows it.

    server = Server(lower_case_table_names=1, chance=Random(1))
    for _ in range(30): server.step()
    server.log.records; server.expected()

Names are compared as the server does, and stored in its spelling. The connector writes events as Debezium's does: it splits a
statement that renames or drops several tables, names only the new table of a rename, keeps the spelling of the first statement
for `source.table` and topics, and has the server's own spelling in rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.pipeline.kit.server_log import Image, ServerLog

Row = dict[str, Any]
Name = tuple[str, str]
DATABASES = ("shop", "depot")
TABLES = ("parcels", "slots", "visits")


@dataclass
class Table:
    """A table: columns with their defaults, and rows by `id`."""

    columns: dict[str, int | None] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)

    def described(self) -> list[str]:
        """The columns as `tableChanges` has them."""
        defaults = ((n, "" if d is None else f" {d}") for n, d in self.columns.items())
        return ["id bigint", *(f"{n} int{default}" for n, default in defaults)]

    def copy(self) -> Table:
        return Table(dict(self.columns), {key: dict(row) for key, row in self.rows.items()})


@dataclass
class Server:
    """The server and its connector.

    Attributes:
        lower_case_table_names: the server's setting.
        captures: whether the connector sends the rows of a table, by its name in lower case.
        all_ddl: the connector also sends the DDL of tables whose rows it does not send.
        copies: whether tables may be swapped with copies, as tools for online schema changes do it.
    """

    lower_case_table_names: int
    chance: Random
    captures: Callable[[str], bool] = lambda name: True
    all_ddl: bool = True
    copies: bool = True
    tables: dict[Name, Table] = field(default_factory=dict)
    spelled: dict[Name, Name] = field(default_factory=dict)  # stored name -> the connector's spelling
    next_id: int = 0
    next_column: int = 0

    def __post_init__(self) -> None:
        self.log = ServerLog()

    # Names.

    def stored(self, name: Name) -> Name:
        """The name under which the server has the table, or would have it."""
        lower = name[0].lower(), name[1].lower()
        if self.lower_case_table_names == 1:
            return lower
        if self.lower_case_table_names == 0:
            return name
        return next((n for n in self.tables if (n[0].lower(), n[1].lower()) == lower), name)

    def spelling(self, name: Name) -> Name:
        """A spelling of an existing table that the server accepts."""
        if self.lower_case_table_names == 0:
            return name
        table = self.chance.choice([name[1], name[1].upper(), name[1].capitalize(), name[1].lower()])
        return name[0], table

    def fresh(self) -> Name | None:
        """A name that no table has, in a random spelling."""
        table = self.chance.choice(TABLES) + self.chance.choice(["", "2"])
        name = self.chance.choice(DATABASES), self.chance.choice([table, table.capitalize(), table.upper()])
        if self.lower_case_table_names == 0 and self.chance.random() < 0.7:
            name = name[0], table
        return None if self.stored(name) in self.tables else name

    def text(self, name: Name, session: str) -> str:
        """The name in a statement of a session."""
        return name[1] if name[0] == session and self.chance.random() < 0.7 else f"`{name[0]}`.`{name[1]}`"

    # Statements.

    def step(self) -> None:
        """One statement, or one run of a tool."""
        kinds = (
            [self.write] * 6
            + [self.create] * 2
            + [self.alter, self.rename, self.swap, self.drop, self.truncate, self.like]
        )
        if self.copies:
            kinds += [self.change_online] * 2
        self.chance.choice(kinds)()

    def any_table(self) -> Name | None:
        return self.chance.choice(sorted(self.tables)) if self.tables else None

    def make(self, name: Name, table: Table) -> None:
        self.tables[self.stored(name)] = table
        self.spelled[self.stored(name)] = name

    def event(
        self, text: str, of: Name, columns: list[str] | None, *, own: str | None = None, again: bool = False
    ) -> None:
        """The connector's event about a table, if it sends it."""
        if not again:
            self.log.begin()
        if self.all_ddl or self.captures(of[1].lower()):
            self.log.ddl(text, of[0], of[1] if own is None else own, columns, again=True)

    def create(self) -> None:
        name = self.fresh()
        if name is not None:
            self.make_empty(name)

    def make_empty(self, name: Name) -> None:
        table = Table({"a": None, "b": self.chance.choice([None, 7])})
        self.make(name, table)
        parts = ", ".join(f"{n} INT{'' if d is None else f' DEFAULT {d}'}" for n, d in table.columns.items())
        session = self.chance.choice([name[0], *DATABASES])
        named = self.text(name, session)
        self.event(f"CREATE TABLE {named} (id BIGINT NOT NULL, {parts}, PRIMARY KEY (id))", name, table.described())

    def like(self) -> None:
        model, name = self.any_table(), self.fresh()
        if model is not None and name is not None:
            self.make_like(model, name)

    def make_like(self, model: Name, name: Name) -> None:
        alike = [n for n in self.tables if n[1].lower() == model[1].lower()]
        session = self.chance.choice(DATABASES)
        if any(self.tables[n].columns != self.tables[model].columns for n in alike):
            session = ""  # a statement that does not show its database could mean either
        self.make(name, Table(dict(self.tables[model].columns)))
        text = f"CREATE TABLE {self.text(name, session)} LIKE {self.text(self.spelling(model), session)}"
        self.event(text, name, self.tables[self.stored(name)].described())

    def alter(self, name: Name | None = None) -> None:
        name = name or self.any_table()
        if name is None:
            return
        table, before = self.tables[name], list(self.tables[name].columns)
        kind = self.chance.choice(["add", "add", "drop", "rename"])
        self.next_column += 1
        new = f"c{self.next_column}"
        if kind == "add" or not before:
            default = self.chance.choice([None, self.next_column])
            table.columns[new] = default
            part = f"ADD COLUMN {new} INT{'' if default is None else f' NOT NULL DEFAULT {default}'}"
            for row in table.rows.values():
                row[new] = default
        elif kind == "drop":
            part = f"DROP COLUMN {before[0]}"
            del table.columns[before[0]]
            for row in table.rows.values():
                del row[before[0]]
        else:
            part = f"RENAME COLUMN {before[-1]} TO {new}"
            table.columns[new] = table.columns.pop(before[-1])
            for row in table.rows.values():
                row[new] = row.pop(before[-1])
        named = self.text(self.spelling(name), name[0])
        self.event(f"ALTER TABLE {named} {part}", self.spelled[name], table.described())

    def write(self, name: Name | None = None) -> None:
        name = name or self.any_table()
        if name is None:
            return
        table, images = self.tables[name], list[Image]()
        for _ in range(self.chance.randint(1, 3)):
            key = self.chance.choice(sorted(table.rows)) if table.rows and self.chance.random() < 0.5 else None
            if key is None:
                self.next_id += 1
                row = {"id": self.next_id} | {c: self.chance.randint(0, 99) for c in table.columns}
                images.append((None, dict(row)))
                table.rows[self.next_id] = row
            elif self.chance.random() < 0.3:
                images.append((table.rows.pop(key), None))
            else:
                before = dict(table.rows[key])
                table.rows[key] |= {c: self.chance.randint(0, 99) for c in table.columns}
                images.append((before, dict(table.rows[key])))
        self.send(name, images)

    def send(self, name: Name, images: list[Image]) -> None:
        if self.captures(name[1].lower()):
            self.log.rows(*self.spelled[name], *images, stored=name)
        else:
            self.log.begin()

    def truncate(self) -> None:
        name = self.any_table()
        if name is not None:
            self.tables[name].rows.clear()
            self.event(f"TRUNCATE TABLE {self.text(self.spelling(name), name[0])}", self.spelled[name], None)

    def drop(self, name: Name | None = None) -> None:
        name = name or self.any_table()
        if name is None:
            return
        del self.tables[name]
        spelled = self.spelled.pop(name)
        spelling = name if self.lower_case_table_names == 1 else spelled
        self.event(f"DROP TABLE `{spelling[0]}`.`{spelling[1]}` /* generated by server */", spelling, None)

    def rename(self) -> None:
        old, new = self.any_table(), self.fresh()
        if old is None or new is None:
            return
        session = self.chance.choice(DATABASES)
        if len([n for n in self.tables if n[1].lower() == old[1].lower()]) > 1:
            session = ""  # a statement that does not show its database could mean either
        words = self.chance.choice(["RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"])
        old_text = self.text(self.spelling(old), session)
        new_text = f"`{new[0]}`.`{new[1]}`" if session != new[0] else self.text(new, session)
        self.move(old, new)
        self.event(words.format(old_text, new_text), new, self.tables[self.stored(new)].described())

    def move(self, old: Name, new: Name) -> None:
        table = self.tables.pop(old)
        self.spelled.pop(old)
        self.make(new, table)

    def swap(self) -> None:
        """Two tables exchange their names, in one statement."""
        if len(self.tables) < 2:
            return
        left, right = self.chance.sample(sorted(self.tables), 2)
        spare = left[0], f"zz{self.log.position}"
        self.rename_together((left, spare), (right, left), (spare, right))

    def rename_together(self, *pairs: tuple[Name, Name]) -> None:
        """One statement that renames several tables, which the connector splits."""
        own = ",".join(dict.fromkeys(new[1] for _, new in pairs))
        for number, (old, new) in enumerate(pairs):
            spelling = self.spelling(old)
            self.move(self.stored(old), new)
            last = self.stored(new) if not any(later == new for later, _ in pairs[number + 1 :]) else None
            self.event(
                f"RENAME TABLE `{spelling[0]}`.`{spelling[1]}` TO `{new[0]}`.`{new[1]}`", new,
                self.tables[last].described() if last else None, own=own, again=number > 0,
            )  # fmt: skip

    # Online schema changes.

    def change_online(self) -> None:
        """gh-ost or pt-online-schema-change: a copy is made, altered, filled and swapped."""
        name = self.any_table()
        if name is None or name[1].startswith("_"):
            return
        gho, replaced = self.chance.choice([("_{}_gho", "_{}_del"), ("_{}_new", "_{}_old")])
        copy, old = (name[0], gho.format(name[1])), (name[0], replaced.format(name[1]))
        if {self.stored(copy), self.stored(old)} & set(self.tables):
            return
        self.make_like(name, copy)
        sources = {c: c for c in self.tables[name].columns}
        for _ in range(self.chance.randint(1, 2)):
            before = list(self.tables[self.stored(copy)].columns)
            self.alter(self.stored(copy))
            after = list(self.tables[self.stored(copy)].columns)
            gone, new = [c for c in before if c not in after], [c for c in after if c not in before]
            moved = dict(zip(new, gone, strict=False)) if gone and new else {}
            sources = {c: sources.get(moved.get(c, c), "") for c in after}
        if self.chance.random() < 0.5:
            self.write(name)
        self.fill(name, self.stored(copy), sources)
        if self.chance.random() < 0.5:
            self.rename_together((name, old), (copy, self.spelled[name]))
        else:
            spelled = self.spelled[name]
            for source, target in ((name, old), (self.stored(copy), spelled)):
                spelling = self.spelling(source)
                self.move(source, target)
                text = f"ALTER TABLE `{spelling[0]}`.`{spelling[1]}` RENAME TO `{target[0]}`.`{target[1]}`"
                self.event(text, target, self.tables[self.stored(target)].described())
        self.write(self.stored(name))
        self.drop(self.stored(old))

    def fill(self, name: Name, copy: Name, sources: dict[str, str]) -> None:
        """Copies the rows as the tool does."""
        table, images = self.tables[copy], list[Image]()
        for key, row in self.tables[name].rows.items():
            table.rows[key] = {"id": key} | {
                c: row[sources[c]] if sources[c] else default for c, default in table.columns.items()
            }
            images.append((None, dict(table.rows[key])))
        if images:
            self.send(copy, images)

    def expected(self) -> dict[str, list[Row]]:
        """The rows of all tables that have any, as the server has them."""
        return {
            f"{name[0]}.{name[1]}": sorted(table.rows.values(), key=lambda row: int(row["id"]))
            for name, table in self.tables.items()
            if table.rows and self.captures(name[1].lower())
        }
