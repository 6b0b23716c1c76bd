"""`changefeed dlq`: the dead letters of a pipeline."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from changefeed.cli.hexdump import hexdump
from changefeed.cli.moment import iso
from changefeed.cli.on_spark import asked, spark_for, through
from changefeed.cli.options import Commands, common, example, pipeline
from changefeed.cli.output import Output
from changefeed.errors import ConfigError

if TYPE_CHECKING:
    from changefeed.pipeline.operations.replay import Found

_ID_LETTERS = 12
_LINES = 6  # of a dump, before and after the offending byte


@click.group(cls=Commands)
def dlq() -> None:
    """Look at records that could not be decoded, and feed them back."""


@dlq.command("list", epilog=example("changefeed dlq list pipeline.yaml"))
@pipeline
@click.option("--all", "replayed", is_flag=True, help="Those that have been replayed, too.")
@common
@click.pass_obj
def list_(output: Output, path: Path, replayed: bool) -> None:
    """Show the dead letters that wait; with --json an object a line."""
    from changefeed.pipeline.config.load import load
    from changefeed.pipeline.dead_letters import letters

    definition = load(path)
    found = [_short(letter) for letter in asked(definition, lambda: letters(definition, replayed=replayed))]
    if output.json:
        for letter in found:
            output.document(letter)
    elif found:
        shown = ("id", "position", "reason", "table", "error")
        output.table(shown, [[letter[name] or "" for name in shown] for letter in found])
    else:
        output.lines(["no dead letters wait"])


@dlq.command(epilog=example("changefeed dlq show pipeline.yaml orders:3:118204"))
@pipeline
@click.argument("which", metavar="ID|POSITION")
@click.option("--whole", is_flag=True, help="All bytes, not only those around the offending one.")
@common
@click.pass_obj
def show(output: Output, path: Path, which: str, whole: bool) -> None:
    """Show all that is known of a dead letter, and its bytes.

    ID is the one of `changefeed dlq list`: the beginning of the SHA-256 of the record's bytes, so letters of the same
    bytes share it.
    """
    from changefeed.pipeline.config.load import load
    from changefeed.pipeline.dead_letters import letters

    definition = load(path)
    found = [one for one in asked(definition, lambda: letters(definition, replayed=True)) if _is(one, which)]
    if not found:
        raise ConfigError(f"no dead letter has the id or position {which}; `changefeed dlq list --all` shows them")
    for letter in found:
        if output.json:
            output.document(_everything(letter))
        else:
            output.lines(_for_people(letter, None if whole else _LINES))


@dlq.command(
    epilog=example(
        "changefeed dlq replay pipeline.yaml --dry-run",
        "changefeed dlq replay pipeline.yaml --position orders:3:118204",
    )
)
@pipeline
@click.option("--position", "positions", metavar="POSITION", multiple=True, help="This letter alone; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@common
@click.pass_obj
def replay(output: Output, path: Path, positions: tuple[str, ...], dry_run: bool) -> int:
    """Decode dead letters again, with the options that the pipeline has now, and apply what they hold.

    A table in quarantine is released when its last letter is replayed, and caught up. A table that went on
    (dead-letters: continue) takes only what lies above the barrier; what is below came too late and is counted as
    repeated.

    Exit code 3 when a letter still cannot be decoded. A run that is going on is stopped, as by a second run.
    """
    from changefeed.pipeline.config.load import load
    from changefeed.pipeline.operations.replay import look
    from changefeed.pipeline.operations.replay import replay as replay_letters

    definition = load(path)
    found = asked(definition, lambda: look(definition, positions))
    if not dry_run and (found.letters or found.released or found.unfinished):
        with output.status("starting Spark"), spark_for(definition) as spark, through(definition, spark):
            found = replay_letters(definition, spark, positions).found
    if output.json:
        output.document(_result(found, dry_run))
    else:
        output.lines(_told(found, dry_run))
    return 3 if found.dead else 0


def _table(letter: dict[str, Any]) -> str | None:
    return None if letter["table"] is None else f"{letter['database']}.{letter['table']}"


def _is(letter: dict[str, Any], which: str) -> bool:
    from changefeed.pipeline.dead_letters import position

    record = f"{letter['topic']}:{letter['partition']}:{letter['offset']}"
    return which in (record, position(letter)) or (len(which) >= 6 and letter["sha256"].startswith(which))


def _short(letter: dict[str, Any]) -> dict[str, Any]:
    from changefeed.pipeline.dead_letters import position

    return {
        "id": letter["sha256"][:_ID_LETTERS],
        "position": position(letter),
        "reason": letter["reason"],
        "table": _table(letter),
        "error": letter["error"],
        "byte": letter["byte"],
        "at": iso(letter["at"]),
        "replayed": letter["replayed"] and iso(letter["replayed"]),
    }


def _everything(letter: dict[str, Any]) -> dict[str, Any]:
    headers = [[header["key"], _base64(header["value"])] for header in letter["headers"] or ()]
    said = {name: letter[name] for name in ("pipeline", "protocol", "schema_id", "sha256")}
    return {
        **_short(letter),
        **said,
        "key": _base64(letter["key"]),
        "value": _base64(letter["value"]),
        "headers": headers,
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _for_people(letter: dict[str, Any], around: int | None) -> Iterator[str]:
    said = {
        **_short(letter),
        "protocol": letter["protocol"],
        "schema id": letter["schema_id"],
        "sha256": letter["sha256"],
    }
    yield from (f"{name:<10} {value}" for name, value in said.items() if value is not None)
    for header in letter["headers"] or ():
        yield f"header     {header['key']}: {header['value']!r}"
    # A byte is told without saying whether of key or value: point at it wherever it can be.
    for name in ("key", "value"):
        data, byte = letter[name], letter["byte"]
        yield f"{name:<10} " + ("none" if data is None else f"{len(data)} bytes")
        if data is not None:
            yield from hexdump(data, byte if byte is not None and byte <= len(data) else None, around)
    yield ""


def _result(found: Found, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "replayed": found.letters,
        "rows": found.rows,
        "late": found.late,
        "late_schema_changes": found.late_schema_changes,
        "released": sorted(found.released),
        "unread": found.unread,
        "dead": [{"position": str(one.place), "reason": one.reason, "error": one.error} for one in found.dead],
    }


def _told(found: Found, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    if not (found.letters or found.dead or found.unread or found.released or found.unfinished):
        yield "no dead letters wait"
        return
    yield f"{len(found.letters):,} letters {would}replayed: {found.rows:,} rows to apply"
    for table in sorted(found.released):
        yield f"{table} {would}released from quarantine"
    for table, rows in sorted(found.late.items()):
        yield (
            f"{table} went on without {rows:,} of the rows: they are at or below the barrier and are not applied, for "
            "they could overwrite newer ones. The table differs from the upstream until a new snapshot; with "
            "`dead-letters: quarantine` a table waits instead"
        )
    if found.late_schema_changes:
        yield f"{found.late_schema_changes:,} schema changes at or below the barrier were passed over"
    if found.unread:
        yield f"{found.unread:,} letters lie ahead of what has been read: changefeed run reads their records again"
    for letter in found.dead:
        yield f"still dead: {letter.error}"
