"""The clauses of ALTER TABLE, drawn one by one; those of one statement may refer to each other."""

from __future__ import annotations

from random import Random

from tests.live import names
from tests.live.columns import Dialect, Type, changed, default, definition, draw_type, keyable, place
from tests.live.names import written
from tests.live.schema import ServerColumn, ServerTable, quoted
from tests.live.values import plain

_CHARSETS = ["utf8mb4", "latin1", "utf8mb3", "ascii", "binary"]


class Clauses:
    """The clauses of one ALTER TABLE."""

    def __init__(self, random: Random, dialect: Dialect, table: ServerTable) -> None:
        self.random, self.dialect, self.table = random, dialect, table
        self.new: list[str] = []  # columns that earlier clauses add
        self.used: set[str] = set()  # columns that earlier clauses change

    def draw(self) -> str:
        """A clause."""
        kinds = {
            self.add: 30, self.add_list: 3, self.drop: 12, self.modify: 22, self.change: 9, self.rename_column: 6,
            self.set_default: 5, self.add_key: 12, self.drop_key: 7, self.replace_key: 3, self.rename_key: 2, self.option: 6,
        }  # fmt: skip
        clause = self.random.choices(list(kinds), list(kinds.values()))[0]
        return clause() or self.add()

    def add(self) -> str:
        """ADD COLUMN."""
        random = self.random
        name = self._new_name()
        exists = "IF NOT EXISTS " if self.dialect.mariadb and random.random() < 0.05 else ""
        column = "COLUMN " if exists or random.random() < 0.6 else ""
        kind, others = draw_type(random), [c for c in self.table.columns if not c.generated and not c.auto_increment]
        text = f"ADD {column}{exists}{written(random, name)} {definition(random, self.dialect, kind, others)}"
        text += place(random, self.table, self.new)
        self.new.append(name)
        return text

    def add_list(self) -> str:
        """ADD (…, …)."""
        parts = []
        for _ in range(self.random.choice([1, 2, 2])):
            name = self._new_name()
            self.new.append(name)
            parts.append(f"{quoted(name)} {definition(self.random, self.dialect, draw_type(self.random), [])}")
        return f"ADD COLUMN ({', '.join(parts)})"

    def drop(self) -> str:
        """DROP COLUMN."""
        column = self._column()
        if column is None or len(self.table.columns) < 3:
            return ""
        exists = "IF EXISTS " if self.dialect.mariadb and self.random.random() < 0.1 else ""
        return f"DROP {'COLUMN ' if exists or self.random.random() < 0.7 else ''}{exists}{written(self.random, column.name)}"

    def modify(self) -> str:
        """MODIFY COLUMN: another type, another place, other properties."""
        column = self._column(changing=True)
        return "" if column is None else self._modified(column, "MODIFY", written(self.random, column.name))

    def change(self) -> str:
        """CHANGE COLUMN: the same with another name, at times the old one."""
        column = self._column(changing=True)
        if column is None:
            return ""
        name = column.name if self.random.random() < 0.2 else self._new_name()
        self.new.append(name)
        return self._modified(column, "CHANGE", f"{quoted(column.name)} {written(self.random, name)}")

    def _modified(self, column: ServerColumn, word: str, what: str) -> str:
        random = self.random
        required = "PRIMARY" in [key.name for key in self.table.keys if column.name in key.columns]
        kind = as_declared(column) if random.random() < 0.3 or required else changed(random, column)
        if required and random.random() < 0.3 and column.kind in ("int", "smallint", "varchar"):
            kind = Type("BIGINT", column) if column.kind != "varchar" else Type("VARCHAR(60)", column)
        if kind.column.generated:
            return ""
        text = f"{word} {'COLUMN ' if random.random() < 0.6 else ''}{what} "
        text += definition(random, self.dialect, kind, [], required=required)
        return text + place(random, self.table, self.new)

    def rename_column(self) -> str:
        """RENAME COLUMN, at times two that swap their names."""
        column = self._column(changing=True)
        if column is None:
            return ""
        other = self._column(changing=True)
        if other is not None and self.random.random() < 0.3:
            one, two = quoted(column.name), quoted(other.name)
            return f"RENAME COLUMN {one} TO {two}, RENAME COLUMN {two} TO {one}"
        name = self._new_name()
        self.new.append(name)
        return f"RENAME COLUMN {written(self.random, column.name)} TO {written(self.random, name)}"

    def set_default(self) -> str:
        """ALTER COLUMN … SET or DROP DEFAULT."""
        column = self._column(changing=True)
        if column is None or not keyable(column):
            return ""
        what = f"SET DEFAULT {plain(self.random, column)}" if self.random.random() < 0.7 else "DROP DEFAULT"
        return f"ALTER {'COLUMN ' if self.random.random() < 0.6 else ''}{written(self.random, column.name)} {what}"

    def add_key(self) -> str:
        """ADD PRIMARY KEY, UNIQUE, INDEX, CHECK."""
        random = self.random
        parts = key_parts(random, self.dialect, [c for c in self.table.columns if c.name not in self.used], self.new)
        if not parts:
            return ""
        kinds = ["PRIMARY KEY", "UNIQUE KEY", "UNIQUE INDEX", "UNIQUE", "KEY", "INDEX"]
        kind = random.choices(kinds, [3, 3, 2, 2, 2, 2])[0]
        name = "" if kind == "PRIMARY KEY" or random.random() < 0.4 else f" {quoted(names.key_name(random))}"
        constraint = (
            f"CONSTRAINT {quoted(names.key_name(random))} " if "UNIQUE" in kind and random.random() < 0.15 else ""
        )
        return f"ADD {constraint}{kind}{name} ({parts})" + random.choice(["", "", "", " COMMENT 'k'", " USING BTREE"])

    def drop_key(self) -> str:
        """DROP KEY, DROP PRIMARY KEY."""
        if not self.table.keys:
            return ""
        key = self.random.choice(self.table.keys)
        if key.name == "PRIMARY":
            return "DROP PRIMARY KEY"
        return f"DROP {self.random.choice(['KEY', 'INDEX'])} {quoted(key.name)}"

    def replace_key(self) -> str:
        """Another primary key for the one there is."""
        parts = key_parts(self.random, self.dialect, list(self.table.columns), [])
        if not parts or "PRIMARY" not in [key.name for key in self.table.keys]:
            return ""
        return f"DROP PRIMARY KEY, ADD PRIMARY KEY ({parts})"

    def rename_key(self) -> str:
        """RENAME INDEX."""
        named = [key.name for key in self.table.keys if key.name != "PRIMARY"]
        if not named:
            return ""
        return f"RENAME {self.random.choice(['KEY', 'INDEX'])} {quoted(self.random.choice(named))} TO {quoted('kr')}"

    def option(self) -> str:
        """A property of the table."""
        options = [
            "COMMENT 'x; y'", "COMMENT = 'ALTER TABLE'", "ENGINE=InnoDB", "ROW_FORMAT=DYNAMIC", "AUTO_INCREMENT=1000",
            f"CONVERT TO CHARACTER SET {self.random.choice(_CHARSETS)}",
            f"DEFAULT CHARACTER SET {self.random.choice(_CHARSETS)}", "ALGORITHM=COPY", "FORCE", "STATS_PERSISTENT=1",
            f"ORDER BY {quoted(self.table.columns[0].name)}",
        ]  # fmt: skip
        return self.random.choice(options)

    def _new_name(self) -> str:
        return names.column_name(self.random, {column.name for column in self.table.columns} | set(self.new))

    def _column(self, *, changing: bool = False) -> ServerColumn | None:
        """A column that no earlier clause names."""
        free = [c for c in self.table.columns if c.name not in self.used and not (changing and c.generated)]
        if not free:
            return None
        column = self.random.choice(free)
        self.used.add(column.name)
        return column


def as_declared(column: ServerColumn) -> Type:
    """The type that a column has."""
    charset = f" CHARACTER SET {column.charset}" if column.charset else ""
    return Type(column.type + charset, column)


def key_parts(random: Random, dialect: Dialect, columns: list[ServerColumn], new: list[str]) -> str:
    """The parts of a key: columns, at times a prefix, or an expression (MySQL)."""
    if not dialect.mariadb and random.random() < 0.05 and columns:
        return f"(ABS({quoted(random.choice(columns).name)}))"
    whole = [column for column in columns if keyable(column)]
    if not whole:
        return ""
    chosen = random.sample(whole, min(len(whole), random.choice([1, 1, 1, 2, 2, 3])))
    parts = []
    for column in chosen:
        prefix = column.kind in ("varchar", "char") and column.numbers[0] > 4 and random.random() < 0.15
        parts.append(
            quoted(column.name) + (f"({column.numbers[0] // 2})" if prefix else random.choice(["", "", "", " DESC"]))
        )
    return ", ".join(parts)


__all__ = ["Clauses", "as_declared", "default", "key_parts"]
