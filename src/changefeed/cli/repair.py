"""`changefeed repair`: ways back when tables, ledger or pending store are not as the pipeline left them."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.on_spark import spark_for
from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output


@click.command(
    epilog=example(
        "changefeed repair pipeline.yaml shop.orders --restore",
        "changefeed repair pipeline.yaml --all --rebuild && changefeed run pipeline.yaml",
    )
)
@pipeline
@click.argument("tables", metavar="[DATABASE.TABLE]…", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All tables of the pipeline; only with --rebuild.")
@click.option("--restore", "how", flag_value="restore", help="Give the tables the rows of the ledger's version.")
@click.option("--accept", "how", flag_value="accept", help="Take the tables as they are, with what others wrote.")
@click.option("--rebuild", "how", flag_value="rebuild", help="Build the tables anew from the source.")
@common
@click.pass_obj
def repair(output: Output, path: Path, tables: tuple[str, ...], every: bool, how: str | None) -> None:
    """Repair tables that the pipeline refuses to write on.

    A run stops when a table is not what the ledger says: it is gone, was restored to an old version, or somebody else has
    written to it. Choose what counts: the ledger's version (--restore), the table (--accept), or the source (--rebuild).
    Rows that somebody else wrote are lost with --restore and --rebuild.

    With --all --rebuild the pipeline starts over: the next run reads the source from its beginning and replaces every table.
    It is the way back when the ledger or the pending store is damaged; of a damaged ledger delete the folder first. The
    source must still have everything, or begin with a snapshot.
    """
    from changefeed.pipeline.config.load import load
    from changefeed.pipeline.operations.repair import How, start_over
    from changefeed.pipeline.operations.repair import repair as repaired

    if how is None:
        raise click.UsageError("choose one of --restore, --accept and --rebuild")
    if every == bool(tables):
        raise click.UsageError("name the tables as database.table, or give --all")
    if every and how != "rebuild":
        raise click.UsageError(f"--all goes with --rebuild only: name the tables to {how}")
    definition, chosen = load(path), how
    with spark_for(definition) as spark:
        wanted: How = "restore" if chosen == "restore" else "accept" if chosen == "accept" else "rebuild"
        found = start_over(definition, spark) if every else repaired(definition, spark, tables, wanted)
    if output.json:
        output.document({"tables": list(found.tables), "how": how, "starts_over": found.starts_over})
        return
    if found.starts_over:
        output.lines([f"{len(found.tables)} tables will be replaced: the next run reads the source from its beginning"])
        return
    done = {"restore": "restored", "accept": "accepted", "rebuild": "rebuilt"}[how]
    output.lines([f"{done} {name}" for name in found.tables])
