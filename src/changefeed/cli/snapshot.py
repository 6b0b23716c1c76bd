"""`changefeed snapshot`: copies tables of a database again."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output


@click.command(
    epilog=example(
        "changefeed snapshot pipeline.yaml shop.orders",
        "changefeed snapshot pipeline.yaml shop.orders --where \"created >= '2026-11-01'\"",
    )
)
@pipeline
@click.argument("tables", metavar="DATABASE.TABLE…", nargs=-1, required=True)
@click.option(
    "--where",
    metavar="CONDITION",
    help="Copy only the rows for which this SQL condition of the server holds; no row is removed.",
)
@common
@click.pass_obj
def snapshot(output: Output, path: Path, tables: tuple[str, ...], where: str | None) -> None:
    """Copy tables of a MySQL or MariaDB server again, or send their rows again, while the pipeline follows its log.

    The request is stored in the pipeline's folder, and the command returns. The run that is alive, or else the next one, copies
    the tables as in a first copy; the next cut has them whole. Without a condition, the rows replace those of the table:
    rows that the server does not have are gone. With a condition, they are merged by their keys.

    An event pipeline sends the rows, or those for which the condition holds, with the operation `r` of a snapshot.

    `changefeed status` shows the requests that are not complete.
    """
    from changefeed.api.events import EventPipeline, load_pipeline

    pipeline = load_pipeline(path)
    result = pipeline.snapshot(tables, where)
    if output.json:
        output.document(result.to_dict())
        return
    names = ", ".join(".".join(name) for name in result.request.tables)
    who = "the run that is alive" if result.running else "the next run"
    does = "sends the rows of" if isinstance(pipeline, EventPipeline) else "copies"
    output.lines([f"requested: {who} {does} {names} again"])
