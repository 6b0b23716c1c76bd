"""`changefeed status`: how far a pipeline is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from changefeed.cli.moment import shown
from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many


@click.command(epilog=example("changefeed status pipeline.yaml", "changefeed status pipeline.yaml --json --cuts 1"))
@pipeline
@click.option(
    "--cuts",
    type=click.IntRange(min=1),
    help="How many of the newest cuts to show; left out, one for people and all with --json.",
)
@common
@click.pass_obj
def status(output: Output, path: Path, cuts: int | None) -> None:
    """Show how far a pipeline is, from its ledger.

    A cut is a version of every table that belong together: read at these versions, the tables are in one state that the
    upstream had. Spark is started only where the sink's file system cannot be reached without it.
    """
    from changefeed.cli.on_spark import asked
    from changefeed.pipeline.load import load
    from changefeed.pipeline.status import status as status_of

    definition = load(path)
    found = asked(definition, lambda: status_of(definition))
    if output.json:
        output.document(found if cuts is None else {**found, "cuts": found["cuts"][-cuts:]})
        return
    if not found["epoch"]:
        output.lines([f"{found['pipeline']} has not run yet"])
        return
    newest = found["cuts"][-(cuts or 1) :]
    rows = [(shown(cut["commit_ts"]), name, str(v)) for cut in newest for name, v in sorted(cut["tables"].items())]
    if rows:
        output.table(("cut", "table", "version"), rows)
        output.lines([""])
    if found["positions"]:
        output.table(("topic", "partition", "next offset"), _positions(found))
        output.lines([""])
    counts = found["counts"]
    output.lines(
        [
            f"{found['pipeline']}, epoch {found['epoch']}: {many(counts['records'], 'record')}, {many(counts['rows'], 'row')}: "
            f"{counts['applied']:,} applied, {counts['repeated']:,} repeated, {found['pending']:,} pending; "
            f"{many(counts['schema_changes'], 'schema change')}, {many(found['dead_letters'], 'dead letter')}",
        ]
    )


def _positions(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(topic, p, str(offset)) for topic, of in found["positions"].items() for p, offset in of.items()]
