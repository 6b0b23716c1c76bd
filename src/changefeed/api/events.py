"""An event pipeline in Python: a source's changes, appended in order to an event sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.config.load import load_any, read_any
from changefeed.pipeline.events.explain import EventExplanation, explain_events
from changefeed.pipeline.events.status import EventStatus, event_lag_dict, event_status
from changefeed.pipeline.monitoring.holders import has_binlog
from changefeed.pipeline.monitoring.lag import NO_LAG, Lag, lag_of
from changefeed.pipeline.operations.check import CheckReport, checks
from changefeed.telemetry import observed

if TYPE_CHECKING:
    from changefeed.api.pipeline import Pipeline
    from changefeed.pipeline.monitoring.view import RunNow
    from changefeed.pipeline.operations.snapshot import Requested
    from changefeed.pipeline.retry import Retry
    from changefeed.pipeline.state import State


@dataclass(frozen=True, slots=True)
class EventProgress:
    """The state of an event pipeline after a step.

    Attributes:
        rows, schema_changes: number of changes that were appended since the pipeline began.
        position: where the source continues, in the source's own form; None inside of a snapshot.
        lag: the time of the newest change that was appended, and what is left to read.
        rows_per_second: row changes a second in this step; None if it is not known.
    """

    rows: int
    schema_changes: int
    position: str | None
    lag: Lag = NO_LAG
    rows_per_second: float | None = None

    @classmethod
    def of(cls, definition: EventDefinition, state: State, now: RunNow | None = None) -> EventProgress:
        """Creates the progress report of a pipeline's state; `now` has what only its run can supply."""
        lag = lag_of(state, now.backlog if now else None, binlog=has_binlog(definition))
        rate = now.rows_per_second if now else None
        return cls(state.counts.rows, state.counts.schema_changes, state.source, lag, rate)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields of a line `{"event": "step", …}` of `changefeed run --json`."""
        rate = None if self.rows_per_second is None else round(self.rows_per_second)
        counts = {"rows": self.rows, "schema_changes": self.schema_changes, "position": self.position}
        return {**counts, "lag": event_lag_dict(self.lag, datetime.now(UTC)), "rows_per_second": rate}

    def __str__(self) -> str:
        where = "inside of the snapshot" if self.position is None else f"up to {self.position}"
        return f"{self.rows:,} rows and {self.schema_changes:,} schema changes, {where}"


@dataclass(frozen=True, slots=True)
class EventSummary:
    """The result of a run of an event pipeline.

    Attributes:
        pipeline: the pipeline's name.
        epoch: the number of the run; each run of a pipeline has a higher one.
        steps: number of steps that the run did.
        rows, schema_changes: number of changes that the run appended.
        seconds: duration of the run.
        position: as in `EventProgress`.
    """

    pipeline: str
    epoch: int
    steps: int
    rows: int
    schema_changes: int
    seconds: float
    position: str | None

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes as JSON values."""
        return asdict(self)


class EventPipeline:
    """Appends the changes of a source to an event sink. It needs no Spark.

    Attributes:
        definition: the validated content of the YAML file; immutable.
    """

    def __init__(self, definition: EventDefinition) -> None:
        self.definition = definition

    @classmethod
    def from_dict(cls, definition: Mapping[str, Any], *, base: str | Path | None = None) -> EventPipeline:
        """Creates a pipeline from a dict with the sections and names of the YAML file.

        Args:
            definition: `{"source": {…}, "sink": {…}, "pipeline": {…}}`.
            base: the folder at which relative paths start; by default the current folder.

        Raises:
            ConfigError: some settings are invalid, or the sink is not an event sink.
        """
        known = read_any(dict(definition), base=Path.cwd() if base is None else Path(base))
        if not isinstance(known, EventDefinition):
            raise ConfigError("the sink has tables: use `Pipeline`")
        return cls(known)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.definition.pipeline.name

    def run(
        self,
        *,
        once: bool = True,
        begun: Callable[[EventProgress], None] | None = None,
        progress: Callable[[EventProgress], None] | None = None,
        stopping: Callable[[], bool] = lambda: False,
        retrying: Callable[[Retry], None] | None = None,
        watching: Callable[[RunNow], None] | None = None,
    ) -> EventSummary:
        """Appends the changes of the source, from where the last run ended.

        Args:
            once: stop when everything that the source has now is appended; otherwise follow it until `stopping`.
            begun: called once the run has taken the pipeline over, with where it goes on; after each retry, too.
            progress: called after every step.
            stopping: called between steps; once it returns True, the run ends.
            retrying: called before each wait for a retry, after a transient error.
            watching: called every second with what the run is doing, in a thread of its own; not for decisions.

        Raises:
            ConfigError: the pipeline cannot run as defined.
            FencedError: another run of the pipeline has taken over.
            UnsupportedError: the protocol cannot represent a change.
            SourceError, SinkError: source or sink failed, and all retries failed, too.
        """
        from changefeed.pipeline.events.run import run_events

        def report(state: State, now: RunNow) -> None:
            if progress is not None:
                progress(EventProgress.of(self.definition, state, now))

        def observe(place: str, facts: Mapping[str, Any]) -> None:
            if begun is not None and place == "run.begun":
                begun(EventProgress.of(self.definition, facts["state"]))

        began = time.monotonic()
        with observed(observe):
            done = run_events(
                self.definition, once=once, progress=report, stopping=stopping, retrying=retrying, watching=watching
            )
        return EventSummary(
            done.pipeline, done.epoch, done.steps, done.rows, done.schema_changes, time.monotonic() - began,
            done.source_offset,
        )  # fmt: skip

    def check(self) -> CheckReport:
        """Checks that the pipeline can run: its source, sink, folder and ledger. Leaves no files behind.

        Returns:
            The result of every check; `ok` is False if one failed. A failed check raises no error.
        """
        return CheckReport(tuple(checks(self.definition)))

    def explain(self) -> EventExplanation:
        """Explains what a run would do: its tables, where it begins, how often a change is appended. Changes nothing.

        Raises:
            ConfigError: the source or its server lacks a setting, or an option of the sink is wrong.
            SourceError: the source cannot be read.
        """
        return explain_events(self.definition)

    def snapshot(self, tables: Sequence[str], where: str | None = None) -> Requested:
        """Requests that rows of a server's tables are sent again, by the run that is alive or by the next one.

        Args:
            tables: names as `database.table`.
            where: a condition in the server's SQL, for a part of the rows; None: all of them.

        Raises:
            ConfigError: the source does not copy tables, or cannot copy these with this condition.
            AccessError, SourceError: the server refuses the user, or does not answer.
            SinkError: the request cannot be stored.
        """
        from changefeed.pipeline.operations.snapshot import snapshot

        return snapshot(self.definition, tables, where)

    def status(self, *, ask_source: bool = True) -> EventStatus:
        """Reads the pipeline's positions and counts from its ledger, and asks its source what is left to read.

        Args:
            ask_source: whether to ask the source. If it does not answer, the result contains the reason.

        Raises:
            ConfigError: the ledger belongs to another pipeline.
            SinkError: the ledger cannot be read.
        """
        return event_status(self.definition, ask_source=ask_source)


def load_pipeline(path: str | Path) -> Pipeline | EventPipeline:
    """Loads a pipeline from a YAML file: to tables, or to an event sink.

    Args:
        path: the file. Relative paths in it start at its folder; `${NAME}` is replaced by the environment variable.

    Raises:
        ConfigError: the file cannot be read, or has invalid settings; the message lists all of them.
    """
    definition = load_any(path)
    if isinstance(definition, EventDefinition):
        return EventPipeline(definition)
    from changefeed.api.pipeline import Pipeline

    return Pipeline(definition)
