"""The output of `changefeed run` while it runs: a line for people, or events in JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from changefeed.cli.output import Output, RunLine, many

if TYPE_CHECKING:
    from changefeed.api.results import Progress, Summary
    from changefeed.pipeline.monitoring.view import Failure, RunNow


class RunProgress:
    """Shows the steps of a run, and what it does in between.

    Args:
        output: of the command.
        line: the line of the run.
        pipeline: its name.
        cuts: whether the pipeline has cuts.
        ages: whether the age of the newest change is shown; it has no meaning for a run that does not follow its source.
    """

    def __init__(self, output: Output, line: RunLine, pipeline: str, *, cuts: bool, ages: bool) -> None:
        self._output, self._line, self._pipeline, self._cuts, self._ages = output, line, pipeline, cuts, ages
        self._reached = ""  # the newest step, for people
        self._down: Failure | None = None

    def step(self, reached: Progress) -> None:
        """Reports a step."""
        if self._output.json:
            self._output.document({"event": "step", **reached.to_dict()})
            self._output.flush()
        else:
            self._reached = ", ".join(self._words(reached))
            self._line.say(self._reached)

    def watch(self, now: RunNow) -> None:
        """Shows what the run does at this moment; called every second, in a thread of its own."""
        self._report_source(now.source_down)
        if self._output.json or now.ended:
            return
        done, total = now.done_of
        self._line.bar(done, None if total == done else total)
        if self._output.is_terminal:
            self._line.say(", ".join([f"{self._pipeline}: {_doing(now)}", *([self._reached] if self._reached else [])]))

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

    def _words(self, reached: Progress) -> Iterator[str]:
        from changefeed.pipeline.monitoring.holders import held_text
        from changefeed.pipeline.monitoring.lag import duration, to_read_words

        rate = reached.rows_per_second
        yield f"{many(reached.counts.applied, 'row')} applied" + ("" if rate is None else f" ({rate:,.0f}/s)")
        yield f"{reached.counts.pending:,} pending"
        yield many(reached.tables, "table") + (f" at {reached.cut}" if self._cuts else "")
        age = reached.lag.behind_now(datetime.now(UTC))
        if self._ages and age is not None:
            yield f"{duration(age)} behind"
        if reached.lag.records or reached.lag.bytes:
            yield from to_read_words(reached.lag)
        else:  # as long as there is more to read, nothing is held by anybody
            yield from filter(None, [held_text(h for h in reached.held_by if h.kind == "partition")])
        yield from troubles(reached)


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
