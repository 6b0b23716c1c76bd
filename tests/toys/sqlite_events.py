"""An event sink in one SQLite file: a table of records, which any program with SQLite can read in the order of `rowid`.

An append is one transaction. It writes the records and the write id together, and makes neither if another run was faster.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from changefeed.errors import SinkError
from changefeed.model.batch import Decoded
from changefeed.protocols.base import Encoder
from changefeed.section import Section
from changefeed.sinks.events import AppendEncoder, Ends, Mark, is_made, made_by, mark_of, numbered, overtaken
from changefeed.sinks.writes import WriteId

_COLUMNS = ("topic", "partition", "offset", "key", "value", "headers")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS records (topic TEXT, part INTEGER, pos INTEGER, key BLOB, value BLOB, headers BLOB)",
    "CREATE TABLE IF NOT EXISTS ends (topic TEXT, part INTEGER, next INTEGER, PRIMARY KEY (topic, part))",
    "CREATE TABLE IF NOT EXISTS marks (owner TEXT PRIMARY KEY, mark BLOB)",
)


@dataclass(slots=True)
class SqliteEvents:
    """The records in a file, written by one pipeline; see `EventSink`."""

    file: Path
    encoder: Callable[[], Encoder]
    owner: str = ""
    atomic: bool = True
    _writing: AppendEncoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._writing = AppendEncoder(self.encoder)

    @property
    def location(self) -> str:
        """See `EventSink`."""
        return str(self.file)

    def owned_by(self, owner: str) -> SqliteEvents:
        """See `EventSink`."""
        return replace(self, owner=owner)

    def check(self) -> None:
        """See `EventSink`: opens the file."""
        with self._transaction():
            pass

    def last(self) -> WriteId | None:
        """See `EventSink`."""
        with self._transaction() as database:
            mark = self._mark(database)
        return None if mark is None else mark.write_id

    def made(self) -> WriteId | None:
        """See `EventSink`."""
        with self._transaction() as database:
            return made_by(self._mark(database))

    def append(self, changes: Decoded, write_id: WriteId, note: str) -> None:
        """See `EventSink`."""
        with self._transaction() as database:
            last = self._mark(database)
        if is_made(self.location, last, write_id):
            return
        try:
            records, number = self._writing.records(changes, last)
            self._commit(records, last, mark_of(write_id, number, note, last))
        except BaseException:
            self._writing.forget()  # rule 8
            raise

    def close(self) -> None:
        """See `EventSink`: no connection stays open."""
        self._writing.forget()

    def _commit(self, records: pa.RecordBatch, last: Mark | None, mark: Mark) -> None:
        """Writes an append, if the owner's last mark is still `last`."""
        with self._transaction() as database:
            now = self._mark(database)
            if now != last:
                raise overtaken(self.location, now, mark.write_id)
            ends: Ends = {}
            for topic, partition, end in database.execute("SELECT topic, part, next FROM ends"):
                ends.setdefault(topic, {})[partition] = end
            records, ends = numbered(records, ends)
            rows = records.select(_COLUMNS).to_pylist()
            for row in rows:
                row["headers"] = msgspec.msgpack.encode(row["headers"])
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", [tuple(row.values()) for row in rows])
            after = [(topic, partition, end) for topic, ends_ in ends.items() for partition, end in ends_.items()]
            database.executemany("INSERT OR REPLACE INTO ends VALUES (?, ?, ?)", after)
            database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (self.owner, msgspec.msgpack.encode(mark)))

    def _mark(self, database: sqlite3.Connection) -> Mark | None:
        row = database.execute("SELECT mark FROM marks WHERE owner = ?", (self.owner,)).fetchone()
        return None if row is None else msgspec.msgpack.decode(row[0], type=Mark)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=60, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                for table in _TABLES:
                    database.execute(table)
                yield database
                database.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise SinkError(f"{self.file}: {error}", transient=isinstance(error, sqlite3.OperationalError)) from error


def read(file: Path) -> list[dict[str, Any]]:
    """All records, in the order of the appends."""
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT * FROM records ORDER BY rowid").fetchall()
    return [dict(zip(_COLUMNS, row, strict=True)) | {"headers": msgspec.msgpack.decode(row[-1])} for row in rows]


class EventsSection(Section):
    """Records in a file of SQLite."""

    type: str
    path: str


SECTION = EventsSection


def open_events(section: EventsSection, encoder: Callable[[], Encoder]) -> SqliteEvents:
    """The sink that a section describes."""
    return SqliteEvents(Path(section.path), encoder)
