"""The state that the ledger stores: everything applied so far, one value, replaced as a whole by every step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.sinks.writes import WriteId

Positions = dict[str, dict[int, int]]
NOTHING = -1  # below every commit_ts
# topic -> partition -> `database.table` -> offset and commit_ts: see `stages.missing_ts`
DatedRecords = dict[str, dict[int, dict[str, tuple[int, int]]]]
# topic -> partition -> offsets at which the producer began to send again
Sendings = dict[str, dict[int, tuple[int, ...]]]
Stretch = tuple[int, int, int, int]
# topic -> partition -> stretches of rows that were sent again: see `stages.repeats`
Stretches = dict[str, dict[int, tuple[Stretch, ...]]]


class LastWrite(msgspec.Struct, frozen=True, rename={"revision": "version", "number": "action"}):
    """The last write at a path: the table's revision after it, and the parts of the write id in its commit.

    Entries of the ledger keep the keys that they have had since the first release: `version` and `action`.
    """

    revision: int
    epoch: int
    step: int
    number: int

    @classmethod
    def of(cls, revision: int, write_id: WriteId) -> LastWrite:
        """Builds the value from a whole write id."""
        return cls(revision, write_id.epoch, write_id.step, write_id.number)

    @property
    def write_id(self) -> WriteId:
        """The whole write id."""
        return WriteId(self.epoch, self.step, self.number)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in the sink.

    Attributes:
        table: its columns and keys upstream, as of the barrier.
        path: path below the sink's path.
        declared: whether DDL or the producer defines the table: which columns and which key it has. Otherwise both are
            inferred from rows.
        written: the last write; None if there is no table yet. Its revision belongs to the barrier's cut.
        adopted: whether the table has rows from before the pipeline, which the source does not have.
        empty: whether it has no rows: none have been written since it was created or emptied.
        sent: columns that rows do not have in the column's own type -> the type that DDL declares for their values; None if
            none does: then the type of each row counts, and the column's type widens.
        gaps: columns that are NULL in existing rows although the upstream may have values there.
        keyless: whether DDL has removed the key of a table that is inferred from rows.
        unplaced: whether it has had rows without commit_ts; schema changes have no order relative to them.
    """

    table: Table
    path: str
    declared: bool
    written: LastWrite | None = None
    adopted: bool = False
    empty: bool = False
    sent: dict[str, ColumnType | None] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    keyless: bool = False
    unplaced: bool = False

    @property
    def version(self) -> int | None:
        """The revision in the barrier's cut, which readers know as the table's version; None if there is no table yet."""
        return self.written.revision if self.written else None

    @property
    def undeclared(self) -> frozenset[str]:
        """The names of the columns whose types are inferred from rows."""
        return frozenset(name for name, declared in self.sent.items() if declared is None)


@dataclass(frozen=True, slots=True)
class Uncaptured:
    """A table that is known by its DDL alone, and has no place in the sink: see `planning/captured.py`.

    Attributes:
        table: its definition, as of the barrier; None if its CREATE TABLE could not be read.
        refused: the error of a statement about it that could not be applied; empty if there was none.
    """

    table: TableState | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A table outside the sink that may take the place of one in it, or has had the name of one: see `planning/shadows.py`.

    Attributes:
        table: its definition by its own DDL.
        sources: column -> the column that it was when the table was created; new columns are missing.
        former: `database.table` that it was before it was renamed; None if it was created under its name.
        rows: the table in the sink under the former name, as the rename left it; None if there is none.
    """

    table: Table
    sources: dict[str, str]
    former: str | None = None
    rows: TableState | None = None


@dataclass(frozen=True, slots=True)
class FolderSum:
    """Checksum of a folder in the pending store: its files, their bytes, and an MD5 over names, lengths and contents."""

    files: int
    bytes: int
    md5: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A held table: no change above `after` is applied yet. It is quarantined, or late.

    Attributes:
        after: the barrier when the table was held; None if no change has been applied.
        released: the next step applies the held changes: the dead letters have been replayed, or the topic has caught up.
        late: not quarantined; its topic joined late, see `late.py`.
    """

    after: int | None
    released: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class LastSchemaChange:
    """The last schema change of a table or a database that took effect: its commit_ts, and all statements with that commit_ts."""

    commit_ts: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LastStatement:
    """The last statement of a table in a topic, and how the table ended by it: see `frontier/gone.py`.

    Attributes:
        commit_ts: of the statement.
        end: for people: `dropped`, `renamed to d.b`; empty if the table goes on.
    """

    commit_ts: int
    end: str = ""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A transaction that lacks events, or its end, although everything that the source has was read; all changes from it on wait.

    Attributes:
        name: the upstream's name of the transaction; empty for rows that name none.
        read: number of its events that were read.
        events: number of its events; None if its end is what was not read.
        tables: its tables, as text for people, None if the producer does not send them; of rows without a name, their position.
        is_open: it is the newest one, so that its end may still come.
    """

    name: str
    read: int
    events: int | None
    tables: str | None = None
    is_open: bool = False

    def __str__(self) -> str:
        if not self.name:
            return f"the newest rows ({self.read:,} at {self.tables}) name no transaction, so more of them may follow"
        if self.is_open:
            return f"transaction {self.name}: its end has not come, behind {self.read:,} {'events' if self.read > 1 else 'event'}"
        if self.events is None:
            return (
                f"transaction {self.name}: its end was not read, but that of a later one, to the end of all partitions"
            )
        of_tables = f" of {self.tables}" if self.tables else ""
        return f"transaction {self.name}: {self.read:,} of {self.events:,} events{of_tables} read to the end of all partitions"

    @property
    def waits(self) -> str:
        """A sentence about what waits for it, and the way out."""
        if not self.name:
            return f"{self}: they wait until later ones are read. The way out: {self.remedy}"
        if self.is_open:
            return f"{self}: it waits, and all later changes with it. The way out: {self.remedy}"
        return (
            f"{self}: it waits for the others, and all later changes with it. If a transform, a filter or compaction has removed "
            "them, set pipeline.incomplete-transactions to `apply`"
        )

    @property
    def remedy(self) -> str:
        """The way out, for people."""
        if not self.name:
            return "set provide.transaction.metadata in the connector, or pipeline.consistency to `key`"
        if self.is_open:
            return "look at the connector, which sends the end when it goes on"
        return "wait for the others, or set pipeline.incomplete-transactions to `apply`"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of everything read: rows = applied + repeated + pending.

    Attributes:
        records: records read.
        rows: row changes in them that could be decoded.
        applied: row changes applied to the tables.
        repeated: row changes that were sent again after they had been applied.
        schema_changes: DDL statements, each counted once.
        dead: dead letters (records, or messages in a record) that have not been replayed.
    """

    records: int = 0
    rows: int = 0
    applied: int = 0
    repeated: int = 0
    schema_changes: int = 0
    dead: int = 0

    @property
    def pending(self) -> int:
        """Row changes above the barrier, or of held tables."""
        return self.rows - self.applied - self.repeated


@dataclass(frozen=True, slots=True)
class State:
    """The state after a step: everything the next step needs.

    Attributes:
        barrier: commit_ts up to which all tables have been applied; None before the first cut.
        mark: the upstream's name of the barrier: of its last transaction, or of a resolved event with a name.
        reached: server UUID or GTID domain -> last transaction number at or below the barrier; without a barrier, of all that was
            read. Only without resolved events.
        ends: topic -> partition -> offset of the last end of a transaction below the barrier.
        snapshots: positions of the last snapshots below the barrier. Only without resolved events.
        changes: hashes of the schema changes at the position of the barrier. Only without resolved events.
        time: latest commit time below the barrier, or of all that was read, in milliseconds since 1970. Only without resolved
            events.
        resolved: topic -> partition -> highest resolved commit_ts.
        marks: topic -> partition -> last resolved commit_ts that the producer sent; it goes back when the producer restarts.
        resent: offsets at which the producer began to send again, of partitions with pending rows; see `resent.py`.
        repeats: positions of rows that were sent again, in partitions with pending rows; see `places.py`.
        passed, recent, doubted: `consistency: key` only: what later rows of tables without a key are compared with, see
            `places.py`. The commit_ts that every partition has passed; commit_ts and hash of the rows above it; the highest
            place of an earlier binlog.
        heads: topic -> partition -> `database.table`, or `` for schema changes -> highest commit_ts; see `heads.py`.
        statements: topic -> `database.table` -> the last statement of the table there; see `gone.py`. Only with resolved events.
        checked: commit_ts above which changes are compared with `heads`; None before the first batch with them.
        latest: topic -> partition -> highest commit_ts of rows, schema changes and resolved events; `NOTHING` if it has had
            nothing of these, but a dead letter, or only tombstones.
        dated: the last records with a commit_ts, for protocols with rows that have none; and how partitions have ended, for the
            place of a tombstone, see `stages.lone_tombstones`.
        positions: topic -> partition -> offset of the next record to read.
        source: source offset at which the source continues; None before the first batch.
        tables: `database.table` -> its table in the sink.
        uncaptured: `database.table` -> a table that is known by its DDL alone, and is in no cut.
        left: path -> last write to it, for tables that were dropped or renamed: the path may be used again.
        shadows: `database.table` -> a table that may take the place of one in `tables`, or had its name.
        lower_case_table_names: the server's setting; None if no name has shown it.
        waiting: folder of the pending store with the incomplete fragments, if there are any.
        pending: folders of the pending store that still contain changes above the barrier, oldest first.
        sums: folder -> checksum, for the folders in `pending`.
        partly: `consistency: key` only. Folder in `pending` -> table -> last applied commit_ts. A missing table is fully
        applied; for a
            missing folder nothing is applied.
        changed: `consistency: key` only. `database.table`, or `database.` -> last schema change that took effect.
        incomplete: the transaction that all later changes wait for, and whose events the source does not have.
        held: tables that are quarantined or late.
        replayed: positions of dead letters whose changes are in this state, but which are not marked as replayed yet.
    """

    barrier: int | None = None
    mark: str | None = None
    reached: dict[str, int] = field(default_factory=dict)
    ends: Positions = field(default_factory=dict)
    snapshots: tuple[int, ...] = ()
    changes: tuple[str, ...] = ()
    time: int | None = None
    resolved: Positions = field(default_factory=dict)
    marks: Positions = field(default_factory=dict)
    resent: Sendings = field(default_factory=dict)
    repeats: Stretches = field(default_factory=dict)
    passed: int | None = None
    recent: tuple[tuple[int, int], ...] = ()
    doubted: int | None = None
    heads: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)
    statements: dict[str, dict[str, LastStatement]] = field(default_factory=dict)
    checked: int | None = None
    latest: Positions = field(default_factory=dict)
    dated: DatedRecords = field(default_factory=dict)
    positions: Positions = field(default_factory=dict)
    source: str | None = None
    tables: dict[str, TableState] = field(default_factory=dict)
    uncaptured: dict[str, Uncaptured] = field(default_factory=dict)
    left: dict[str, LastWrite] = field(default_factory=dict)
    shadows: dict[str, Shadow] = field(default_factory=dict)
    lower_case_table_names: int | None = None
    waiting: str | None = None
    pending: tuple[str, ...] = ()
    sums: dict[str, FolderSum] = field(default_factory=dict)
    partly: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: dict[str, LastSchemaChange] = field(default_factory=dict)
    incomplete: Incomplete | None = None
    held: dict[str, Hold] = field(default_factory=dict)
    replayed: tuple[str, ...] = ()
    counts: Counts = field(default_factory=Counts)

    def versions(self) -> dict[str, int]:
        """The cut, for readers: version of every table, which is its revision. A held table is in no cut."""
        return {n: t.written.revision for n, t in self.tables.items() if t.written and n not in self.held}

    def partitions(self) -> set[tuple[str, int]]:
        """Every (topic, partition) from which something was read."""
        return {(topic, p) for topic, offsets in self.positions.items() for p in offsets}

    def newest(self) -> int | None:
        """The highest commit_ts that was read; None if none was."""
        return max((ts for of in self.latest.values() for ts in of.values()), default=None)

    def quarantined(self) -> list[str]:
        """Names of the quarantined tables that are not released."""
        return sorted(name for name, hold in self.held.items() if not (hold.late or hold.released))

    def trimmed(self) -> State:
        """The state without the sums of folders that are no longer pending."""
        return replace(self, sums={folder: self.sums[folder] for folder in self.pending})

    def last_writes(self) -> dict[str, LastWrite]:
        """Path -> last write, for every path that the pipeline has written."""
        return self.left | {t.path: t.written for t in self.tables.values() if t.written}


def counted(state: State, *, applied: int) -> State:
    """A copy of the state with `applied` added to the count of applied rows."""
    return replace(state, counts=replace(state.counts, applied=state.counts.applied + applied))


def merged(old: Stretches, new: Stretches) -> Stretches:
    """The stretches of both, in order; those that overlap are one."""
    both = {topic: dict(partitions) for topic, partitions in old.items()}
    for topic, partitions in new.items():
        for partition, stretches in partitions.items():
            of_topic = both.setdefault(topic, {})
            of_topic[partition] = tuple(_united(sorted({*of_topic.get(partition, ()), *stretches})))
    return both


def _united(stretches: Iterable[Stretch]) -> list[Stretch]:
    united = list[Stretch]()
    for first, first_index, last, last_index in stretches:
        if united and (first, first_index) <= united[-1][2:]:
            begin, end = united[-1][:2], max(united[-1][2:], (last, last_index))
            united[-1] = (*begin, *end)
        else:
            united.append((first, first_index, last, last_index))
    return united


def write_state(state: State) -> str:
    """The state as JSON."""
    return msgspec.json.encode(state).decode()


def read_state(text: str) -> State:
    """Reads what `write_state` wrote."""
    return msgspec.json.decode(text, type=State)
