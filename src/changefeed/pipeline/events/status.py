"""Reads the progress of an event pipeline: `changefeed status`, with the words and fields of a pipeline into tables.

What an event pipeline does not have is absent: cuts, versions of tables, rows that wait, dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from changefeed.errors import ConfigError, SourceError
from changefeed.pipeline import copy_requests
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.events.parts import open_folder, read_ledger
from changefeed.pipeline.monitoring.cuts import offset_in_json
from changefeed.pipeline.monitoring.heartbeat import heartbeat_folder, read_heartbeat
from changefeed.pipeline.monitoring.holders import has_binlog
from changefeed.pipeline.monitoring.lag import Lag, lag_of
from changefeed.pipeline.monitoring.texts import run_dict
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.pipeline.state import State
from changefeed.sources import Backlog, Source, source
from changefeed.sources.copies import CopyRequest

_OF_TABLES = ("pending_rows", "read_time", "seconds_behind_read")  # in the lag


@dataclass(frozen=True, slots=True)
class EventStatus:
    """The state of an event pipeline.

    Attributes:
        pipeline: the pipeline's name.
        epoch: number of runs so far.
        positions: topic -> partition -> where the source continues; empty before and inside of a snapshot.
        rows, schema_changes: number of changes that were appended since the pipeline began.
        lag: the time of the newest change that was appended, and what is left to read.
        run: the newest heartbeat of the newest run, which may be over; None if there is none.
        source_error: why the source does not answer; None if it does, or was not asked.
        binlog: whether positions are places in a binlog: file number << 40 | position.
        snapshots: requests of `changefeed snapshot` that are not complete, in their order.
    """

    pipeline: str
    epoch: int
    positions: dict[str, dict[int, int]]
    rows: int
    schema_changes: int
    lag: Lag
    run: RunNow | None = None
    source_error: str | None = None
    binlog: bool = False
    snapshots: tuple[CopyRequest, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed status --json`; what is not there, or not known, is left out."""
        now = datetime.now(UTC)
        return {
            "pipeline": self.pipeline,
            "kind": "events",
            "epoch": self.epoch,
            "positions": {
                topic: {str(p): offset_in_json(n, binlog=self.binlog) for p, n in of.items()}
                for topic, of in self.positions.items()
            },
            "counts": {"rows": self.rows, "schema_changes": self.schema_changes},
            "lag": event_lag_dict(self.lag, now),
            **({"run": run_dict(self.run, now)} if self.run else {}),
            **({"source_error": self.source_error} if self.source_error else {}),
            **({"snapshots": [request.to_dict() for request in self.snapshots]} if self.snapshots else {}),
        }


def event_status(
    definition: EventDefinition, *, ask_source: bool = True, backlog: Backlog | None = None
) -> EventStatus:
    """Reads positions and counts of an event pipeline from its ledger, and asks its source what is left to read.

    Args:
        definition: the pipeline.
        ask_source: whether to ask the source; otherwise what is left to read is `backlog`, or that of the last heartbeat.
        backlog: the answer of the source, if it has been asked.

    Raises:
        ConfigError: the ledger belongs to another pipeline, or only Spark can reach it.
        SinkError: the ledger cannot be read.
    """
    latest, beat = read_ledger(definition).latest(), read_heartbeat(heartbeat_folder(definition))
    state = latest.state if latest else State()
    last = beat.backlog if beat is not None else None
    in_copy = beat is not None and state.source is None and beat.is_alive(datetime.now(UTC))
    source_error, opened = None, source(definition.source)
    try:
        if ask_source:
            backlog, source_error = _ask_backlog(opened, state.source)
        requests = copy_requests.unfinished(open_folder(definition, copy_requests.FOLDER), opened, state.source)
    finally:
        opened.close()
    binlog = has_binlog(definition)
    return EventStatus(
        definition.pipeline.name,
        latest.epoch if latest else 0,
        state.positions,
        state.counts.applied,
        state.counts.schema_changes,
        lag_of(state, last if in_copy else backlog or last, binlog=binlog),
        beat,
        source_error,
        binlog,
        requests,
    )


def event_lag_dict(lag: Lag, now: datetime) -> dict[str, Any]:
    """Returns `lag` in JSON, without what only pipelines into tables have."""
    return {name: value for name, value in lag.to_dict(now).items() if name not in _OF_TABLES}


def _ask_backlog(opened: Source, before: str | None) -> tuple[Backlog | None, str | None]:
    """Returns the backlog, and why the source does not answer.

    Inside of a snapshot the backlog is that of another one, with which the next run begins.
    """
    try:
        return opened.backlog(before), None
    except (ConfigError, SourceError) as error:
        return None, str(error)
