"""Recognizes rows that are sent again by their place in the binlog.

Debezium sends a row with the place of its event and its number in the event: a second row with both is the same row. After a
restart the connector sends everything after its last stored offset again, to any partition if a table has no key.

Rule 1. A row is sent again if a pending row, or one before it in its batch, has the same place (`frames.sent`). Of rows in a
compressed transaction, which have one place, a row is another one if its number in the transaction is higher.
Rule 2. With cuts, rows at or below the barrier have been applied; the others are pending. So Rule 1 finds every row.
Rule 3. Without cuts, rows are applied as they are read, and only those of tables without a key have to be recognized.
Partitions are in order: such a row was sent again if its partition has sent a later one, or if every partition has passed its
place. Rows that not every partition has passed are remembered by their hashes: those of the last batch, as a rule.
Rule 4. After a failover or RESET MASTER, places of another binlog are lower, too. But a row that was sent before is not newer, by
commit time and GTID, than all that was read. Where a row with a lower place is newer, Rule 3 does not rely on places up to the
highest one of the earlier binlog any more.
Rule 5. Without cuts, rows of tables with a key are applied again when they are sent again, and the last one of a key is right.
But below a schema change of their table that has taken effect they would bring back what it has removed: they are left out, too.
Rule 6. A connector may send a key that DDL has taken from the table. Rows behind such a statement are of a table without a key,
also if it, or the RENAME that gave the table its name, is read after them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.frames.sent import LINES, combined, table_hash
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name
from changefeed.mysql import gtid
from changefeed.mysql.ddl import statements_of
from changefeed.mysql.ddl.definitions import definitions_after
from changefeed.mysql.ddl.statements import AlterTable, CreateTable
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.merging import stated_keys
from changefeed.pipeline.state import NOTHING, Positions, State, Stretches, merged
from changefeed.stages.repeats import Stretch, are_inside

_MOST_REMEMBERED = 10_000
_Mask = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]
Partition = tuple[str, int]


def with_repeats(
    state: State,
    before: State,
    pending: Iterable[ChunkInfo],
    fresh: Iterable[ChunkInfo],
    passed: int | None,
    *,
    cuts: bool,
) -> State:
    """The state after a batch, with the rows of the batch that were sent again.

    Args:
        state, before: after and before the batch.
        pending: the chunks that were pending before the batch.
        fresh: the chunks of the batch.
        passed: the commit_ts that every partition has passed.
        cuts: whether tables move together.
    """
    pending, fresh = list(pending), list(fresh)
    earlier, lines = _Lines.of(pending), _Lines.of(fresh)
    if not cuts and any(chunk.event is not None for chunk in fresh):
        state = _with_late_repeats(state, before, earlier, [*pending, *fresh])
    if not len(lines.table):
        return state
    if cuts:
        repeated = _have_come_before(earlier, lines)
    else:
        keyless = lines.mask("keyless") | _have_lost_their_key(lines, before, [*pending, *fresh])
        bound, newer = _passed_before(lines, before), _are_newer(lines, before)
        low = lines.numbers("commit_ts") < bound
        remembered = np.isin(lines.ids, np.array([hash for _, hash in before.recent], np.int64))
        known = remembered | (low & ~newer)
        may_count = ~(keyless & known)  # an equal row is left out for one of these alone
        repeated = np.array(remembered)
        repeated[may_count] |= _have_come_before(earlier.where(~earlier.inside(state.repeats)), lines.where(may_count))
        in_another_binlog = ~repeated & newer & (low | _go_back(lines))
        removed = (lines.numbers("commit_ts") <= bound) & ~newer
        if removed.any():  # not so in a batch in which nothing is sent again
            removed &= _are_before_last_change(lines, before, fresh)
        repeated = (keyless & (repeated | known)) | removed
        state = _remembering(
            state, before, lines, keyless, repeated, passed, another_binlog=bool(in_another_binlog.any())
        )
    return replace(state, repeats=merged(state.repeats, lines.stretches(repeated)))


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of chunks, those of a partition in the order of their offsets.

    Attributes:
        partitions: the partitions, and the number of lines of each.
        ids: a hash of place and row.
    """

    table: pa.Table
    partitions: list[tuple[Partition, int]]
    ids: _Numbers

    @classmethod
    def of(cls, chunks: Iterable[ChunkInfo]) -> _Lines:
        parts = defaultdict[Partition, list[pa.Table]](list)
        for chunk in chunks:
            if chunk.places is not None:
                parts[chunk.topic, chunk.partition].append(pa.Table.from_batches([chunk.places]))
        tables = [
            pa.concat_tables(of).sort_by([("offset", "ascending"), ("index", "ascending")]) for of in parts.values()
        ]
        table = pa.concat_tables([LINES.empty_table(), *tables]).combine_chunks()
        ids = combined(table.column("commit_ts").to_numpy(), table.column("same").to_numpy())
        return cls(table, [(at, len(of)) for at, of in zip(parts, tables, strict=True)], ids)

    def numbers(self, name: str, missing: int = NOTHING) -> _Numbers:
        numbers: _Numbers = pc.fill_null(self.table.column(name), missing).to_numpy()
        return numbers

    def mask(self, name: str) -> _Mask:
        mask: _Mask = self.table.column(name).to_numpy().astype(np.bool_)
        return mask

    def by_partition(self, values: Positions, missing: int = NOTHING) -> _Numbers:
        """For each line, the value of its partition."""
        partition_values = [values.get(topic, {}).get(number, missing) for (topic, number), _ in self.partitions]
        return np.repeat(np.array(partition_values, np.int64), [count for _, count in self.partitions])

    def inside(self, repeats: Stretches) -> _Mask:
        """For each line, whether it lies in a stretch."""
        parts, start = list[_Mask](), 0
        for (topic, number), count in self.partitions:
            rows = self.table.slice(start, count).select(["offset", "index"])
            parts.append(are_inside(rows.combine_chunks(), repeats.get(topic, {}).get(number, ())))
            start += count
        return np.concatenate([np.zeros(0, np.bool_), *parts])

    def where(self, chosen: _Mask) -> _Lines:
        """The chosen lines."""
        ends = np.cumsum([0, *(count for _, count in self.partitions)])
        counts = [int(chosen[start:end].sum()) for start, end in pairwise(ends.tolist())]
        partitions = [(partition, count) for (partition, _), count in zip(self.partitions, counts, strict=True)]
        return _Lines(self.table.filter(pa.array(chosen)).combine_chunks(), partitions, self.ids[chosen])

    def stretches(self, chosen: _Mask) -> Stretches:
        """The positions of the chosen lines."""
        positions: Stretches = {}
        start = 0
        offsets, indexes = self.numbers("offset"), self.numbers("index")
        for (topic, number), count in self.partitions:
            end = start + count
            if chosen[start:end].any():
                positions.setdefault(topic, {})[number] = stretches_of(
                    offsets[start:end], indexes[start:end], chosen[start:end]
                )
            start = end
        return positions


def stretches_of(offsets: _Numbers, indexes: _Numbers, chosen: _Mask) -> tuple[Stretch, ...]:
    """The stretches of chosen rows of one partition; the rows are in order."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(np.int8), [0]])))
    firsts, lasts = edges[::2], edges[1::2] - 1
    columns = (offsets[firsts], indexes[firsts], offsets[lasts], indexes[lasts])
    return tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in zip(*columns, strict=True))


def still_needed(repeats: Stretches, pending: Iterable[ChunkInfo]) -> Stretches:
    """The stretches that end behind the first pending row of their partition."""
    first: dict[Partition, int] = {}
    for chunk in pending:
        if chunk.kind == "rows":
            key = (chunk.topic, chunk.partition)
            first[key] = min(chunk.first, first.get(key, chunk.first))
    needed: Stretches = {}
    for topic, partitions in repeats.items():
        for partition, stretches in partitions.items():
            rest = tuple(s for s in stretches if (topic, partition) in first and s[2] >= first[topic, partition])
            if rest:
                needed.setdefault(topic, {})[partition] = rest
    return needed


def _have_come_before(earlier: _Lines, lines: _Lines) -> _Mask:
    """For each line, whether it has come before; see Rule 1."""
    ids = np.concatenate([earlier.ids, lines.ids])
    orders = np.concatenate([earlier.numbers("order"), lines.numbers("order")])
    by_id = np.argsort(ids, kind="stable")
    first = np.concatenate([[True], ids[by_id][1:] != ids[by_id][:-1]])
    if first.all():
        return np.zeros(len(lines.ids), np.bool_)
    group = np.cumsum(first) - 1
    in_group = np.bincount(group)[group] > 1  # groups of one line are as they are
    by_id, group, first = by_id[in_group], group[in_group], first[in_group]
    span = int(orders.max()) - NOTHING + 1
    highest = np.maximum.accumulate(group * span + orders[by_id] - NOTHING) - group * span + NOTHING
    before = np.concatenate([[NOTHING], highest[:-1]])
    repeated = np.zeros(len(ids), np.bool_)
    repeated[by_id] = ~first & (orders[by_id] <= before)
    return repeated[len(earlier.ids) :]


def _with_late_repeats(state: State, before: State, earlier: _Lines, chunks: list[ChunkInfo]) -> State:
    """The state with the pending rows that were sent again, if a schema change has shown that their table has no key: Rule 6."""
    counting = ~earlier.inside(state.repeats)  # of equal rows, one counts: not always the first in this order
    late = np.zeros(len(counting), np.bool_)
    late[counting] = _have_come_before(_Lines.of([]), earlier.where(counting))
    if not late.any():
        return state
    late &= _have_lost_their_key(earlier, before, chunks)
    return replace(state, repeats=merged(state.repeats, earlier.stretches(late)))


def _passed_before(lines: _Lines, before: State) -> _Numbers:
    """For each line, the place that its partition, or every partition, had come to before the batch; see Rule 3."""
    bound = np.maximum(lines.by_partition(before.latest), NOTHING if before.passed is None else before.passed)
    trusted: _Numbers = np.where(bound > (NOTHING if before.doubted is None else before.doubted), bound, NOTHING)
    return trusted


def _go_back(lines: _Lines) -> _Mask:
    """For each line, whether its place is lower than that of a line before it in its partition."""
    places = lines.numbers("commit_ts")
    goes_back = np.zeros(len(places), np.bool_)
    start = 0
    for _, count in lines.partitions:
        of_partition = places[start : start + count]
        goes_back[start : start + count] = of_partition < np.maximum.accumulate(of_partition)
        start += count
    return goes_back


def _are_newer(lines: _Lines, before: State) -> _Mask:
    """For each line, whether it is newer than all that was read before the batch, by commit time and GTID; see Rule 4."""
    newer: _Mask = lines.numbers("time") > (NOTHING if before.time is None else before.time)
    texts = pc.dictionary_encode(pa.concat_arrays(lines.table.column("gtid").chunks))
    for number, text in enumerate(texts.dictionary.to_pylist()):
        name = gtid.parse(text)
        if name is not None and name.number > before.reached.get(name.source, NOTHING):
            newer |= pc.fill_null(pc.equal(texts.indices, number), False).to_numpy(zero_copy_only=False)
    return newer


def _are_before_last_change(lines: _Lines, before: State, fresh: Iterable[ChunkInfo]) -> _Mask:
    """For each line, whether it is below the last schema change of its table, which has taken effect; see Rule 5."""
    last = {name.lower(): change.commit_ts for name, change in before.changed.items()}
    bounds: dict[int, int] = {}
    for chunk in fresh if last else ():
        if chunk.kind == "rows" and chunk.database is not None:
            names = (chunk.name.lower(), full_name(chunk.database.lower(), ""))
            bounds[table_hash(chunk.name)] = max(last.get(name, NOTHING) for name in names)
    tables, places = np.unique(lines.numbers("table"), return_inverse=True)
    of_tables = np.array([bounds.get(int(table), NOTHING) for table in tables], np.int64)
    below: _Mask = lines.numbers("commit_ts") <= of_tables[places]
    return below


def _have_lost_their_key(lines: _Lines, before: State, chunks: list[ChunkInfo]) -> _Mask:
    """For each line, whether its table has no key at its place, whatever its record has: see Rule 6."""
    tables = {name.lower(): state.table for name, state in before.tables.items() if state.declared}
    since = {name: NOTHING for name, table in tables.items() if not table.keys}
    places, table_hashes, lost = (
        lines.numbers("commit_ts"),
        lines.numbers("table"),
        np.zeros(len(lines.table), np.bool_),
    )
    events = {(e.commit_ts, e.ddl): e for chunk in chunks if (e := chunk.event) is not None and e.commit_ts is not None}
    for (commit_ts, _), event in sorted(events.items(), key=lambda item: item[0][0] or 0):
        for name, table in _defined(event, tables):
            if table is None or table.keys:
                if name in since:
                    lost |= (
                        (table_hashes == table_hash(name)) & (places > since.pop(name)) & (places <= (commit_ts or 0))
                    )
            else:
                since.setdefault(name, commit_ts or 0)
    for name, start in since.items():
        lost |= (table_hashes == table_hash(name)) & (places > start)
    return lost


def _defined(event: SchemaChange, tables: dict[str, Table]) -> Iterator[tuple[str, Table | None]]:
    """Applies a schema change to `tables`; yields each table that it defines, and None for one that is unknown from there on."""
    try:
        statements = statements_of(event, restored=False)
    except (SchemaError, UnsupportedError):
        return
    for statement in statements:
        changed = definitions_after(
            statement,
            lambda database, name: tables.get(full_name(database, name).lower()),
            lambda database: [(t.database, t.name) for t in tables.values() if t.database.lower() == database.lower()],
        )
        for (database, name), table in changed:
            folded = full_name(database, name).lower()
            if table is None and isinstance(statement, AlterTable):
                continue  # it was sent again, or is refused: the definition is one after it
            if table is None and isinstance(statement, CreateTable) and event.columns:
                # LIKE a table that is not known, or of the session's database: the producer has the columns
                columns = tuple(replace(column, key=None) for column in event.columns)
                table = Table.define(database, name, columns, stated_keys(event.columns))
            tables.pop(folded, None)
            if table is not None:
                tables[folded] = table
            yield folded, table


def are_left_out(chunk: ChunkInfo, repeats: Stretches) -> bool:
    """Whether all rows of a chunk were sent again."""
    stretches = repeats.get(chunk.topic, {}).get(chunk.partition, ())
    return chunk.kind == "rows" and any(first <= chunk.first and chunk.last <= last for first, _, last, _ in stretches)


def _remembering(
    state: State,
    before: State,
    lines: _Lines,
    keyless: _Mask,
    repeated: _Mask,
    passed: int | None,
    *,
    another_binlog: bool,
) -> State:
    """The state with what later rows are compared with; `another_binlog`: another binlog has begun."""
    doubted, new = before.doubted, keyless & ~repeated
    if another_binlog:
        doubted = max(state.newest() or NOTHING, NOTHING if doubted is None else doubted)
    below = max(before.passed or NOTHING, passed or NOTHING)
    fresh = zip(lines.numbers("commit_ts")[new].tolist(), lines.ids[new].tolist(), strict=True)
    trusted = below > (NOTHING if doubted is None else doubted)
    recent = [pair for pair in (*before.recent, *fresh) if pair[0] >= below or not trusted]
    last_numbers = dict(before.reached)
    for text in pc.unique(lines.table.column("gtid").filter(pa.array(new))).to_pylist():
        name = gtid.parse(text or "")
        if name is not None:
            last_numbers[name.source] = max(name.number, last_numbers.get(name.source, NOTHING))
    times = lines.numbers("time")[~repeated]
    time = max([int(times.max(initial=NOTHING)), before.time or NOTHING])
    return replace(
        state, passed=below, doubted=doubted, reached=last_numbers, time=time if time > NOTHING else None,
        recent=tuple(recent[-_MOST_REMEMBERED:]),
    )  # fmt: skip
