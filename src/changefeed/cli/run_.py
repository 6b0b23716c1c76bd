"""`changefeed run`: a pipeline, once or for ever."""

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
@click.option("--once", is_flag=True, help="Apply what is there and stop; without it, follow the source.")
@click.option(
    "--until",
    metavar="COMMIT_TS|TIME|GTID",
    callback=moment,
    help="Bring all tables to exactly this point, then stop. A time counts with its whole millisecond, in UTC unless "
    "it says a zone. A GTID is a transaction's (Debezium), a GTID set a checkpoint's (DTS).",
)
@common
@click.pass_obj
def run(output: Output, path: Path, once: bool, until: int | str | None) -> int:
    """Apply the changes of a source to the tables of a sink.

    It goes on where the ledger in the sink says, whatever happened to the run before. Ctrl-C or SIGTERM ends it after
    the step that it is at, with exit code 130 or 143; a second one at once, which is safe too. Exit code 1 when --until
    was not reached, as the source has not promised yet to be complete up to there. A pattern that matches no file yet is
    an error with --once; without it the run says so and waits.
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
    """Whether to stop; says so the first time."""
    said: list[str] = []

    def stopping() -> bool:
        if stop.signal is not None and not said:
            said.append(stop.signal.name)
            say(f"{stop.signal.name}: stopping after this step; again to stop at once")
        return stop.signal is not None

    return stopping


def _retrying(output: Output) -> Callable[[Retry], None]:
    """Tells of an error that may pass, and when the next try is."""

    def tell(retry: Retry) -> None:
        said = {"type": type(retry.error).__name__, "message": str(retry.error)}
        if output.json:
            tries = {"number": retry.number, "of": retry.limit, "seconds": retry.seconds}
            output.document({"event": "retry", "error": said, **tries})
            output.flush()
        else:
            output.note(f"{retry.error}; trying again in {retry.seconds:g} s ({retry.number} of {retry.limit})")

    return tell


class _Steps:
    """Tells of every step. The rate is that of all steps but the first, which alone knows what was there before."""

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
            words.append(f"waits for {', '.join(waits)}: no resolved event yet")
        self._say(", ".join(words))


def _waits_for(definition: Definition, state: State) -> list[str]:
    """The partitions that hold the cut, as no resolved event of theirs was read; none when nothing waits."""
    from changefeed.pipeline.frontier.marks import holders
    from changefeed.sources import source

    opened = source(definition.source)
    marks = opened.capabilities.cuts == "marks"
    if definition.pipeline.consistency == "key" or not marks or not state.counts.pending:
        return []
    # To ask a folder of logs is to read them all.
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
        yield f"not in the cut before their topics have caught up: {', '.join(late)}"


def _tell(output: Output, definition: Definition, done: Summary, stop: Stop, seconds: float) -> None:
    """The end of a run: JSON, or a table and a sentence."""
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
    """From which version to which, and up to where."""
    version = state.tables[name].version
    old = before.tables[name].version if name in before.tables else None
    moved = f"{'new' if old is None else old} → {version}" if old != version else str(version)
    if name in state.held:
        return moved, f"in quarantine since {shown(state.held[name].after)}"
    return moved, shown(state.barrier) if state.barrier is not None else "all that was read"


def _why(state: State, until: int | str) -> str:
    """Why `until` was not reached: which partition promises the least."""
    wanted = until if isinstance(until, str) else shown(until)
    text = f"--until {wanted} was not reached, the tables are at {shown(state.barrier)}: "
    if isinstance(until, str):
        return text + "no such transaction or checkpoint was read completely. Run again when the source has it"
    marks = {(topic, p): state.resolved.get(topic, {}).get(p) for topic, of in state.positions.items() for p in of}
    if not marks:
        return text + "no record was read"
    (topic, partition), mark = min(marks.items(), key=lambda one: (one[1] or 0, one[0]))
    if mark is None:
        return (
            text + f"partition {partition} of {topic} has no resolved mark, so nobody knows what is still to come there"
        )
    if mark >= until:
        return text + "a partition that no record has come from has no resolved mark either"
    return text + (
        f"the last resolved mark in partition {partition} of {topic} is {shown(mark)}. Run again when the source has "
        "one at or beyond that point, or leave --until out"
    )
