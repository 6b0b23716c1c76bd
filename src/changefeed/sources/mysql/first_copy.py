"""The first copy: all rows of the tables, in chunks of their keys, while the server goes on changing them. Nothing stays locked.

    the log     ──┬─── L ─────────────── changes ─────────────── H ─── changes ──▶
                  │    │   chunk 1    chunk 2    …    chunk n     │
    the tables    │    └── rows as they are when they are read ───┘
    the pipeline  └ definitions at L, rows at L, the changes after L: complete at H, where the first cut may be

Rule 1. Every transaction before L can be seen (`table_locks.py`). H is the end of the log after the last chunk was read. A row
        of a chunk has the changes between L and some point before H; all changes from L to H are applied to it again. Each
        has the whole row, so that at H the row is the server's.
Rule 2. Chunks are ranges of the first column of the key, and together all its values. A row whose key moves between two ranges is
        in the log, which deletes the old key and writes the new one.
Rule 3. Columns must stay: a schema change of a captured table between L and H begins the copy again (`SchemaChangedError`). The
        rows of the earlier try are dropped with their tables. The definitions are those at L if they are the same before and
        after L is read: all rows before the first schema change are of these tables.
Rule 4. Any task may read a chunk again, and a run that was killed goes on at the chunk after the last that the ledger has.
Rule 5. The rows of a table without a key cannot be applied twice. Such a table is one chunk, which a task reads in one view at a
        position V between L and H; its rows replace what the log has of it up to V (`keyless.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from changefeed.errors import ConfigError
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.sources.mysql.connection import GoneError
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import CopyProgress, LogPosition
from changefeed.sources.mysql.table_locks import committed, end
from changefeed.sources.mysql.tables import (
    CopiedTable,
    Name,
    describe,
    engine_of,
    expression,
    expressions,
    listed,
    literal,
    quoted,
)


class SchemaChangedError(Exception):
    """A table of the first copy was changed while it was read: Rule 3. It stays inside of the source."""


@dataclass(frozen=True, slots=True)
class CopyChunk:
    """Rows of one table that one task reads.

    Attributes:
        number: its place among all chunks, from 1.
        start, stop: SQL literals: the first value of the range, and the first after it; None: no bound.
        where: a condition of its rows; None: all of the range.
    """

    table: CopiedTable
    number: int
    start: str | None = None
    stop: str | None = None
    where: str | None = None

    def query(self, columns: TableMap) -> str:
        """Returns the SELECT of its rows; `columns`: the table, with the columns that are read."""
        database, table = self.table.name
        where = [] if self.where is None else [f"({self.where}\n)"]
        if self.table.ordered is not None:
            column = quoted(self.table.ordered.name or "")
            where += [f"{column} >= {self.start}"] if self.start is not None else []
            where += [f"{column} < {self.stop}"] if self.stop is not None else []
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT {expressions(columns)} FROM {quoted(database)}.{quoted(table)}{condition}"


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions of the tables at the beginning of a copy.

    Attributes:
        tables: those that the copy reads.
        dropped: names of tables whose rows are dropped first, such as those of an earlier try.
        replaces: whether the tables are created before their rows; otherwise rows are merged into those that are there.
    """

    tables: tuple[CopiedTable, ...]
    dropped: tuple[Name, ...] = ()
    replaces: bool = True


def begin(
    server: Server,
    names: Callable[[], list[Name]],
    *,
    copies: bool,
    dropped: Collection[Name] = (),
    exact: bool = True,
) -> tuple[LogPosition, str | None, Definitions]:
    """Returns the position L, the GTIDs of all transactions before it, and the definitions that the tables have there.

    Args:
        server: the server.
        names: returns the names of the tables at this moment.
        copies: whether rows are copied; without rows, L is the end of the log.
        dropped: tables whose rows are dropped first.
        exact: whether changes after L will be applied; otherwise L may be any position, and nothing is locked.

    Raises:
        ConfigError: a table without a key has an engine without transactions.
        SchemaChangedError: the tables before L are not those after it.
    """
    before = _definitions(server, names())
    try:
        low, gtids = committed(server, [table.name for table in before]) if copies and exact else end(server)
    except GoneError as error:
        raise SchemaChangedError(str(error)) from error
    after = _definitions(server, names())
    if list(map(fingerprint, before)) != list(map(fingerprint, after)):
        raise SchemaChangedError("tables were created or changed")
    if copies:
        _check_engines(server, [table.name for table in after if table.is_keyless])
    return low, gtids, Definitions(after, tuple(sorted({*dropped})))


def _definitions(server: Server, names: list[Name]) -> tuple[CopiedTable, ...]:
    return tuple(_described(server, name) for name in names)


def _check_engines(server: Server, keyless: list[Name]) -> None:
    """Checks that tables without a key can be read in one consistent view: Rule 5.

    Raises:
        ConfigError: some are of another engine than InnoDB.
    """
    engines = {name: engine_of(server, *name) for name in keyless}
    others = [name for name, engine in engines.items() if engine.lower() not in ("", "innodb")]
    if not others:
        return
    example = "!" + ".".join(map(quoted, others[0]))
    raise ConfigError(
        f"tables without a primary key whose storage engine has no consistent view, so that no copy can be made of them: "
        f"{listed(others)}. Give each a primary key or the engine InnoDB, leave it out ({example} in source.tables), or set "
        "snapshot.mode to `no_data`"
    )


def next_chunks(
    server: Server, progress: CopyProgress, chunk_rows: int, most_rows: int
) -> tuple[list[CopyChunk], CopyProgress]:
    """Returns the chunks that come next, of about `most_rows` rows, and the progress after them.

    Raises:
        SchemaChangedError: a table is gone.
    """
    chunks = list[CopyChunk]()
    while progress.table < len(progress.tables) and len(chunks) * chunk_rows < most_rows:
        table = _described(server, progress.tables[progress.table])
        if progress.fingerprints[progress.table] != fingerprint(table):
            raise SchemaChangedError(f"{'.'.join(table.name)} has other columns than before")
        stop = _bound(server, table, progress.start, chunk_rows)
        chunks.append(CopyChunk(table, progress.chunks + 1, progress.start, stop, progress.where))
        following = progress.table if stop is not None else progress.table + 1
        progress = replace(progress, table=following, start=stop, chunks=progress.chunks + 1)
    return chunks, progress


def begun(defined: Definitions, *, copies: bool) -> CopyProgress:
    """Returns the progress of a copy after its definitions; without `copies`, there is nothing more to read."""
    names = tuple(table.name for table in defined.tables)
    return CopyProgress(names, tuple(map(fingerprint, defined.tables)), 0 if copies else len(names))


def fingerprint(table: CopiedTable) -> str:
    """Returns 12 hex digits: a hash of the name, columns and keys of a table."""
    return hashlib.sha256(repr(table.table).encode()).hexdigest()[:12]


def _described(server: Server, name: Name) -> CopiedTable:
    table = describe(server, *name)
    if table is None:
        raise SchemaChangedError(f"{name[0]}.{name[1]} does not exist any more")
    return table


def _bound(server: Server, table: CopiedTable, start: str | None, chunk_rows: int) -> str | None:
    """The literal of the first key after a chunk; None if the chunk is the last of its table."""
    column = table.ordered
    if column is None:
        return None
    name, (database, of) = quoted(column.name or ""), table.name
    value = expression(column)
    after, offset = (f" WHERE {name} > {start}", chunk_rows - 1) if start is not None else ("", chunk_rows)
    query = f"SELECT {value} FROM {quoted(database)}.{quoted(of)}{after} ORDER BY {name} LIMIT 1 OFFSET {offset}"
    try:
        keys = [key for (key,) in server.rows(query) if key is not None]
    except GoneError as error:
        raise SchemaChangedError(str(error)) from error
    return literal(column, keys[0]) if keys else None
