"""`changefeed status`: the progress of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from changefeed.cli.moment import shown
from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many

if TYPE_CHECKING:
    from changefeed.pipeline.operations.status import Status


def _cuts(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "all":
        return value
    if not (value.isascii() and value.isdecimal() and int(value)):
        raise click.BadParameter(f"{value!r} is neither a number of cuts nor `all`", ctx, param)
    return int(value)


@click.command(epilog=example("changefeed status pipeline.yaml", "changefeed status pipeline.yaml --json --cuts all"))
@pipeline
@click.option(
    "--cuts",
    metavar="NUMBER|all",
    callback=_cuts,
    help="How many of the newest cuts to show; left out, one for people and a hundred with --json.",
)
@common
@click.pass_obj
def status(output: Output, path: Path, cuts: int | str | None) -> None:
    """Show the progress of a pipeline, from its ledger.

    A cut is a set of table versions that belong together: read at these versions, the tables are in one state that the
    upstream had. Spark is started only if the sink's file system cannot be reached without it.
    """
    from changefeed.api.pipeline import Pipeline
    from changefeed.pipeline.operations.status import NEWEST, listed

    number = NEWEST if output.json else 1
    report = Pipeline.load(path).status(None if isinstance(cuts, str) else cuts or number)
    if output.json:
        output.document(report.to_dict())
        return
    if not report.epoch:
        output.lines([f"{report.pipeline} has not run yet"])
        return
    rows = [(shown(cut.commit_ts), name, str(v)) for cut in report.cuts for name, v in sorted(cut.tables.items())]
    if rows:
        output.table(("cut", "table", "version"), rows)
        output.lines([""])
    if report.positions:
        output.table(("topic", "partition", "next offset"), _positions(report))
        output.lines([""])
    if report.not_captured:
        output.lines([f"not captured, known by DDL alone: {', '.join(report.not_captured)}", ""])
    if report.old_folders:
        folders = listed(report.old_folders)
        output.lines([f"no tables any more, kept for older cuts until `changefeed expire`: {folders}", ""])
    if report.incomplete_transaction:
        output.lines([report.incomplete_transaction, ""])
    counts = report.counts
    output.lines(
        [
            f"{report.pipeline}, epoch {report.epoch}: {many(counts.records, 'record')}, {many(counts.rows, 'row')}: "
            f"{counts.applied:,} applied, {counts.repeated:,} repeated, {report.pending:,} pending; "
            f"{many(counts.schema_changes, 'schema change')}, {many(report.dead_letters, 'dead letter')}",
        ]
    )


def _positions(report: Status) -> list[tuple[str, str, str]]:
    return [(topic, str(p), str(offset)) for topic, of in report.positions.items() for p, offset in of.items()]
