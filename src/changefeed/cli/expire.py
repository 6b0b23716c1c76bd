"""`changefeed expire`: deletes the folders of renamed and dropped tables."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import click

from changefeed.cli.options import common, example, pipeline
from changefeed.cli.output import Output, many

_AGE = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _age(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    match = _AGE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not an age such as 7d, 12h, 30m or 0s", ctx, param)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


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
    help="Minimum time since a cut last used a folder: 7d, 12h, 30m, 0s.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@common
@click.pass_obj
def expire(output: Output, path: Path, age: timedelta, dry_run: bool) -> None:
    """Delete the folders of renamed and dropped tables that only old cuts use.

    `status` no longer shows cuts that use a deleted folder. Folders of the newest cut are kept, and so are folders that this
    pipeline has not written. Safe while the pipeline runs.
    """
    from changefeed.api.pipeline import Pipeline

    result = Pipeline.load(path).expire(age, dry_run=dry_run)
    if output.json:
        document = {"dry_run": dry_run, "deleted": list(result.deleted), "kept": result.kept, "cuts": result.cuts}
        output.document(document)
        return
    output.lines([f"{'would delete' if dry_run else 'deleted'} {folder}" for folder in result.deleted])
    output.lines([f"kept {folder}: {why}" for folder, why in result.kept.items()])
    show = "would no longer show" if dry_run else "no longer shows"
    output.lines([f"{many(len(result.deleted), 'folder')}; `status` {show} {many(result.cuts, 'cut')} that used them"])
