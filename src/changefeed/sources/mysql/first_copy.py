"""The first copy: all rows of the tables, in chunks of their keys, while the server goes on changing them. Nothing stays locked.

    the log     ──┬─── L ─────────────── changes ─────────────── H ─── changes ──▶
                  │    │   chunk 1    chunk 2    …    chunk n     │
    the tables    │    └── rows as they are when they are read ───┘
    the pipeline  └ definitions at L, rows at L, the changes after L: complete at H, where the first cut may be

Rule 1. Every transaction before L can be seen (`table_locks.py`). H is the end of the log after the last chunk was read. A row
        of a chunk has the changes between L and some point before H; all changes from L to H are applied to it again. Each
        has the whole row, so that at H the row is the server's.
Rule 2. Chunks are ranges of the key (`key_ranges.py`), and together all of it. A row whose key moves between two ranges is in the
        log, which deletes the old key and writes the new one.
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
from changefeed.sources.mysql.key_ranges import Bound, KeyRange, bound_after
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import CopyProgress, LogPosition
from changefeed.sources.mysql.table_locks import committed, end
from changefeed.sources.mysql.tables import (
    CopiedTable,
    Name,
    describe,
    engine_of,
    expressions,
    listed,
    quoted,
)


class SchemaChangedError(Exception):
    """A table of the first copy was changed while it was read: Rule 3. It stays inside of the source."""


@dataclass(frozen=True, slots=True)
class CopyChunk:
    """Rows of one table that one task reads.

    Attributes:
        number: its place among all chunks, from 1.
        start, stop: the first key of the range, and the first after it; None: no bound.
        where: a condition of its rows; None: all of the range.
    """

    table: CopiedTable
    number: int
    start: Bound | None = None
    stop: Bound | None = None
    where: str | None = None

    def query(self, columns: TableMap) -> str:
        """Returns the SELECT of its rows; `columns`: the table, with the columns that are read."""
        database, table = self.table.name
        where = [] if self.where is None else [f"({self.where}\n)"]
        in_range = KeyRange(self.table.ordered, self.start, self.stop).condition()
        where += [] if in_range is None else [in_range]
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
        SchemaChangedError: a table is gone, or other than before.
    """
    chunks = list[CopyChunk]()
    while progress.table < len(progress.tables) and len(chunks) * chunk_rows < most_rows:
        table = _described(server, progress.tables[progress.table])
        if progress.fingerprints[progress.table] != fingerprint(table):
            raise SchemaChangedError(f"{'.'.join(table.name)} has other columns than before")
        if len(progress.start or ()) > len(table.ordered):
            raise SchemaChangedError(f"{'.'.join(table.name)} is divided by fewer columns than before")
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
    """Returns 12 hex digits: a hash of the name, columns and keys of a table, and of the order of a key that is not ascending."""
    descending = [each.is_descending for each in table.ordered]
    described = repr(table.table) + (repr(descending) if any(descending) else "")
    return hashlib.sha256(described.encode()).hexdigest()[:12]


def _described(server: Server, name: Name) -> CopiedTable:
    table = describe(server, *name)
    if table is None:
        raise SchemaChangedError(f"{name[0]}.{name[1]} does not exist any more")
    return table


def _bound(server: Server, table: CopiedTable, start: Bound | None, chunk_rows: int) -> Bound | None:
    """The first key after a chunk; None if the chunk is the last of its table."""
    if not table.ordered:
        return None
    try:
        return bound_after(server, table, start, chunk_rows)
    except GoneError as error:
        raise SchemaChangedError(str(error)) from error
