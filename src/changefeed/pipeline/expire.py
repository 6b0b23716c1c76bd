"""Deleting the folders of tables that only old cuts pin: `changefeed expire`.

A renamed table starts at a new path, a dropped one stays where it was: the cuts before pin their versions. Here such
folders go when the cuts that pin them are old.

Rule 1. Only what the ledger says this pipeline wrote is known: the paths in its cuts and plans. Nothing else in the sink
        is touched, nor a folder whose own log does not name the pipeline.
Rule 2. A folder may go when the newest cut does not use it, no plan under way names it, and the first cut that did not
        pin it any more has the age asked for. Until that cut, the last one that does was the newest there was.
Rule 3. What goes is written down as open before (`expired.py`), and then the ledger is asked once more. A run writes its
        plan into the ledger, and then looks for open notes; it waits for them if it needs a path that its tables do
        not use (`ledger.py`). Both write before they look, so one of the two sees the other.
Rule 4. What is gone stays written down: cuts up to that step that pin it cannot be read, even if a new table lies there
        one day. What an expiry that died has begun, the next one finishes first; of folders that were being deleted it
        does not ask the ledger again, for whoever needed one since has waited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from changefeed.errors import ConfigError
from changefeed.pipeline.actions import Plan, paths_of
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.expired import Gone, Note, Notes, gone
from changefeed.pipeline.ledger import Cut, cuts, owner, plans
from changefeed.pipeline.paths import ledger_folder, own_folder, tables_folder
from changefeed.sinks.delta.read import wrote


@dataclass(frozen=True, slots=True)
class Expiry:
    """What came of it.

    Attributes:
        deleted: the paths that are gone now, or would be, below the sink's path.
        kept: path -> why it stays, of those that the newest cut does not use.
        cuts: how many cuts cannot be read any more because of it.
    """

    deleted: tuple[str, ...]
    kept: dict[str, str]
    cuts: int


@dataclass(frozen=True, slots=True)
class _Use:
    """Of a path: the last step that pins or writes it, and when the first cut without it came; None: there is none."""

    last: int
    ended: datetime | None


def expire(definition: Definition, age: timedelta, *, dry_run: bool = False) -> Expiry:
    """Deletes the folders that only cuts older than `age` pin; `dry_run` tells what it would do.

    Raises:
        ConfigError: the pipeline has done no step, or another expiry is at work.
        SinkError: the ledger cannot be read, or a folder not deleted.
    """
    root, ledger = tables_folder(definition), ledger_folder(definition)
    notes = Notes(root, own_folder(definition))
    if not dry_run:
        for note in notes.left_behind():
            _carry_out(notes, note, ledger)
    found, begun, known = cuts(ledger), plans(ledger), gone(own_folder(definition))
    if not found:
        raise ConfigError(
            f"{ledger}: {definition.pipeline.name} has not done a step yet, so there is nothing to expire"
        )
    paths, kept, ours = list[str](), dict[str, str](), owner(definition) or ""
    for path, use in sorted(_uses(found, begun).items()):
        if use.ended is None or any(path == one.path and use.last <= one.step for one in known):
            continue
        if path in _busy(found, begun):
            kept[path] = "a step under way names it"
        elif use.ended > datetime.now(UTC) - age:
            kept[path] = f"the newest cut used it until {use.ended.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        elif not (written := wrote(f"{root}/{path}", ours)):
            kept[path] = (
                "no table lies there" if written is None else "another one than this pipeline wrote the table there"
            )
        else:
            paths.append(path)
    if paths and not dry_run:
        paths = list(_carry_out(notes, notes.begin(found[-1].step, tuple(paths)), ledger))
    lost = [cut for cut in found if readable(cut, known) and _pinned(cut) & set(paths)]
    return Expiry(tuple(paths), kept, len(lost))


def readable(cut: Cut, gone: Iterable[Gone]) -> bool:
    """Whether every table of a cut lies where the cut pins it."""
    pinned = _pinned(cut)
    return not any(cut.step <= one.step and one.path in pinned for one in gone)


def _pinned(cut: Cut) -> set[str]:
    return {table.path for table in cut.state.tables.values()}


def _carry_out(notes: Notes, note: Note, ledger: str) -> tuple[str, ...]:
    """Deletes what the ledger, asked after the note was written, does not need; returns which that is."""
    if not note.settled:
        found = cuts(ledger)
        busy = _busy(found, plans(ledger))
        paths = tuple(path for path in note.paths if path not in busy)
        note = msgspec.structs.replace(note, step=found[-1].step, paths=paths)
    notes.carry_out(note)
    return note.paths


def _busy(found: list[Cut], begun: dict[int, list[Plan]]) -> set[str]:
    """The paths that the newest cut uses, and those of plans that are not done."""
    newest = found[-1]
    under_way = [plan for step, of in begun.items() if step > newest.step for plan in of]
    return _pinned(newest) | {path for plan in under_way for path in paths_of(plan)}


def _uses(found: list[Cut], begun: dict[int, list[Plan]]) -> dict[str, _Use]:
    """Every path that the ledger knows."""
    uses: dict[str, _Use] = {}
    for cut in found:
        pinned = _pinned(cut)
        written = {path for plan in begun.get(cut.step, ()) for path in paths_of(plan)}
        for path in pinned:
            uses[path] = _Use(cut.step, None)
        for path in (uses.keys() | written) - pinned:
            before = uses.get(path)
            if before is None or before.ended is None or path in written:
                last = cut.step if path in written or before is None else before.last
                uses[path] = _Use(last, cut.at)
    return uses
