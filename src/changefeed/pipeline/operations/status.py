"""Reads the progress of a pipeline from its ledger: `changefeed status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from changefeed.errors import ConfigError, SourceError
from changefeed.pipeline import copy_requests
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import files_of
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.monitoring.cuts import offset_in_json
from changefeed.pipeline.monitoring.heartbeat import heartbeat_folder, read_heartbeat
from changefeed.pipeline.monitoring.holders import Holder, has_binlog, held_by_of, held_since
from changefeed.pipeline.monitoring.lag import NO_LAG, Lag, lag_of
from changefeed.pipeline.monitoring.texts import run_dict
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.pipeline.operations.expire import old_folders, readable
from changefeed.pipeline.operations.expired import read_deleted_folders
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.pending.by_table import pending_rows_of
from changefeed.pipeline.state import Counts, State
from changefeed.pipeline.store.base import StoreReader
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.sinks.section import version_in_json
from changefeed.sources import Backlog, Source, source
from changefeed.sources.copies import CopyRequest
from changefeed.ticdc.tso import iso

NEWEST = 100  # cuts that are shown unless more are asked for
_LOOKED_AT = 5_000  # steps, to find out since when the cut has not moved


@dataclass(frozen=True, slots=True)
class PublishedCut:
    """Table versions that belong together: read at these versions, the tables show one state that the upstream had.

    Attributes:
        commit_ts: the commit_ts up to which all tables were applied; None if the upstream has no such numbers.
        name: GTID of the last transaction, or GTID set of the checkpoint; None if the upstream has no such names.
        tables: `database.table` -> version of the table.
    """

    commit_ts: int | None
    name: str | None
    tables: dict[str, int]

    def to_dict(self, *, numbered: bool = True) -> dict[str, Any]:
        """Returns one entry of `cuts` in the JSON of `changefeed status --json`; `numbered`: `Status.numbered_versions`."""
        tables = {name: version_in_json(version, numbered=numbered) for name, version in self.tables.items()}
        return {"commit_ts": self.commit_ts, **({"name": self.name} if self.name else {}), "tables": tables}


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a pipeline: positions, cuts, and what is pending.

    Attributes:
        pipeline: the pipeline's name.
        epoch: number of runs, replays and repairs so far.
        positions: topic -> partition -> offset of the next record to read.
        cuts: the published cuts, one per barrier, oldest first, without those that `changefeed expire` made unreadable.
        pending: number of row changes above the barrier, or of held tables.
        dead_letters: number of dead letters that have not been replayed.
        counts: what has been read since the pipeline began: rows = applied + repeated + pending.
        older_cuts: whether there are older cuts than those in `cuts`.
        incomplete_transaction: a sentence about the transaction that all changes wait for, because the source lacks some of its
            events; None if there is none.
        not_captured: tables that are known by their DDL alone, and left out: no row and no topic shows that they are captured.
        old_folders: folders of renamed and dropped tables, below the sink's path, which only older cuts use -> the name that the
            table has now; None if it was dropped, or if that is no longer known. Readers still open them as tables.
        lag: how far the tables are behind.
        held_by: what the cut, or tables, wait for; empty if nothing waits.
        held_since: since when the newest cut has not moved although something waits; None if nothing holds it.
        run: the newest heartbeat of the newest run, which may be over; None if there is none.
        source_error: why the source does not answer; None if it does, or was not asked.
        snapshots: requests of `changefeed snapshot` that are not complete, in their order.
        binlog: whether the commit_ts of cuts are places in a binlog: file number << 40 | position.
        pending_by_table: `database.table` -> number of its pending row changes, most first; empty if nothing is pending, or
            if only Spark can reach the pending store.
        numbered_versions: whether versions of tables count up, as Delta's do; ids of Iceberg's snapshots are texts in JSON.
    """

    pipeline: str
    epoch: int
    positions: dict[str, dict[int, int]]
    cuts: tuple[PublishedCut, ...]
    pending: int
    dead_letters: int
    counts: Counts
    older_cuts: bool = False
    not_captured: tuple[str, ...] = ()
    incomplete_transaction: str | None = None
    old_folders: Mapping[str, str | None] = field(default_factory=dict)
    lag: Lag = NO_LAG
    held_by: tuple[Holder, ...] = ()
    held_since: datetime | None = None
    run: RunNow | None = None
    source_error: str | None = None
    binlog: bool = False
    snapshots: tuple[CopyRequest, ...] = ()
    pending_by_table: Mapping[str, int] = field(default_factory=dict)
    numbered_versions: bool = True

    @property
    def cut(self) -> PublishedCut | None:
        """The newest cut; None before the first."""
        return self.cuts[-1] if self.cuts else None

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed status --json`; what is not there, or not known, is left out."""
        now = datetime.now(UTC)
        return {
            "pipeline": self.pipeline,
            "epoch": self.epoch,
            "positions": {
                topic: {str(p): offset_in_json(n, binlog=self.binlog) for p, n in of.items()}
                for topic, of in self.positions.items()
            },
            "cuts": [cut.to_dict(numbered=self.numbered_versions) for cut in self.cuts],
            **({"older_cuts": True} if self.older_cuts else {}),
            "pending": self.pending,
            **({"pending_by_table": dict(self.pending_by_table)} if self.pending_by_table else {}),
            "dead_letters": self.dead_letters,
            "counts": asdict(self.counts),
            **({"not_captured": list(self.not_captured)} if self.not_captured else {}),
            **({"incomplete_transaction": self.incomplete_transaction} if self.incomplete_transaction else {}),
            **({"old_folders": dict(self.old_folders)} if self.old_folders else {}),
            "lag": self.lag.to_dict(now),
            "held_by": [holder.to_dict() for holder in self.held_by],
            **({"held_since": iso(self.held_since)} if self.held_since else {}),
            **({"run": run_dict(self.run, now)} if self.run else {}),
            **({"snapshots": [request.to_dict() for request in self.snapshots]} if self.snapshots else {}),
            **({"source_error": self.source_error} if self.source_error else {}),
        }


def status(definition: Definition, cuts: int | None = NEWEST, *, ask_source: bool = True) -> Status:
    """Reads positions, cuts and counts of a pipeline from its ledger, and asks its source what is left to read.

    Args:
        definition: the pipeline.
        cuts: how many of the newest cuts to return; None for all.
        ask_source: whether to ask the source; otherwise the lag in records is that of the last heartbeat.

    Raises:
        ConfigError: the ledger belongs to another pipeline.
        SinkError: the ledger cannot be read.
    """
    ledger = read_ledger(definition)
    latest = ledger.latest()
    state = latest.state if latest else State()
    published = list(islice(_published(ledger, definition), None if cuts is None else cuts + 1))
    opened, beat = source(definition.source), read_heartbeat(heartbeat_folder(definition))
    requests = folder_to_read(f"{own_folder(definition)}/{copy_requests.FOLDER}", definition.storage, definition.spark)
    backlog, source_error = _ask_backlog(opened, state.source) if ask_source else (None, None)
    held_by, binlog = held_by_of(definition, state), has_binlog(definition)
    return Status(
        definition.pipeline.name,
        latest.epoch if latest else 0,
        {topic: dict(sorted(of.items())) for topic, of in sorted(state.positions.items())},
        tuple(published[:cuts][::-1]),
        state.counts.pending,
        files_of(definition).waiting(),
        state.counts,
        cuts is not None and len(published) > cuts,
        tuple(sorted(state.uncaptured)),
        state.incomplete.waits if state.incomplete else None,
        old_folders(definition, latest, read_deleted_folders(definition)) if latest else {},
        lag_of(state, backlog or (beat.backlog if beat else None), binlog=binlog),
        held_by,
        held_since(_steps(ledger), _LOOKED_AT) if held_by else None,
        beat,
        source_error,
        binlog,
        copy_requests.unfinished(requests, opened, state.source),
        pending_rows_of(definition, state),
        definition.sink.numbered_versions,
    )


def _ask_backlog(opened: Source, before: str | None) -> tuple[Backlog | None, str | None]:
    """Returns the backlog, and why the source does not answer."""
    try:
        return opened.backlog(before), None
    except (ConfigError, SourceError) as error:
        return None, str(error)


def _steps(ledger: StoreReader) -> Iterator[tuple[datetime, int | None, bool]]:
    return ((cut.at, cut.commit_ts, cut.waits) for cut in ledger.history(newest_first=True))


def listed(folders: Mapping[str, str | None]) -> str:
    """Formats old folders for people: `web/tmp_a (now web.a), web/gone`."""
    return ", ".join(f"{path} (now {name})" if name else path for path, name in folders.items())


def _published(ledger: StoreReader, definition: Definition) -> Iterator[PublishedCut]:
    """Yields the readable cuts, newest first; of several cuts with the same barrier, only the newest."""
    expired, seen = read_deleted_folders(definition), set[tuple[str, int]]()
    for cut in ledger.history(newest_first=True):
        if not readable(cut, expired) or (cut.commit_ts is None and not cut.tables):
            continue
        key = ("step", cut.step) if cut.commit_ts is None else ("commit_ts", cut.commit_ts)
        if key not in seen:
            seen.add(key)
            yield PublishedCut(cut.commit_ts, cut.mark, cut.versions())
