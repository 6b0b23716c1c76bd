"""Replay: decodes dead letters again with the current options of the protocol, and applies their changes.

Theory of operation:

Rule 1. A dead letter is one message of a record, or a whole record. It is replayed if all of it can be decoded; other
messages of the record were applied when the record was read, and are left out.
Rule 2. A quarantined table has waited since it was held, so all changes after that point are applied, in order. It is
released when it has no dead letter left.
Rule 3. Other tables continued without the dead letters. Changes at or below the barrier come too late for them: they could
overwrite newer rows. They are not applied, count as repeated, and are reported. The others wait for the barrier.
Rule 4. A single entry of the ledger stores the changes, the counts, the releases and the positions of the dead letters. If
the replay is killed before it, nothing has happened; if after it, the next replay first marks those dead letters.
Rule 5. A dead letter of a record that has not been passed (policy `stop`) is not replayed: the next run reads the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ConfigError
from changefeed.frames.chunks import CHUNKS
from changefeed.model.batch import Decoded, TableBatch, record_batch
from changefeed.model.event import Control, DeadLetter, SchemaChange
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.pipeline.absorb import absorbed
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import files_of, letters, position
from changefeed.pipeline.edge import as_ours
from changefeed.pipeline.flow import Flow
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.letter_files import StoredLetter
from changefeed.pipeline.run import open_flow
from changefeed.pipeline.state import State
from changefeed.sources import protocol_of, source
from changefeed.stages.decode import RecordReader
from changefeed.telemetry import passed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 1000  # records decoded at a time


@dataclass(slots=True)
class Outcome:
    """The content of dead letters, decoded with the current options.

    Attributes:
        letters: positions of the dead letters that can be decoded now.
        dead: the dead letters that still cannot be decoded, with the current error.
        unread: number of dead letters in records that the next run reads again.
        rows: number of row changes to apply.
        late: table -> number of row changes at or below the barrier, which are not applied.
        late_schema_changes: number of schema changes at or below the barrier, which are not applied.
        released: tables that leave quarantine.
        unfinished: an earlier replay was killed and must be finished.
        chunks: the changes to apply.
    """

    letters: list[str] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    unread: int = 0
    rows: int = 0
    late: dict[str, int] = field(default_factory=dict)
    late_schema_changes: int = 0
    released: frozenset[str] = frozenset()
    unfinished: bool = False
    chunks: list[pa.RecordBatch] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed dlq replay --json`."""
        return {
            "replayed": self.letters,
            "rows": self.rows,
            "late": self.late,
            "late_schema_changes": self.late_schema_changes,
            "released": sorted(self.released),
            "unread": self.unread,
            "dead": [{"position": str(one.place), "reason": one.reason, "error": one.error} for one in self.dead],
        }


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay, and the state after it."""

    outcome: Outcome
    state: State


def look(definition: Definition, positions: Sequence[str] = (), state: State | None = None) -> Outcome:
    """Decodes the dead letters that have not been replayed, and changes nothing. Needs no Spark.

    Args:
        definition: the pipeline.
        positions: the dead letters to decode, as `topic:partition:offset` with or without `:index`; by default all.
        state: the pipeline's state; by default it is read from the ledger.

    Raises:
        ConfigError: there is no dead letter to replay at one of the positions.
        SinkError: the ledger or the dead letters cannot be read.
    """
    if state is None:
        published = read_ledger(definition).latest()
        state = published.state if published else State()
    done = set(state.replayed)
    waiting = [letter for letter in letters(definition) if position(letter) not in done]
    chosen = _chosen(waiting, positions)
    passed = [letter for letter in chosen if _passed(letter, state)]
    outcome = Outcome(unread=len(chosen) - len(passed), unfinished=bool(state.replayed))
    choice, late = protocol_of(definition.source), _Late(state, definition.pipeline.consistency, outcome)
    if choice is not None:
        read = RecordReader(choice.name, choice.options)
        for records, messages in _records(passed):
            decoded = read(records)
            good = _decodable(messages, decoded.dead, outcome)
            changes = late.split(_only(decoded, good))
            outcome.rows += sum(len(table) for table in changes.tables)
            outcome.chunks.append(read.pack(changes, records, records.slice(0, 0)))
    elif chosen:
        raise ConfigError(
            f"source {definition.source.type} has no protocol by which its dead letters could be decoded again: correct the "
            "source, and rebuild their tables: changefeed repair --rebuild"
        )
    outcome.released = _released(definition, waiting, state, set(outcome.letters))
    return outcome


def replay(definition: Definition, spark: SparkSession, positions: Sequence[str] = ()) -> Replayed:
    """Applies the changes of the dead letters that can be decoded now.

    Takes the next epoch, as a run does, so a run in progress stops. An ordinary step follows, up to the barrier that the
    resolved events allow.

    Args:
        definition: the pipeline.
        spark: a session with Delta.
        positions: as for `look`.

    Raises:
        ConfigError: there is no dead letter to replay at one of the positions.
        FencedError: another run of the pipeline has taken over.
    """
    flow = open_flow(definition, spark)
    with as_ours():
        flow.begin()
        flow.recover()
        if flow.ledger.state.replayed:
            flow.letters.mark(flow.ledger.state.replayed)
        outcome = look(definition, positions, flow.ledger.state)
        if outcome.letters or outcome.released or outcome.unfinished:
            state = _taken(flow, spark, outcome)
            flow.sync(())
            flow.ledger.finish(state)
        if outcome.letters:
            flow.letters.mark(outcome.letters)
        state = replace(flow.ledger.state, replayed=())
        if state.source is not None and (state != flow.ledger.state or any(h.released for h in state.held.values())):
            flow.step(state, source(definition.source).partitions(state.source))
    return Replayed(outcome, flow.ledger.state)


def _taken(flow: Flow, spark: SparkSession, outcome: Outcome) -> State:
    """Returns the state with the changes of the dead letters as pending changes."""
    state, after, late = flow.ledger.state, flow.ledger.state, sum(outcome.late.values())
    if any(chunks.num_rows for chunks in outcome.chunks):
        chunks = spark.createDataFrame(pa.Table.from_batches(outcome.chunks, CHUNKS))
        passed("stage.before")
        folder, total = flow.pending.stage(chunks, flow.ledger.epoch)
        passed("stage.after")
        fresh = flow.pending.index([folder], {folder: total})
        after = absorbed(state, fresh, (folder, total), state.source or "", 0, quarantine=False)
    counts = after.counts
    counts = replace(
        counts, rows=counts.rows + late, repeated=counts.repeated + late, dead=counts.dead - len(outcome.letters)
    )
    held = {name: replace(h, released=h.released or name in outcome.released) for name, h in after.held.items()}
    return replace(
        after, source=state.source, waiting=state.waiting, counts=counts, held=held, replayed=tuple(outcome.letters)
    )


def _passed(letter: StoredLetter, state: State) -> bool:
    return letter.offset < state.positions.get(letter.topic, {}).get(letter.partition, 0)


def _chosen(waiting: list[StoredLetter], positions: Sequence[str]) -> list[StoredLetter]:
    if not positions:
        return waiting
    places = [Place.parse(text) for text in positions]
    for place in places:
        if not any(_is_at(letter, place) for letter in waiting):
            raise ConfigError(
                f"there is no dead letter to replay at {place}; `changefeed dlq list` shows those that there are"
            )
    return [letter for letter in waiting if any(_is_at(letter, place) for place in places)]


def _is_at(letter: StoredLetter, place: Place) -> bool:
    return letter.position[:3] == (place.topic, place.partition, place.offset) and place.index in (None, letter.index)


_Record = tuple[str, int, int]


def _records(passed: list[StoredLetter]) -> Iterator[tuple[pa.RecordBatch, dict[_Record, list[int | None]]]]:
    """Returns the records of the dead letters, each once, and which messages of each are dead letters."""
    messages: dict[_Record, list[int | None]] = {}
    bodies: dict[_Record, dict[str, Any]] = {}
    for letter in passed:
        record = letter.position[:3]
        messages.setdefault(record, []).append(letter.index)
        headers = [{"key": name, "value": value} for name, value in letter.headers]
        bodies[record] = {n: getattr(letter, n) for n in ("topic", "partition", "offset", "key", "value")} | {
            "headers": headers
        }
    places = sorted(messages)
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        yield record_batch(bodies[p] for p in part), {p: messages[p] for p in part}


def _decodable(messages: dict[_Record, list[int | None]], dead: list[DeadLetter], outcome: Outcome) -> set[Place]:
    """Returns the dead letters that can be decoded completely; stores both kinds in `outcome`."""
    still: dict[_Record, list[DeadLetter]] = {}
    for letter in dead:
        still.setdefault((letter.place.topic, letter.place.partition, letter.place.offset), []).append(letter)
    good: set[Place] = set()
    for record, indexes in messages.items():
        failed = {letter.place.index: letter for letter in still.get(record, ())}
        for index in indexes:
            failures = [letter for i, letter in failed.items() if None in (i, index) or i == index]
            if failures:
                outcome.dead.append(failures[0])
            else:
                good.add(Place(*record, index))
    outcome.letters.extend(sorted(map(str, good)))
    return good


def _only(decoded: Decoded, letters: set[Place]) -> Decoded:
    """The decoded content of these dead letters."""

    def belongs(topic: str, partition: int, offset: int, index: int | None) -> bool:
        return Place(topic, partition, offset, index) in letters or Place(topic, partition, offset) in letters

    tables = []
    for table in decoded.tables:
        columns = [table.rows.column(name).to_pylist() for name in ("topic", "partition", "offset", "index")]
        mask = pa.array([belongs(*place) for place in zip(*columns, strict=True)], pa.bool_())
        tables.append(TableBatch(table.shape, table.rows.filter(mask)))
    events = [e for e in decoded.control if belongs(e.place.topic, e.place.partition, e.place.offset, e.place.index)]
    return Decoded([t for t in tables if len(t)], events)


_NOTHING_PASSES = 2**64 - 1


@dataclass(slots=True)
class _Late:
    """Counts changes that come too late for their table, for the report."""

    state: State
    consistency: str
    outcome: Outcome

    def split(self, decoded: Decoded) -> Decoded:
        """Returns the changes that are not too late, and counts the others."""
        tables = [self._rows(table) for table in decoded.tables]
        return Decoded([t for t in tables if len(t)], [e for e in decoded.control if self._in_time(e)])

    def _floor(self, name: str) -> int | None:
        """Returns the commit_ts up to which a table has been applied; None if nothing has been applied."""
        if name in self.state.held:
            return self.state.held[name].after
        return _NOTHING_PASSES if self.consistency == "key" else self.state.barrier

    def _rows(self, table: TableBatch) -> TableBatch:
        name = table.name
        floor = self._floor(name)
        if floor is None:
            return table
        above = pc.fill_null(pc.greater(table.rows.column("commit_ts"), pa.scalar(floor, pa.uint64())), False)
        rest = TableBatch(table.shape, table.rows.filter(above))
        if len(rest) < len(table):
            self.outcome.late[name] = self.outcome.late.get(name, 0) + len(table) - len(rest)
        return rest

    def _in_time(self, event: Control) -> bool:
        if not isinstance(event, SchemaChange):
            return True
        floor = self._floor(full_name(str(event.database), str(event.table)))
        if floor is None or (event.commit_ts is not None and event.commit_ts > floor):
            return True
        self.outcome.late_schema_changes += 1
        return False


def _released(
    definition: Definition, before: Iterable[StoredLetter], state: State, replayed: set[str]
) -> frozenset[str]:
    """Returns the quarantined tables that have no dead letter left.

    A table that is held only because a held table swapped names with it has no dead letters: it is released with the last
    of the others.
    """
    waiting = {full_name(str(one.database), str(one.table)) for one in before if position(one) not in replayed}
    if not waiting & state.held.keys():
        return frozenset(state.quarantined())
    named = {full_name(str(database), str(table)) for database, table in files_of(definition).tables()}
    return frozenset(n for n in state.quarantined() if n in named and n not in waiting)
