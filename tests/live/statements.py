"""Statements that change tables, drawn for the tables that there are: CREATE, ALTER, RENAME, DROP, TRUNCATE, and migrations.

Each draw is a list of statements that belong together, as the three of an online schema change.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.live import names
from tests.live.clauses import Clauses, key_parts
from tests.live.columns import Dialect, definition, draw_type
from tests.live.names import in_any_case, written
from tests.live.schema import ServerColumn, ServerTable, quoted

_OPTIONS = [
    "", "", "", "", "", " ENGINE=InnoDB", " DEFAULT CHARSET=utf8mb4", " CHARACTER SET latin1", " COMMENT='a; b'",
    " DEFAULT CHARSET=binary",
    " ROW_FORMAT=DYNAMIC COMMENT 'x, y'", " AUTO_INCREMENT=5",
]  # fmt: skip
_COMMENTS = ["", "", "", "", "", "", "", "/* job 7 */ ", "-- note\n", "# note\n", "/* DROP TABLE t1; */ "]


class Statements:
    """Draws statements for the tables of some databases."""

    def __init__(self, random: Random, dialect: Dialect, databases: list[str]) -> None:
        self.random, self.dialect, self.databases = random, dialect, databases
        self.tables: Mapping[tuple[str, str], ServerTable] = {}
        self.current = databases[0]  # the session's database

    def draw(self) -> list[str]:
        """Statements that belong together."""
        if len(self.tables) < 2:
            return self.create()
        kinds = {
            self.create: 9, self.create_like: 2, self.alter: 45, self.create_index: 5, self.drop_index: 3, self.rename: 6,
            self.swap: 3, self.move: 4, self.drop: 3, self.truncate: 3, self.migrate: 3, self.rename_database: 1, self.use: 3,
            self.recreate_database: 0.7,
            self.mode: 3, self.partition: 1, self.other: 2,
        }  # fmt: skip
        statements = self.random.choices(list(kinds), list(kinds.values()))[0]() or self.alter()
        return [self._decorated(statement) for statement in statements]

    def use(self) -> list[str]:
        """Another database for the session."""
        self.current = self.random.choice(self.databases)
        return [f"USE {quoted(self.current)}"]

    def mode(self) -> list[str]:
        """With and without strict mode."""
        return [
            self.random.choice(
                ["SET sql_mode=''", "SET sql_mode='STRICT_TRANS_TABLES'", "SET sql_mode='STRICT_TRANS_TABLES'"]
            )
        ]

    def create(self) -> list[str]:
        """CREATE TABLE."""
        random = self.random
        database = random.choice(self.databases)
        name = names.table_name(random, {table for owner, table in self.tables if owner == database})
        replace = self.dialect.mariadb and self.tables and random.random() < 0.08
        if replace:
            database, name = random.choice(list(self.tables))
        word = (
            "CREATE OR REPLACE TABLE"
            if replace
            else random.choice(["CREATE TABLE"] * 5 + ["CREATE TABLE IF NOT EXISTS"])
        )
        return [f"{word} {self._name(database, name)} ({self._body()}){random.choice(_OPTIONS)}"]

    def _body(self) -> str:
        """Columns and keys of a new table."""
        random = self.random
        columns: list[tuple[str, str, ServerColumn]] = []
        key = random.choices(["id", "two", "unique", "nullable", "text", "none"], [9, 2, 2, 1, 1, 2])[0]
        if key in ("id", "two"):
            kind = draw_type(random, "integer")
            kind = kind if kind.column.kind in ("int", "bigint") else draw_type(random, "integer")
            auto = " AUTO_INCREMENT" if key == "id" and random.random() < 0.2 else ""
            columns.append(("id", f"{kind.text} NOT NULL{auto}", kind.column))
        if key == "two":
            columns.append(("k", "INT NOT NULL", draw_type(random, "integer").column))
        if key == "text":
            columns.append(("id", "VARCHAR(20) NOT NULL", draw_type(random, "text").column))
        if key in ("unique", "nullable"):
            columns.append(("u", "INT NOT NULL" if key == "unique" else "INT", draw_type(random, "integer").column))
        for _ in range(random.randint(1, 6)):
            name = names.column_name(random, {name for name, _, _ in columns})
            kind = draw_type(random)
            # of a number that the server gives, MariaDB's binlog has the generated value without it
            others = [column for _, text, column in columns if " AS (" not in text and "AUTO_INCREMENT" not in text]
            columns.append((name, definition(random, self.dialect, kind, _named(columns, others)), kind.column))
        if random.random() < 0.15:
            random.shuffle(columns)
        parts = [f"{written(random, name)} {text}" for name, text, _ in columns]
        keys = {"two": "PRIMARY KEY (k, id)", "unique": "UNIQUE KEY (u)", "nullable": "UNIQUE (u)"}
        if key in ("id", "text"):
            keys[key] = "PRIMARY KEY (id)"
        parts += [keys[key]] if key in keys else []
        if random.random() < 0.15:
            more = key_parts(random, self.dialect, _named(columns, [column for _, _, column in columns]), [])
            parts += (
                [f"{random.choice(['KEY', 'UNIQUE KEY', 'INDEX'])} {quoted(names.key_name(random))} ({more})"]
                if more
                else []
            )
        if random.random() < 0.05:
            parts.append(f"CHECK ({quoted(columns[0][0])} IS NOT NULL OR 1 = 1)")
        return ", ".join(parts)

    def create_like(self) -> list[str]:
        """CREATE TABLE … LIKE."""
        source, database = self._table(), self.random.choice(self.databases)
        name = names.table_name(self.random, {table for owner, table in self.tables if owner == database})
        what = f"LIKE {self._name(*source.full_name)}"
        return [f"CREATE TABLE {self._name(database, name)} " + (f"({what})" if self.random.random() < 0.3 else what)]

    def alter(self, table: ServerTable | None = None, name: str = "") -> list[str]:
        """ALTER TABLE with one to four clauses."""
        random = self.random
        table = table or self._table()
        clauses = Clauses(random, self.dialect, table)
        drawn = [clauses.draw() for _ in range(random.choices([1, 2, 3, 4], [10, 5, 3, 1])[0])]
        if not name and random.random() < 0.04:
            drawn.append(f"RENAME {random.choice(['TO ', 'AS ', ''])}{self._new_name(table.database)}")
        ignore = " IGNORE" if self.dialect.mariadb and random.random() < 0.05 else ""
        online = " ONLINE" if self.dialect.mariadb and not ignore and random.random() < 0.03 else ""
        exists = " IF EXISTS" if self.dialect.mariadb and random.random() < 0.04 else ""
        return [f"ALTER{online}{ignore} TABLE{exists} {name or self._name(*table.full_name)} {', '.join(drawn)}"]

    def create_index(self) -> list[str]:
        """A new index, often a unique one."""
        table = self._table()
        parts = key_parts(self.random, self.dialect, list(table.columns), [])
        word = self.random.choice(["UNIQUE INDEX", "UNIQUE INDEX", "INDEX"])
        name = quoted(names.key_name(self.random))
        return [f"CREATE {word} {name} ON {self._name(*table.full_name)} ({parts})"] if parts else []

    def drop_index(self) -> list[str]:
        """An index less."""
        table = self._table()
        if not table.keys:
            return []
        return [f"DROP INDEX {quoted(self.random.choice(table.keys).name)} ON {self._name(*table.full_name)}"]

    def rename(self) -> list[str]:
        """RENAME TABLE of one table, or of several in a chain."""
        table = self._table()
        new = self._new_name(table.database)
        statement = f"RENAME TABLE {self._name(*table.full_name)} TO {new}"
        other = self._table()
        if other != table and self.random.random() < 0.35:  # the next takes the name that is free now
            statement += f", {self._name(*other.full_name)} TO {self._name(*table.full_name)}"
        return [statement if self.random.random() < 0.8 else statement.replace("RENAME TABLE", "RENAME TABLES", 1)]

    def swap(self) -> list[str]:
        """Two tables swap their names."""
        one, other = self._table(), self._table()
        if one == other:
            return []
        left, right = self._name(*one.full_name), self._name(*other.full_name)
        between = self._name(one.database, "zswap")
        return [f"RENAME TABLE {left} TO {between}, {right} TO {left}, {between} TO {right}"]

    def move(self) -> list[str]:
        """A table goes to another database, by the one or the other statement, its name with or without database."""
        table, database = self._table(), self.random.choice(self.databases)
        if database == table.database:
            return []
        taken = {name for owner, name in self.tables if owner == database}
        name = (
            table.name
            if table.name not in taken and self.random.random() < 0.6
            else names.table_name(self.random, taken)
        )
        target = f"{quoted(database)}.{quoted(name)}"
        if self.random.random() < 0.3:
            return [f"ALTER TABLE {self._name(*table.full_name)} RENAME TO {target}"]
        return [f"RENAME TABLE {self._name(*table.full_name)} TO {target}"]

    def drop(self) -> list[str]:
        """DROP TABLE of one or two."""
        chosen = {
            table.full_name for table in (self._table(), *([self._table()] if self.random.random() < 0.3 else []))
        }
        exists = "IF EXISTS " if self.random.random() < 0.3 else ""
        return [f"DROP TABLE {exists}{', '.join(self._name(*name) for name in sorted(chosen))}"]

    def truncate(self) -> list[str]:
        """All rows of a table go."""
        return [f"TRUNCATE {self.random.choice(['TABLE ', ''])}{self._name(*self._table().full_name)}"]

    def migrate(self) -> list[str]:
        """An online schema change, as gh-ost and pt-online-schema-change make it: a new table, its rows, a swap."""
        table = self._table()
        if any(column.generated for column in table.columns):
            return []
        ghost, old = (
            self.random.choice(["_{}_gho _{}_del", "_{}_new _{}_old"]).format(table.name, table.name).split(" ", 1)
            if " " not in table.name
            else ("_ghost", "_gone")
        )
        original = self._name(*table.full_name)
        new, gone = (f"{quoted(table.database)}.{quoted(name)}" for name in (ghost, old))
        name = names.column_name(self.random, {column.name for column in table.columns})
        columns = ", ".join(quoted(column.name) for column in table.columns)
        statements = [
            f"CREATE TABLE {new} LIKE {original}",
            f"ALTER TABLE {new} ADD COLUMN {quoted(name)} {definition(self.random, self.dialect, draw_type(self.random), [])}",
            f"INSERT {self.random.choice(['IGNORE ', ''])}INTO {new} ({columns}) SELECT {columns} FROM {original}",
        ]
        if self.random.random() < 0.6:
            statements.append(f"RENAME TABLE {original} TO {gone}, {new} TO {original}")
        else:
            statements += [f"ALTER TABLE {original} RENAME TO {gone}", f"ALTER TABLE {new} RENAME {original}"]
        return statements + ([f"DROP TABLE IF EXISTS {gone}"] if self.random.random() < 0.7 else [])

    def rename_database(self) -> list[str]:
        """All tables of a database go to another one, one after the other or at once."""
        source, target = self.random.sample(self.databases, 2)
        own = [name for owner, name in self.tables if owner == source]
        taken = {name for owner, name in self.tables if owner == target}
        pairs = [
            f"{quoted(source)}.{quoted(name)} TO {quoted(target)}.{quoted(name)}" for name in own if name not in taken
        ]
        if not pairs:
            return []
        return (
            [f"RENAME TABLE {', '.join(pairs)}"]
            if self.random.random() < 0.5
            else [f"RENAME TABLE {pair}" for pair in pairs]
        )

    def recreate_database(self) -> list[str]:
        """A database goes with its tables, and is there again without them; not the first one, which has the marker."""
        name = quoted(self.random.choice(self.databases[1:]))
        made = [f"DROP DATABASE {name}", f"CREATE DATABASE {name} CHARACTER SET utf8mb4"]
        return made + ([f"USE {name}"] if name == quoted(self.current) else [])

    def partition(self) -> list[str]:
        """Partitions by hash of the key."""
        table = self._table()
        numbers = [name for name in table.handle if table.column(name).kind in ("int", "bigint", "smallint")]
        what = f"PARTITION BY HASH ({quoted(numbers[0])}) PARTITIONS 3" if numbers else ""
        name = self._name(*table.full_name)
        return [f"ALTER TABLE {name} {what}", f"ALTER TABLE {name} REMOVE PARTITIONING"] if what else []

    def other(self) -> list[str]:
        """Statements that change no table's rows."""
        name = self._name(*self._table().full_name)
        database = quoted(self.random.choice(self.databases))
        return [
            self.random.choice(
                [
                    f"ANALYZE TABLE {name}", f"OPTIMIZE TABLE {name}",
                    f"CREATE OR REPLACE VIEW {database}.v1 AS SELECT * FROM {name}",
                    f"DROP VIEW IF EXISTS {database}.v1", f"ALTER DATABASE {database} CHARACTER SET latin1",
                    f"FLUSH TABLES {name}",
                    f"ALTER DATABASE {database} CHARACTER SET utf8mb4",
                    f"CREATE TRIGGER {database}.tr1 BEFORE INSERT ON {name} FOR EACH ROW SET @x = 1",
                ]
            )
        ]  # fmt: skip

    def _decorated(self, statement: str) -> str:
        """A statement with a comment in front of it, or inside another one (MariaDB)."""
        first = statement.partition(" ")[0]
        if first in ("USE", "SET"):
            return statement
        if (
            self.dialect.mariadb
            and self.random.random() < 0.03
            and first in ("ALTER", "RENAME", "CREATE", "TRUNCATE", "DROP")
        ):
            return f"SET STATEMENT lock_wait_timeout=50 FOR {statement}"
        if self.random.random() < 0.02 and first == "ALTER":
            return f"/*!40000 {statement} */"
        return self.random.choice(_COMMENTS if self.random.random() < 0.3 else [""]) + statement

    def _table(self) -> ServerTable:
        return self.random.choice(list(self.tables.values()))

    def _name(self, database: str, table: str) -> str:
        """A table as a statement names it: with or without its database."""
        if self.dialect.mixed_case:
            table = in_any_case(self.random, table)
        name = written(self.random, table)
        return (
            name
            if database == self.current and self.random.random() < 0.6
            else f"{written(self.random, database)}.{name}"
        )

    def _new_name(self, database: str) -> str:
        taken = {table for owner, table in self.tables if owner == database}
        return self._name(database, names.table_name(self.random, taken))


def _named(columns: list[tuple[str, str, ServerColumn]], chosen: list[ServerColumn]) -> list[ServerColumn]:
    """The columns of a new table, with their names."""
    return [
        ServerColumn(name, column.type, column.nullable, column.charset, column.generated, False, False)
        for name, text, column in columns
        if any(column is one for one in chosen) and " AS (" not in text
    ]
