"""`changefeed dlq`: the dead letters of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from changefeed.cli.hexdump import hexdump
from changefeed.cli.options import Commands, common, example, pipeline
from changefeed.cli.output import Output, many
from changefeed.errors import ConfigError

if TYPE_CHECKING:
    from changefeed.api.dead_letters import KeptDeadLetter
    from changefeed.pipeline.operations.replay import Outcome

_LINES = 6  # of a dump, before and after the offending byte


@click.group(cls=Commands)
def dlq() -> None:
    """List dead letters (records that could not be decoded), show them, and replay them."""


@dlq.command("list", epilog=example("changefeed dlq list pipeline.yaml"))
@pipeline
@click.option("--all", "replayed", is_flag=True, help="Include dead letters that have been replayed.")
@common
@click.pass_obj
def list_(output: Output, path: Path, replayed: bool) -> None:
    """List the dead letters that have not been replayed; with --json one object per line."""
    from changefeed.api.pipeline import Pipeline

    rows = [letter.summary() for letter in Pipeline.load(path).dead_letters(replayed=replayed)]
    if output.json:
        for letter in rows:
            output.document(letter)
    elif rows:
        shown = ("id", "position", "reason", "table", "error")
        output.table(shown, [[letter[name] or "" for name in shown] for letter in rows])
    else:
        output.lines(["no dead letters"])


@dlq.command(epilog=example("changefeed dlq show pipeline.yaml orders:3:118204"))
@pipeline
@click.argument("which", metavar="ID|POSITION")
@click.option("--whole", is_flag=True, help="Show all bytes, not only those around the offending one.")
@common
@click.pass_obj
def show(output: Output, path: Path, which: str, whole: bool) -> None:
    """Show a dead letter with its error, position and bytes.

    ID is the one in `changefeed dlq list`: the beginning of the SHA-256 of the record's bytes. Letters with the same
    bytes share it.
    """
    from changefeed.api.pipeline import Pipeline

    chosen = [letter for letter in Pipeline.load(path).dead_letters(replayed=True) if letter.has(which)]
    if not chosen:
        raise ConfigError(f"no dead letter has the id or position {which}; `changefeed dlq list --all` shows them")
    for letter in chosen:
        if output.json:
            output.document(letter.to_dict())
        else:
            output.lines(_for_people(letter, None if whole else _LINES))


@dlq.command(
    epilog=example(
        "changefeed dlq replay pipeline.yaml --dry-run",
        "changefeed dlq replay pipeline.yaml --position orders:3:118204",
    )
)
@pipeline
@click.option(
    "--position", "positions", metavar="POSITION", multiple=True, help="Replay only this dead letter; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@common
@click.pass_obj
def replay(output: Output, path: Path, positions: tuple[str, ...], dry_run: bool) -> int:
    """Decode dead letters again, with the current options of the pipeline, and apply their changes.

    A quarantined table is released when its last dead letter is replayed, and catches up. For a table that was not
    quarantined (dead-letters: continue), only changes above the barrier are applied; the others came too late and are
    counted as repeated. With consistency `key` there is no barrier: all of them came too late.

    Exit code 3 if a letter still cannot be decoded. A run in progress is stopped, as it is by a second run.
    """
    from changefeed.api.pipeline import Pipeline

    with output.status("replay"):
        outcome = Pipeline.load(path).replay(positions, dry_run=dry_run)
    if output.json:
        output.document({"dry_run": dry_run, **outcome.to_dict()})
    else:
        output.lines(_summary(outcome, dry_run))
    return 3 if outcome.dead else 0


def _for_people(letter: KeptDeadLetter, around: int | None) -> Iterator[str]:
    fields = {
        **letter.summary(),
        "protocol": letter.protocol,
        "schema id": letter.schema_id,
        "sha256": letter.sha256,
    }
    yield from (f"{name:<10} {value}" for name, value in fields.items() if value is not None)
    for header, value in letter.headers:
        yield f"header     {header}: {value!r}"
    # The error has a byte, but not whether it is in the key or the value: mark it in both if both are long enough.
    byte = letter.byte
    for name, data in (("key", letter.key), ("value", letter.value)):
        yield f"{name:<10} " + ("none" if data is None else f"{len(data)} bytes")
        if data is not None:
            yield from hexdump(data, byte if byte is not None and byte <= len(data) else None, around)
    yield ""


def _summary(outcome: Outcome, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    if not (outcome.letters or outcome.dead or outcome.unread or outcome.released or outcome.unfinished):
        yield "no dead letters"
        return
    yield f"{many(len(outcome.letters), 'dead letter')} {would}replayed: {many(outcome.rows, 'row')} to apply"
    for table in sorted(outcome.released):
        yield f"{table} {would}released from quarantine"
    for table, rows in sorted(outcome.late.items()):
        yield (
            f"not applied: {many(rows, 'row')} of {table} at or below the barrier, which could overwrite newer rows. "
            "The table differs from the upstream until a new snapshot. To hold tables back instead, set "
            "`dead-letters: quarantine`"
        )
    if outcome.late_schema_changes:
        yield f"not applied: {many(outcome.late_schema_changes, 'schema change')} at or below the barrier"
    if outcome.unread:
        yield f"not replayed: {many(outcome.unread, 'dead letter')} of records that the next `changefeed run` reads again"
    for letter in outcome.dead:
        yield f"still dead: {letter.error}"
