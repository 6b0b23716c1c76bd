"""`changefeed run`: runs a pipeline, once or continuously."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from changefeed.api.sessions import spark_for
from changefeed.api.signals import Stop, stop_on_signals
from changefeed.cli.moment import moment
from changefeed.cli.options import common, example, log_options, pipeline
from changefeed.cli.output import Output, many
from changefeed.cli.progress import RunProgress, event_words, table_words, troubles
from changefeed.spark_runtime import gateway

if TYPE_CHECKING:
    from changefeed.api.events import EventPipeline, EventProgress
    from changefeed.api.pipeline import Pipeline
    from changefeed.api.results import Progress, Summary, TableVersion
    from changefeed.pipeline.retry import Retry

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
    metavar="COMMIT_TS|TIME|GTID|FILE:POSITION",
    callback=moment,
    help="Bring all tables to exactly this point, then stop. A time includes its whole millisecond and is in UTC "
    "unless it has a zone. A GTID or a place in the binlog names a transaction (Debezium), a GTID set a checkpoint (DTS).",
)
@log_options
@common
@click.pass_obj
def run(output: Output, path: Path, once: bool, until: str | None) -> int:
    """Apply the changes of a source to the tables of a sink, or append them to an event sink.

    Continues from the pipeline's ledger, however the previous run ended. Ctrl-C or SIGTERM stops the run after the current
    step, with exit code 130 or 143; a second one stops it at once, which is safe too. Exit code 1 if --until was not
    reached because the source is not yet complete up to there. A pattern that matches no file is an error with --once;
    without it the run waits for the first file.
    """
    from changefeed.api.events import EventPipeline, load_pipeline

    if output.json and output.log_json:
        raise click.UsageError("--json already prints JSON: leave out --log-format json, or --json")
    pipeline = load_pipeline(path)
    if isinstance(pipeline, EventPipeline):
        if until is not None:
            raise click.UsageError(
                "--until is for pipelines to tables: an event pipeline appends all that the source has"
            )
        return _append(output, pipeline, once=once)
    point = None if until is None else pipeline.point(until)
    if not once and (missing := pipeline.missing()) is not None:
        _log.warning("%s yet; waiting for the first one", missing)
    if not output.json:
        output.note(f"{pipeline.name}: starting Spark, to read {pipeline.definition.source.reads}")
    with output.run_line() as line:
        if output.is_terminal:
            line.say(f"{pipeline.name}: starting Spark")
        if output.log_json:
            gateway.show = partial(_show_spark, output)
        with spark_for(pipeline.definition) as spark, stop_on_signals() as stop:
            words = partial(table_words, cuts=_has_cuts(pipeline), ages=not once)
            shown: RunProgress[Progress] = RunProgress(output, line, pipeline.name, words)
            done = pipeline.run(
                spark,
                once=once,
                until=point,
                begun=None if once else shown.begun,
                progress=shown.step,
                stopping=_announced(stop, output),
                retrying=_retrying(output),
                watching=shown.watch,
            )
    _tell(output, done, stop)
    if point is not None and not done.reached and stop.signal is None:
        output.error("UntilNotReached", why_not_reached(done, point), 1)
        return 1
    return stop.exit_code


def _show_spark(output: Output, level: int, logger: str, text: str) -> None:
    """Prints a line of Spark's JVM as one of the command's own."""
    output.note(text, level, logger=logger)


def _append(output: Output, pipeline: EventPipeline, *, once: bool) -> int:
    """Runs an event pipeline; returns the exit code."""
    if not output.json:
        output.note(f"{pipeline.name}: reading {pipeline.definition.source.reads}")
    with output.run_line() as line, stop_on_signals() as stop:
        shown: RunProgress[EventProgress] = RunProgress(
            output, line, pipeline.name, partial(event_words, ages=not once)
        )
        done = pipeline.run(
            once=once,
            begun=None if once else shown.begun,
            progress=shown.step,
            stopping=_announced(stop, output),
            retrying=_retrying(output),
            watching=shown.watch,
        )
    if output.json:
        output.document({"event": "summary", **done.to_dict(), "stopped_by": stop.signal and stop.signal.name})
    else:
        counts = f"{many(done.rows, 'row')} and {many(done.schema_changes, 'schema change')}"
        output.lines([f"{pipeline.name}: {counts} appended in {many(done.steps, 'step')} and {done.seconds:,.1f} s"])
    return stop.exit_code


def _has_cuts(pipeline: Pipeline) -> bool:
    return pipeline.definition.pipeline.consistency == "transaction"


def _announced(stop: Stop, output: Output) -> Callable[[], bool]:
    """A function that returns whether to stop, and announces that to people the first time."""
    announced: list[str] = []

    def stopping() -> bool:
        if stop.signal is not None and not announced:
            announced.append(stop.signal.name)
            if not output.json:
                output.note(f"{stop.signal.name}: stopping after this step; again to stop at once")
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
            turn = "until the source is back" if retry.limit is None else f"{retry.number} of {retry.limit}"
            output.note(f"{retry.error}; trying again in {retry.seconds:g} s ({turn})", logging.WARNING)

    return report


def _tell(output: Output, done: Summary, stop: Stop) -> None:
    """Prints the end of a run: JSON, or a table and a sentence."""
    if output.json:
        output.document({"event": "summary", **done.to_dict(), "stopped_by": stop.signal and stop.signal.name})
        return
    if done.tables and not output.log_json:
        rows = [(name, *_table(done, name, table), table.path) for name, table in done.tables.items()]
        output.table(("table", "version", "applied", "path"), rows)
    words = [
        f"{done.pipeline}: {many(done.applied, 'row')}"
        + (f" and {many(done.schema_changes, 'schema change')}" if done.schema_changes else ""),
        f"applied in {many(done.steps, 'step')} and {done.seconds:,.1f} s",
        *([f"({done.applied / max(done.busy_seconds, 0.001):,.0f} rows/s)"] if done.applied else []),
    ]
    lines = [" ".join(words), ", ".join([f"{many(done.counts.pending, 'row')} pending", *_held(done), *troubles(done)])]
    if output.log_json:
        output.note("; ".join(lines))
    else:
        output.lines(lines)


def _table(done: Summary, name: str, table: TableVersion) -> tuple[str, str]:
    """The versions before and after the run, and the last applied commit_ts."""
    from changefeed.pipeline.monitoring.cuts import cut_text

    old, version = table.before, table.version
    moved = f"{'new' if old is None else old} → {version}" if old != version else str(version)
    if table.held:
        state = "in quarantine" if name in done.quarantined else "not in the cut"
        return moved, f"{state} since {cut_text(table.held_after, binlog=done.binlog)}"
    return moved, cut_text(done.commit_ts, binlog=done.binlog) if done.commit_ts is not None else "everything read"


def _held(done: Summary) -> list[str]:
    """The partitions that hold the cut; tables and transactions are named with the other troubles."""
    from changefeed.pipeline.monitoring.holders import held_text

    return list(filter(None, [held_text(holder for holder in done.held_by if holder.kind == "partition")]))


def why_not_reached(done: Summary, until: int | str) -> str:
    """Returns why `until` was not reached, for people: it names the partition with the smallest resolved commit_ts."""
    from changefeed.pipeline.monitoring.cuts import cut_text
    from changefeed.pipeline.monitoring.holders import held_text

    wanted = until if isinstance(until, str) else cut_text(until, binlog=done.binlog)
    text = f"--until {wanted} was not reached, the tables are at {done.cut}: "
    if isinstance(until, str):
        return text + "that transaction or checkpoint has not been read completely. Run again when the source has it"
    if held := held_text(holder for holder in done.held_by if holder.way_out):
        return text + held
    marks = done.resolved
    if not marks:
        return text + "no record was read"
    (topic, partition), mark = min(marks.items(), key=lambda one: (one[1] or 0, one[0]))
    if mark is None:
        return (
            text + f"partition {partition} of {topic} has no resolved event, so earlier changes may still follow there"
        )
    if mark >= until:
        return text + "a partition without records has no resolved event either"
    return text + (
        f"the last resolved event in partition {partition} of {topic} is {cut_text(mark, binlog=done.binlog)}. Run again when "
        "the source has one at or above that point, or remove --until"
    )
