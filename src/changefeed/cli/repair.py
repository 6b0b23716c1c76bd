"""`changefeed repair`: repairs tables, ledger or pending store that are not as the pipeline left them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many

if TYPE_CHECKING:
    from changefeed.pipeline.operations.repair import How


@click.command(
    epilog=example(
        "changefeed repair pipeline.yaml shop.orders --restore",
        "changefeed repair pipeline.yaml --all --rebuild && changefeed run pipeline.yaml",
    )
)
@pipeline
@click.argument("tables", metavar="[DATABASE.TABLE]…", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All tables of the pipeline; only with --rebuild.")
@click.option("--restore", "how", flag_value="restore", help="Restore the version that the ledger names.")
@click.option("--accept", "how", flag_value="accept", help="Keep the tables as they are, including what others wrote.")
@click.option("--rebuild", "how", flag_value="rebuild", help="Rebuild the tables from the source.")
@common
@click.pass_obj
def repair(output: Output, path: Path, tables: tuple[str, ...], every: bool, how: str | None) -> None:
    """Repair tables that the pipeline refuses to write to.

    A run stops when a table differs from the ledger: the table is gone, was restored to an old version, or was written to by
    another program. Choose which side is right: the ledger's version (--restore), the table (--accept), or the source
    (--rebuild). Rows that another program wrote are lost with --restore and --rebuild.

    With --all --rebuild the pipeline starts over: the next run reads the source from its beginning and replaces every table.
    Use it when the ledger or the pending store is damaged; delete the folder of a damaged ledger first. The source must
    still have all records, or start with a snapshot.
    """
    from changefeed.api.pipeline import Pipeline

    if how is None:
        raise click.UsageError("choose one of --restore, --accept and --rebuild")
    if every == bool(tables):
        raise click.UsageError("name the tables as database.table, or give --all")
    if every and how != "rebuild":
        raise click.UsageError(f"--all goes with --rebuild only: name the tables to {how}")
    wanted: How = "restore" if how == "restore" else "accept" if how == "accept" else "rebuild"
    result = Pipeline.load(path).repair("all" if every else tables, wanted)
    if output.json:
        output.document({"tables": list(result.tables), "how": how, "starts_over": result.starts_over})
        return
    if result.starts_over:
        output.lines(
            [f"the next run reads the source from its beginning, and replaces {many(len(result.tables), 'table')}"]
        )
        return
    done = {"restore": "restored", "accept": "accepted", "rebuild": "rebuilt"}[how]
    output.lines([f"{done} {name}" for name in result.tables])
