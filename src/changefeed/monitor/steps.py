"""Steps and definitions as a ledger has them, for the page: what each step wrote, and since when a cut has been there.

A ledger of files is read in its own order, newest first, and only as far as it is looked at: no page of its history before it is
needed, and of a state only the part that is shown. See `pipeline/store/reading.py` for its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from changefeed.model.definition import Table
from changefeed.pipeline.state import Counts
from changefeed.pipeline.store.base import Cut, StoreReader
from changefeed.pipeline.store.entries import LedgerEntry, decoded
from changefeed.pipeline.store.reading import FileReader, MissingError, entry_name

_VERSIONS_IN = 50  # steps in which a table's older definitions are looked for


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step, as the list of steps shows it.

    Attributes:
        tables: number of tables in its cut.
        written: `database.table` -> version, of the tables that differ from the step before; None for the oldest step that the
            ledger has.
        gone: tables of the step before that its cut does not have.
        time: the latest commit time in its cut, in milliseconds since 1970, where commit_ts has none.
        earlier: when the step before was done, and its counts; None for the oldest step.
    """

    step: int
    epoch: int
    at: datetime
    commit_ts: int | None
    mark: str | None
    counts: Counts
    tables: int
    written: Mapping[str, int | None] | None
    gone: tuple[str, ...] = ()
    earlier: tuple[datetime, Counts] | None = None
    time: int | None = None


class _Barrier(msgspec.Struct, frozen=True):
    barrier: int | None = None
    counts: Counts = Counts()
    held: dict[str, Any] = {}


class _BarrierAlone(msgspec.Struct, frozen=True):
    """A state of which only the barrier is read, and whether something waits."""

    state: _Barrier


class _Places(msgspec.Struct, frozen=True):
    """A state of which only the places of the tables' definitions are read."""

    tables: dict[str, tuple[Any, ...]]


def rows_of(cuts: Iterable[Cut], *, last: bool) -> Iterator[StepRow]:
    """Yields the rows of cuts, newest first.

    Args:
        cuts: the cuts.
        last: whether the oldest cut becomes a row, too, of which it is not known what its step has written.
    """
    newer: Cut | None = None
    for cut in cuts:
        if newer is not None:
            yield _row(newer, cut)
        newer = cut
    if last and newer is not None:
        yield _row(newer, None)


def _row(cut: Cut, before: Cut | None) -> StepRow:
    written: dict[str, int | None] | None = None
    gone: tuple[str, ...] = ()
    if before is not None:
        written = {
            name: table.version
            for name, table in cut.tables.items()
            if (old := before.tables.get(name)) is None or old.version != table.version or old.path != table.path
        }
        gone = tuple(name for name in before.tables if name not in cut.tables)
    earlier = (before.at, before.counts) if before else None
    count = len(cut.tables)
    return StepRow(
        cut.step, cut.epoch, cut.at, cut.commit_ts, cut.mark, cut.counts, count, written, gone, earlier, cut.time
    )


def cuts_before(ledger: FileReader, before: int) -> Iterator[Cut]:
    """The cuts of the steps before one, newest first, from a ledger of files; reads no page after that step."""
    head = ledger.steady(ledger.head)
    if head is None:
        return
    entry = head[0]
    if before > entry.packed + 1:
        live = ledger.history(max(entry.packed, entry.first - 1), newest_first=True)
        yield from (cut for cut in live if cut.step < before)
    for page in reversed(ledger.pages()):
        if page.first < before and page.first <= entry.packed:
            try:
                cuts = ledger.page(page, entry.id).cuts
            except MissingError:  # it has just been deleted, with all before it: `pipeline.keep-cuts`
                return
            yield from (cut for cut in reversed(cuts) if cut.step < before)


def definitions_of(ledger: FileReader, name: str) -> list[tuple[int, datetime, Table]]:
    """Returns the definitions of a table in the newest entries; see `PipelineReader.definitions`."""
    newest: list[tuple[int, datetime, Table]] = []
    files: dict[str, list[Table] | None] = {}
    head = ledger.steady(ledger.head)
    if head is None:
        return newest
    try:
        for number, (entry, _) in enumerate(_entries(ledger, head)):
            if number == _VERSIONS_IN:
                break
            table = _definition(ledger, entry, name, files)
            if table is None:
                continue
            if newest and newest[-1][2] == table:
                newest[-1] = entry.step, entry.at, table
            else:
                newest.append((entry.step, entry.at, table))
    except MissingError:  # packed while they were read
        pass
    return newest


def _definition(
    ledger: FileReader, entry: LedgerEntry, name: str, files: dict[str, list[Table] | None]
) -> Table | None:
    """The definition of a table in an entry; None if the entry has no such table, or its file of definitions is gone."""
    packed = decoded(entry.state, _Places, ledger.folder.path, entry_name(entry.number))
    file = str(entry.definitions)
    if name not in packed.tables:
        return None
    if file not in files:
        try:
            files[file] = decoded(ledger.texts(file), list[Table], ledger.folder.path, file)
        except MissingError:
            files[file] = None
    tables, place = files[file], packed.tables[name][0]
    return tables[place] if tables is not None and place < len(tables) else None


def _entries(ledger: FileReader, head: Any) -> Iterator[Any]:
    for sealed in (head, *ledger.before(head)):
        if sealed[0].status == "done" and sealed[0].definitions:
            yield sealed


def barriers(ledger: StoreReader) -> Iterator[tuple[datetime, int | None, bool]]:
    """Yields what `held_since` needs of each step, newest first; decodes no tables of the newest entries."""
    below: int | None = None
    if isinstance(ledger, FileReader) and (head := ledger.steady(ledger.head)) is not None:
        try:
            for entry, _ in chain([head], ledger.before(head)):
                if entry.status == "done":
                    below = entry.step
                    state = decoded(entry.state, _BarrierAlone, ledger.folder.path, entry_name(entry.number)).state
                    yield entry.at, state.barrier, state.counts.pending > 0 or bool(state.held)
        except MissingError:  # packed while they were read
            pass
        if below is not None:
            yield from ((cut.at, cut.commit_ts, cut.waits) for cut in cuts_before(ledger, below))
            return
    yield from ((cut.at, cut.commit_ts, cut.waits) for cut in ledger.history(newest_first=True))
