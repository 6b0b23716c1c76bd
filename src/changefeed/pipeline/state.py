"""What has been applied, as the ledger keeps it: one value, replaced as a whole by every step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from changefeed.model.definition import Table

Positions = dict[str, dict[int, int]]
# topic -> partition -> offsets at which the producer begins to send again
Sendings = dict[str, dict[int, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Written:
    """What the pipeline's last write left at a path: the Delta version, and the write id in its commit."""

    version: int
    epoch: int
    step: int
    action: int


@dataclass(frozen=True, slots=True)
class TableState:
    """A table downstream.

    Attributes:
        table: its columns and keys upstream, as of the barrier.
        path: where it lies, below the sink's path.
        declared: a DDL statement told the columns; else they were learned from rows and may widen.
        written: the last write; None while there is no table. Its version is the one that the barrier's cut pins.
    """

    table: Table
    path: str
    declared: bool
    written: Written | None = None

    @property
    def version(self) -> int | None:
        """The Delta version that the barrier's cut pins; None while there is no table."""
        return self.written.version if self.written else None


@dataclass(frozen=True, slots=True)
class FolderSum:
    """What a folder of the pending store holds: its files, their bytes, and an MD5 over names, lengths and contents."""

    files: int
    bytes: int
    md5: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A table of which nothing above `after` is applied yet: it is in quarantine, or came late.

    Attributes:
        after: the barrier when it was held; None when all of it waits.
        released: the next step applies what has waited: its dead letters have been replayed, or its topic has caught up.
        late: it is not in quarantine; it came by a topic that joined late, see `late.py`.
    """

    after: int | None
    released: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """The last schema change that took effect, of a table or a database: its commit_ts, and the statements of that."""

    commit_ts: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Where everything that was read has gone: rows = applied + repeated + pending.

    Attributes:
        records: records read.
        rows: row changes in them that could be decoded.
        applied: row changes that are in the tables.
        repeated: row changes sent again that had been applied before.
        schema_changes: DDL statements taken, each once.
        dead: dead letters, records or single messages of a record, that have not been replayed.
    """

    records: int = 0
    rows: int = 0
    applied: int = 0
    repeated: int = 0
    schema_changes: int = 0
    dead: int = 0

    @property
    def pending(self) -> int:
        """Row changes that wait above the barrier, or for their table to be released."""
        return self.rows - self.applied - self.repeated


@dataclass(frozen=True, slots=True)
class State:
    """Everything a step needs to know of the steps before it.

    Attributes:
        barrier: commit_ts up to which all tables have been applied; None before the first cut.
        mark: the upstream's name for the barrier: of its last transaction, or of a mark that has a name.
        reached: who counts transactions -> the number of the last one below the barrier, where no marks are sent.
        ended: offset of the last end of a transaction below the barrier.
        snapshots: places of the last snapshots below the barrier, where transactions are counted.
        time: the latest commit time below the barrier, in milliseconds since 1970, where transactions are counted.
        resolved: topic -> partition -> the highest mark seen there.
        marks: topic -> partition -> the last mark of what the producer sends there now; after a restart it goes back.
        resent: where the producer has begun to send again, of partitions with pending rows; see `resent.py`.
        latest: topic -> partition -> the highest commit_ts seen there, of rows, schema changes and marks.
        positions: topic -> partition -> offset of the next record to read.
        source: where the source goes on, in its own words; None before the first batch.
        tables: `database.table` -> what lies downstream.
        left: path -> the last write to it, of tables that were dropped or renamed: a table may come there again.
        waiting: folder of the pending store with the records whose remainder was not read yet, if there are any.
        pending: folders of the pending store that still hold changes above the barrier, oldest first.
        sums: folder -> what it holds, of those in `pending`.
        partly: of these, where there is no barrier: folder -> table -> commit_ts up to which its rows are applied. Of a table
            that is not named all are, of a folder that is not named none.
        changed: where there is no barrier: `database.table`, or `database.` -> the last schema change that took effect.
        held: tables in quarantine, and those that came late.
        replayed: positions of dead letters whose changes are in this state, while the letters do not say so yet.
    """

    barrier: int | None = None
    mark: str | None = None
    reached: dict[str, int] = field(default_factory=dict)
    ended: int = -1
    snapshots: tuple[int, ...] = ()
    time: int | None = None
    resolved: Positions = field(default_factory=dict)
    marks: Positions = field(default_factory=dict)
    resent: Sendings = field(default_factory=dict)
    latest: Positions = field(default_factory=dict)
    positions: Positions = field(default_factory=dict)
    source: str | None = None
    tables: dict[str, TableState] = field(default_factory=dict)
    left: dict[str, Written] = field(default_factory=dict)
    waiting: str | None = None
    pending: tuple[str, ...] = ()
    sums: dict[str, FolderSum] = field(default_factory=dict)
    partly: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: dict[str, Changed] = field(default_factory=dict)
    held: dict[str, Hold] = field(default_factory=dict)
    replayed: tuple[str, ...] = ()
    counts: Counts = field(default_factory=Counts)

    def versions(self) -> dict[str, int]:
        """The cut: every table and the version that a reader pins. A table that is held belongs to no cut."""
        return {n: t.written.version for n, t in self.tables.items() if t.written and n not in self.held}

    def partitions(self) -> set[tuple[str, int]]:
        """Every (topic, partition) of which something was read."""
        return {(topic, p) for topic, offsets in self.positions.items() for p in offsets}

    def quarantined(self) -> list[str]:
        """The tables in quarantine, by name, that are not released."""
        return sorted(name for name, hold in self.held.items() if not (hold.late or hold.released))

    def trimmed(self) -> State:
        """The state without the sums of folders that are not pending any more."""
        return replace(self, sums={folder: self.sums[folder] for folder in self.pending})

    def known(self) -> dict[str, Written]:
        """Path -> the last write to it, of every path that the pipeline has written."""
        return self.left | {t.path: t.written for t in self.tables.values() if t.written}


def counted(state: State, *, applied: int) -> State:
    """The state with so many row changes more in the tables."""
    return replace(state, counts=replace(state.counts, applied=state.counts.applied + applied))


def write_state(state: State) -> str:
    """The state as JSON text."""
    return msgspec.json.encode(state).decode()


def read_state(text: str) -> State:
    """The state that `write_state` wrote."""
    return msgspec.json.decode(text, type=State)
