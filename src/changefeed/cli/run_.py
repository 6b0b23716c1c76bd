"""`changefeed run`: runs a pipeline, once or continuously."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from changefeed.cli.moment import moment, shown, time_of
from changefeed.cli.on_spark import spark_for
from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many
from changefeed.cli.signals import Stop, stop_on_signals

if TYPE_CHECKING:
    from changefeed.pipeline.config.definition import Definition
    from changefeed.pipeline.retry import Retry
    from changefeed.pipeline.run import Summary
    from changefeed.pipeline.state import State

_log = logging.getLogger(__name__)


@click.command(
    epilog=example(
        "changefeed run pipeline.yaml --once",
        "changefeed run pipeline.yaml --once --until 2026-03-01T12:00:00Z",
    )
)
@pipeline
@click.option("--once", is_flag=True, help="Apply what the source has now, then stop; without it, follow the source.")
@click.option(
    "--until",
    metavar="COMMIT_TS|TIME|GTID",
    callback=moment,
    help="Bring all tables to exactly this point, then stop. A time includes its whole millisecond and is in UTC "
    "unless it has a zone. A GTID names a transaction (Debezium), a GTID set a checkpoint (DTS).",
)
@common
@click.pass_obj
def run(output: Output, path: Path, once: bool, until: int | str | None) -> int:
    """Apply the changes of a source to the tables of a sink.

    Continues from the ledger in the sink, however the previous run ended. Ctrl-C or SIGTERM stops the run after the current
    step, with exit code 130 or 143; a second one stops it at once, which is safe too. Exit code 1 if --until was not
    reached because the source is not yet complete up to there. A pattern that matches no file is an error with --once;
    without it the run waits for the first file.
    """
    from changefeed.pipeline.config.load import load
    from changefeed.pipeline.run import run as run_pipeline
    from changefeed.sources import source

    definition = load(path)
    missing = source(definition.source).missing()
    if missing is not None and not once:
        _log.warning("%s yet; waiting for the first one", missing.what)
    if not output.json:
        output.note(f"{definition.pipeline.name}: starting Spark, to read {definition.source.reads}")
    with output.status("starting Spark") as say, spark_for(definition) as spark, stop_on_signals() as stop:
        steps = _Steps(output, say, lambda state: _waits_for(definition, state))
        stopping = _announced(stop, say)
        say(f"{definition.pipeline.name}: reading the ledger")
        done = run_pipeline(
            definition, spark, once=once, until=until, progress=steps, stopping=stopping, retrying=_retrying(output)
        )
        seconds = time.monotonic() - steps.began
    _tell(output, definition, done, stop, seconds)
    if until is not None and not done.reached and stop.signal is None:
        output.error("UntilNotReached", _why(done.state, until), 1)
        return 1
    return stop.exit_code


def _announced(stop: Stop, say: Callable[[str], None]) -> Callable[[], bool]:
    """A function that returns whether to stop, and announces it the first time."""
    announced: list[str] = []

    def stopping() -> bool:
        if stop.signal is not None and not announced:
            announced.append(stop.signal.name)
            say(f"{stop.signal.name}: stopping after this step; again to stop at once")
        return stop.signal is not None

    return stopping


def _retrying(output: Output) -> Callable[[Retry], None]:
    """A function that reports an error that will be retried, and the time of the next try."""

    def report(retry: Retry) -> None:
        error = {"type": type(retry.error).__name__, "message": str(retry.error)}
        if output.json:
            tries = {"number": retry.number, "of": retry.limit, "seconds": retry.seconds}
            output.document({"event": "retry", "error": error, **tries})
            output.flush()
        else:
            output.note(f"{retry.error}; trying again in {retry.seconds:g} s ({retry.number} of {retry.limit})")

    return report


class _Steps:
    """Reports every step. The rate leaves out the first step, which includes the start of Spark."""

    def __init__(self, output: Output, say: Callable[[str], None], waits_for: Callable[[State], list[str]]) -> None:
        self._output, self._say, self._waits_for = output, say, waits_for
        self.began = time.monotonic()
        self._first: tuple[float, int] | None = None

    def __call__(self, state: State) -> None:
        now, applied = time.monotonic(), state.counts.applied
        rate = None if self._first is None else round((applied - self._first[1]) / max(now - self._first[0], 0.001))
        self._first = self._first or (now, applied)
        if self._output.json:
            more = {"rows_per_second": rate, "waits_for": self._waits_for(state)}
            self._output.document({"event": "step", **_reached(state), **more})
            self._output.flush()
            return
        words = [
            f"{many(applied, 'row')} applied" + ("" if rate is None else f" ({rate:,}/s)"),
            f"{state.counts.pending:,} pending",
            f"{many(len(state.tables), 'table')} at {shown(state.barrier)}",
            *_troubles(state),
        ]
        if waits := self._waits_for(state):
            words.append(f"waiting for {', '.join(waits)}: no resolved event yet")
        self._say(", ".join(words))


def _waits_for(definition: Definition, state: State) -> list[str]:
    """The partitions that block the barrier because no resolved event was read from them; empty if none does."""
    from changefeed.pipeline.frontier.marks import holders
    from changefeed.sources import source

    opened = source(definition.source)
    marks = opened.capabilities.cuts == "marks"
    if definition.pipeline.consistency == "key" or not marks or not state.counts.pending:
        return []
    # Listing the partitions of a folder of logs would read all of them.
    asked = definition.source.type == "kafka" and state.source is not None
    partitions = opened.partitions(state.source or "") if asked else set()
    return [f"{topic}:{partition}" for topic, partition in holders(state, partitions)]


def _reached(state: State) -> dict[str, Any]:
    counts = {name: getattr(state.counts, name) for name in ("records", "rows", "applied", "repeated", "pending")}
    return {
        "commit_ts": state.barrier,
        "commit_time": time_of(state.barrier),
        "counts": {**counts, "schema_changes": state.counts.schema_changes, "dead": state.counts.dead},
        "tables": len(state.tables),
        "held": state.quarantined(),
    }


def _troubles(state: State) -> Iterator[str]:
    if state.counts.dead:
        yield many(state.counts.dead, "dead letter")
    if quarantined := state.quarantined():
        yield f"in quarantine: {', '.join(quarantined)}"
    if late := sorted(state.held.keys() - quarantined):
        yield f"not in the cut until their topics have caught up: {', '.join(late)}"


def _tell(output: Output, definition: Definition, done: Summary, stop: Stop, seconds: float) -> None:
    """Prints the end of a run: JSON, or a table and a sentence."""
    from changefeed.pipeline.paths import tables_folder

    root, state, before = tables_folder(definition), done.state, done.before
    applied = state.counts.applied - before.counts.applied
    if output.json:
        tables = {n: {"version": t.version, "path": f"{root}/{t.path}"} for n, t in sorted(state.tables.items())}
        run = {"pipeline": definition.pipeline.name, "epoch": done.epoch, "steps": done.steps, "reached": done.reached}
        ended = {"applied": applied, "seconds": round(seconds, 3), "stopped_by": stop.signal and stop.signal.name}
        output.document({"event": "summary", **run, **ended, **_reached(state), "tables": tables})
        return
    if state.tables:
        rows = [(name, *_table(state, before, name), f"{root}/{t.path}") for name, t in sorted(state.tables.items())]
        output.table(("table", "version", "applied", "path"), rows)
    changes = state.counts.schema_changes - before.counts.schema_changes
    words = [
        f"{definition.pipeline.name}: {many(applied, 'row')}"
        + (f" and {many(changes, 'schema change')}" if changes else ""),
        f"applied in {many(done.steps, 'step')} and {seconds:,.1f} s ({applied / max(seconds, 0.001):,.0f} rows/s)",
    ]
    output.lines([" ".join(words), ", ".join([f"{many(state.counts.pending, 'row')} pending", *_troubles(state)])])


def _table(state: State, before: State, name: str) -> tuple[str, str]:
    """The versions before and after the run, and the last applied commit_ts."""
    version = state.tables[name].version
    old = before.tables[name].version if name in before.tables else None
    moved = f"{'new' if old is None else old} → {version}" if old != version else str(version)
    if name in state.held:
        return moved, f"in quarantine since {shown(state.held[name].after)}"
    return moved, shown(state.barrier) if state.barrier is not None else "everything read"


def _why(state: State, until: int | str) -> str:
    """The reason why `until` was not reached: the partition with the smallest resolved commit_ts."""
    wanted = until if isinstance(until, str) else shown(until)
    text = f"--until {wanted} was not reached, the tables are at {shown(state.barrier)}: "
    if isinstance(until, str):
        return text + "that transaction or checkpoint has not been read completely. Run again when the source has it"
    marks = {(topic, p): state.resolved.get(topic, {}).get(p) for topic, of in state.positions.items() for p in of}
    if not marks:
        return text + "no record was read"
    (topic, partition), mark = min(marks.items(), key=lambda one: (one[1] or 0, one[0]))
    if mark is None:
        return (
            text + f"partition {partition} of {topic} has no resolved mark, so earlier changes may still follow there"
        )
    if mark >= until:
        return text + "a partition without records has no resolved mark either"
    return text + (
        f"the last resolved mark in partition {partition} of {topic} is {shown(mark)}. Run again when the source has "
        "one at or above that point, or leave --until out"
    )
