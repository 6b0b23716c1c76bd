"""The output of `changefeed run` while it runs: a line for people, or events in JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from typing import Protocol as TypingProtocol

from changefeed.cli.output import Output, RunLine, many

if TYPE_CHECKING:
    from changefeed.api.events import EventProgress
    from changefeed.api.results import Progress, Summary
    from changefeed.pipeline.monitoring.lag import Lag
    from changefeed.pipeline.monitoring.view import Failure, RunNow


class Report(TypingProtocol):
    """A report of a step."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        ...


R = TypeVar("R", bound=Report)


class RunProgress(Generic[R]):
    """Shows the steps of a run, and what it does in between.

    Args:
        output: of the command.
        line: the line of the run.
        pipeline: its name.
        words: makes the parts of the line for people of a report; `rate`: whether the rate of its step is one of them.
    """

    def __init__(self, output: Output, line: RunLine, pipeline: str, words: Callable[..., Iterable[str]]) -> None:
        self._output, self._line, self._pipeline, self._words = output, line, pipeline, words
        self._newest: R | None = None
        self._down: Failure | None = None

    def begun(self, reached: R) -> None:
        """Shows where the run goes on: with nothing to read, no step will."""
        self._newest = reached
        if not (self._output.json or self._output.is_terminal):
            self._line.say("at the start: " + ", ".join(self._words(reached)))

    def step(self, reached: R) -> None:
        """Reports a step."""
        if self._output.json:
            self._output.document({"event": "step", **reached.to_dict()})
            self._output.flush()
        else:
            self._newest = reached
            self._line.say(", ".join(self._words(reached)))

    def watch(self, now: RunNow) -> None:
        """Shows what the run does at this moment; called every second, in a thread of its own."""
        self._report_source(now.source_down)
        if self._output.json or now.ended:
            return
        done, total = now.done_of
        self._line.bar(done, None if total == done else total)
        self._line.tick()
        if self._output.is_terminal:
            # tables grow older while nothing comes
            newest = () if self._newest is None else self._words(self._newest, rate=False)
            self._line.say(", ".join([f"{self._pipeline}: {_doing(now)}", *newest]))

    def _report_source(self, down: Failure | None) -> None:
        """Reports that the source has fallen silent, or that it answers again."""
        if (down is None) == (self._down is None):
            return
        self._down = down
        if self._output.json:
            why = {} if down is None else {"since": down.since.isoformat(), "reason": down.reason}
            self._output.document({"event": "source", "answers": down is None, **why})
            self._output.flush()
        else:
            from changefeed.pipeline.monitoring.texts import failure_text

            if down is None:
                self._output.note("the source answers again")
            else:
                self._output.note(failure_text(down), logging.WARNING)


def table_words(reached: Progress, *, cuts: bool, ages: bool, rate: bool = True) -> Iterator[str]:
    """Yields the parts of the line for people after a step of a pipeline into tables.

    Args:
        reached: the report.
        cuts: whether the pipeline has cuts.
        ages: whether the age of the newest change is shown; it has no meaning for a run that does not follow its source.
        rate: whether the rate of the step is shown.
    """
    from changefeed.pipeline.monitoring.cuts import NO_CUT
    from changefeed.pipeline.monitoring.holders import held_text

    yield f"{many(reached.counts.applied, 'row')} applied{_rate(reached.rows_per_second if rate else None)}"
    yield f"{reached.counts.pending:,} pending"
    at = "" if not cuts else f", {NO_CUT}" if reached.cut == NO_CUT else f" at {reached.cut}"
    yield many(reached.tables, "table") + at
    yield from _lag_words(reached.lag, ages=ages)
    # as long as there is more to read, nothing is held by anybody
    if not reached.lag.records and not reached.lag.bytes:
        yield from filter(None, [held_text(h for h in reached.held_by if h.kind == "partition")])
    yield from troubles(reached)


def event_words(reached: EventProgress, *, ages: bool, rate: bool = True) -> Iterator[str]:
    """Yields the parts of the line for people after a step of an event pipeline; `ages` and `rate` as in `table_words`."""
    yield f"{many(reached.rows, 'row')} appended{_rate(reached.rows_per_second if rate else None)}"
    yield many(reached.schema_changes, "schema change")
    if reached.position is None:
        yield "inside of the first copy"
    yield from _lag_words(reached.lag, ages=ages)


def _rate(rows_per_second: float | None) -> str:
    return "" if rows_per_second is None else f" ({rows_per_second:,.0f}/s)"


def _lag_words(lag: Lag, *, ages: bool) -> Iterator[str]:
    from changefeed.pipeline.monitoring.lag import duration, to_read_words

    age = lag.behind_now(datetime.now(UTC))
    if ages and age is not None:
        yield f"{duration(age)} behind"
    if lag.records or lag.bytes:
        yield from to_read_words(lag)


def troubles(reached: Progress | Summary) -> Iterator[str]:
    """The troubles of a pipeline, for people."""
    if reached.counts.dead:
        yield many(reached.counts.dead, "dead letter")
    if reached.quarantined:
        yield f"in quarantine: {', '.join(reached.quarantined)}"
    if reached.late:
        yield f"not in the cut until their topics have caught up: {', '.join(reached.late)}"
    if reached.incomplete_transaction:
        yield reached.incomplete_transaction


def _doing(now: RunNow) -> str:
    """The stage of a run, for its line."""
    from changefeed.pipeline.monitoring.lag import duration
    from changefeed.pipeline.monitoring.texts import failure_text, speed_words

    if now.source_down is not None:
        return failure_text(now.source_down)
    length = now.at - now.stage_since
    doing = f"{now.stage} for {duration(length)}" if length.total_seconds() >= 2 else now.stage
    return ", ".join([doing, *speed_words(now)])
