"""`changefeed status`: the progress of a pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many

if TYPE_CHECKING:
    from changefeed.pipeline.events.status import EventStatus
    from changefeed.pipeline.operations.status import Status
    from changefeed.sources.copies import CopyRequest


def _cuts(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "all":
        return value
    if not (value.isascii() and value.isdecimal() and int(value)):
        raise click.BadParameter(f"{value!r} is neither a number of cuts nor `all`", ctx, param)
    return int(value)


@click.command(
    epilog=example(
        "changefeed status pipeline.yaml",
        "changefeed status pipeline.yaml --watch",
        "changefeed status pipeline.yaml --json --cuts all",
    )
)
@pipeline
@click.option(
    "--cuts",
    metavar="NUMBER|all",
    callback=_cuts,
    help="How many of the newest cuts to show; left out, one for people and a hundred with --json.",
)
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two looks of --watch.",
)
@click.option("--no-source", is_flag=True, help="Do not ask the source what is left to read.")
@common
@click.pass_obj
def status(output: Output, path: Path, cuts: int | str | None, watch: bool, interval: float, no_source: bool) -> None:
    """Show the progress of a pipeline: its cuts, how far they are behind, what they wait for, and whether a run is alive.

    A cut is a set of table versions that belong together: read at these versions, the tables are in one state that the
    upstream had. All of it comes from the pipeline's folder, from any machine; only what is left to read is asked of the
    source. Spark is started only if the sink's file system cannot be reached without it.
    """
    from changefeed.api.events import EventPipeline, load_pipeline
    from changefeed.pipeline.operations.status import NEWEST

    opened = load_pipeline(path)
    number = None if isinstance(cuts, str) else cuts or (NEWEST if output.json else 1)
    while True:
        report: Status | EventStatus
        if isinstance(opened, EventPipeline):
            report = opened.status(ask_source=not no_source)
        else:
            report = opened.status(number, ask_source=not no_source)
        if watch and output.is_terminal:
            click.clear()
        _show(output, report)
        if not watch:
            return
        time.sleep(interval)


def _show(output: Output, report: Status | EventStatus) -> None:
    from changefeed.pipeline.events.status import EventStatus

    if output.json:
        output.document(report.to_dict())
    elif not report.epoch:
        output.lines([f"{report.pipeline} has not run yet"])
    elif isinstance(report, EventStatus):
        _show_events(output, report)
    else:
        _show_tables(output, report)


def _show_events(output: Output, report: EventStatus) -> None:
    from changefeed.pipeline.monitoring.cuts import offset_text

    rows = [
        (topic, str(number), offset_text(offset, binlog=report.binlog))
        for topic, of in report.positions.items()
        for number, offset in of.items()
    ]
    if rows:
        output.table(("topic", "partition", "next offset"), rows)
        output.lines([""])
    else:
        output.lines(["inside of the first copy: a run that ends there begins it again", ""])
    counts = f"{many(report.rows, 'row')} appended, {many(report.schema_changes, 'schema change')}"
    requests = [_copy_text(request) for request in report.snapshots]
    output.lines([*_facts(report), *requests, "", f"{report.pipeline}, epoch {report.epoch}: {counts}"])


def _show_tables(output: Output, report: Status) -> None:
    from changefeed.pipeline.monitoring.cuts import cut_text
    from changefeed.pipeline.monitoring.holders import held_text
    from changefeed.pipeline.monitoring.texts import clock_text, pending_text
    from changefeed.pipeline.operations.status import listed

    cuts = [(cut_text(cut.commit_ts, cut.name, binlog=report.binlog), cut.tables) for cut in report.cuts]
    rows = [(cut, name, str(version)) for cut, tables in cuts for name, version in sorted(tables.items())]
    if rows:
        output.table(("cut", "table", "version"), rows)
        output.lines([""])
    if report.positions:
        output.table(("topic", "partition", "next offset", "left to read"), _positions(report))
        output.lines([""])
    if report.not_captured:
        output.lines([f"not captured, known by DDL alone: {', '.join(report.not_captured)}", ""])
    if report.old_folders:
        folders = listed(report.old_folders)
        output.lines([f"no tables any more, kept for older cuts until `changefeed expire`: {folders}", ""])
    if report.incomplete_transaction:
        output.lines([report.incomplete_transaction, ""])
    held = held_text(report.held_by, clock_text(report.held_since) if report.held_since else None)
    pending = f"pending {pending_text(report.pending_by_table)}" if report.pending_by_table else ""
    output.lines(
        [*_facts(report), *map(_copy_text, report.snapshots), *filter(None, [pending, held]), "", _counts(report)]
    )


def _copy_text(request: CopyRequest) -> str:
    condition = "" if request.where is None else f", only rows with {request.where}"
    return f"copies  {', '.join('.'.join(name) for name in request.tables)} again{condition}: requested, not complete"


def _facts(report: Status | EventStatus) -> Iterator[str]:
    """The run, the source and the lag: a line each."""
    from changefeed.pipeline.monitoring.lag import lag_text
    from changefeed.pipeline.monitoring.texts import failure_text, run_text

    now = datetime.now(UTC)
    if report.run is not None:
        yield f"run     {run_text(report.run, now)}"
    if report.run is not None and report.run.is_alive(now) and report.run.source_down is not None:
        yield f"source  {failure_text(report.run.source_down)}"
    elif report.source_error:
        yield f"source  {report.source_error}"
    yield f"lag     {lag_text(report.lag, now) or 'nothing is known to be left'}"


def _counts(report: Status) -> str:
    counts = report.counts
    return (
        f"{report.pipeline}, epoch {report.epoch}: {many(counts.records, 'record')}, {many(counts.rows, 'row')}: "
        f"{counts.applied:,} applied, {counts.repeated:,} repeated, {report.pending:,} pending; "
        f"{many(counts.schema_changes, 'schema change')}, {many(report.dead_letters, 'dead letter')}"
    )


def _positions(report: Status) -> Iterator[tuple[str, str, str, str]]:
    from changefeed.pipeline.monitoring.cuts import offset_text

    left = report.lag.partitions or {}
    offsets = {(topic, p): offset for topic, of in report.positions.items() for p, offset in of.items()}
    for topic, p in sorted(offsets.keys() | left.keys()):
        records, offset = left.get((topic, p)), offsets.get((topic, p))
        shown = "" if offset is None else offset_text(offset, binlog=report.binlog)
        yield topic, str(p), shown, "" if records is None else f"{records:,}"
