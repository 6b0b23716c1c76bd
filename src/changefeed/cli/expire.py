"""`changefeed expire`: the folders of renamed and dropped tables, deleted."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output

_AGE = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _age(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    found = _AGE.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no age such as 7d, 12h, 30m or 0s", ctx, param)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.command(
    epilog=example("changefeed expire pipeline.yaml --dry-run", "changefeed expire pipeline.yaml --older-than 30d")
)
@pipeline
@click.option(
    "--older-than",
    "age",
    metavar="AGE",
    default="7d",
    show_default=True,
    callback=_age,
    help="How long ago the newest cut must have stopped using a folder: 7d, 12h, 30m, 0s.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@common
@click.pass_obj
def expire(output: Output, path: Path, age: timedelta, dry_run: bool) -> None:
    """Delete the folders of renamed and dropped tables that only old cuts pin.

    Cuts that pin one of them are not offered by `status` any more. What the newest cut uses stays, and so does whatever
    this pipeline has not written. Safe beside a run of the pipeline.
    """
    from changefeed.pipeline.config.load import load
    from changefeed.pipeline.operations.expire import expire as expired

    found = expired(load(path), age, dry_run=dry_run)
    if output.json:
        said = {"dry_run": dry_run, "deleted": list(found.deleted), "kept": found.kept, "cuts": found.cuts}
        output.document(said)
        return
    output.lines([f"{'would delete' if dry_run else 'deleted'} {folder}" for folder in found.deleted])
    output.lines([f"kept {folder}: {why}" for folder, why in found.kept.items()])
    verb = "would be" if dry_run else "are"
    output.lines([f"{len(found.deleted)} folders; {found.cuts} cuts that pin them {verb} no longer offered"])
