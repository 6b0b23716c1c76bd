"""Deletes folders of tables that only old cuts use: `changefeed expire`.

A renamed table gets a new path, and the folders of renamed and dropped tables stay, because older cuts use them. `expire`
deletes such folders when these cuts are old enough.

Rule 1. Only paths that the pipeline has written and no longer uses, according to the newest state, are candidates. Nothing
        else in the sink is touched, nor a folder whose own log does not name the pipeline.
Rule 2. A folder may be deleted if the newest cut does not use it, no begun plan names it, and the first cut that no longer used
        it has the required age. So only cuts younger than that age are read; all of them, if folders are deleted, to count the
        cuts that cannot be read any more.
Rule 3. Before a folder is deleted, an open note is written (`expired.py`), and the ledger is read once more. A run writes its
        plan to the ledger, then looks for open notes, and waits for them if it needs a path that its tables do not use
        (`wait_for_expiry`). Both write before they look, so one of the two sees the other.
Rule 4. Notes of deleted folders are kept: cuts up to that step that use the folder cannot be read, even if a new table is
        written there later. An interrupted expiry is finished by the next one; for folders that were being deleted it
        need not re-read the ledger: a run that needs one of these paths is blocked until this is finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from changefeed.errors import ConfigError, SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.ledger import ledger_name, read_ledger
from changefeed.pipeline.operations.expired import DeletedFolder, Note, Notes, read_deleted_folders
from changefeed.pipeline.planning.actions import paths_of
from changefeed.pipeline.state import LastWrite
from changefeed.pipeline.store.base import Cut, Latest, StoreReader
from changefeed.pipeline.tables import open_tables
from changefeed.sinks.base import TableSink


@dataclass(frozen=True, slots=True)
class Expiry:
    """The result of an expiry.

    Attributes:
        deleted: the folders that were deleted (with `dry_run`: would be), as paths below the sink's path.
        kept: path -> why it was kept, for the other folders that the newest cut does not use.
        cuts: number of cuts that can no longer be read, because they use a deleted folder.
    """

    deleted: tuple[str, ...]
    kept: dict[str, str]
    cuts: int


def expire(definition: Definition, age: timedelta, *, dry_run: bool = False) -> Expiry:
    """Deletes the folders that only cuts older than `age` use; with `dry_run`, only returns what it would delete.

    Raises:
        ConfigError: the pipeline has not done a step yet, or another `expire` is running.
        SinkError: the ledger cannot be read, or a folder cannot be deleted.
    """
    ledger = read_ledger(definition)
    tables = open_tables(definition)
    notes = Notes(tables, definition)
    if not dry_run:
        for note in notes.left_behind():
            _carry_out(notes, note, ledger)
    latest, deleted_folders = ledger.latest(), read_deleted_folders(definition)
    if latest is None or not latest.step:
        raise ConfigError(
            f"{ledger_name(definition)}: {definition.pipeline.name} has not done a step yet, so there is nothing to expire"
        )
    paths, kept, since = list[str](), dict[str, str](), datetime.now(UTC) - age
    sink = tables.owned_by(latest.owner)
    busy, young = _busy(latest), _ended_after(ledger, since)
    for path in _unused(latest, deleted_folders):
        if path in busy:
            kept[path] = "a step under way names it"
        elif path in young:
            kept[path] = f"the newest cut used it until {young[path].astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        elif why := _reason_to_keep(sink, path, deleted_folders):
            kept[path] = why
        elif why is None:
            paths.append(path)
    if paths and not dry_run:
        paths = list(_carry_out(notes, notes.begin(latest.step, tuple(paths)), ledger))
    lost = (
        sum(readable(cut, deleted_folders) and bool(cut.paths() & set(paths)) for cut in ledger.history())
        if paths
        else 0
    )
    return Expiry(tuple(paths), kept, lost)


def _reason_to_keep(sink: TableSink, path: str, deleted_folders: Iterable[DeletedFolder]) -> str | None:
    """Returns why a folder is not deleted although it is old; None if it may be deleted, empty if it was deleted before."""
    try:
        is_own = sink.has_written(path)
    except SinkError as error:
        return str(error)
    if is_own is None:
        return "" if any(path == one.path for one in deleted_folders) else "there is no table"
    return None if is_own else "another one than this pipeline wrote the table there"


def old_folders(
    definition: Definition, latest: Latest, deleted_folders: Iterable[DeletedFolder]
) -> dict[str, str | None]:
    """Finds the folders that `expire` deletes sooner or later; any Delta reader still opens them as tables.

    Returns:
        Path below the sink's path -> the name that its table has now, if it was renamed lately; None if it was dropped, or if
        that is no longer known.
    """
    sink = open_tables(definition).owned_by(latest.owner)
    renamed = {shadow.rows.path: name for name, shadow in latest.state.shadows.items() if shadow.rows is not None}

    def is_readable(path: str) -> bool:
        try:
            return bool(sink.has_written(path))
        except SinkError:
            return False  # nobody takes it for a table

    return {path: renamed.get(path) for path in _unused(latest, deleted_folders) if is_readable(path)}


def readable(cut: Cut, deleted_folders: Iterable[DeletedFolder]) -> bool:
    """Whether a cut can still be read: none of its tables is in a deleted folder."""
    pinned = cut.paths()
    return not any(cut.step <= one.step and one.path in pinned for one in deleted_folders)


def _pinned(latest: Latest) -> set[str]:
    return {table.path for table in latest.state.tables.values()}


def _unused(latest: Latest, deleted_folders: Iterable[DeletedFolder]) -> list[str]:
    """The paths that the pipeline has written and that its newest cut does not use, without those that were deleted."""
    folders, pinned = list(deleted_folders), _pinned(latest)
    return [
        path
        for path, written in sorted(latest.state.left.items())
        if path not in pinned and not _is_gone(path, written, folders)
    ]


def _is_gone(path: str, written: LastWrite, deleted_folders: Iterable[DeletedFolder]) -> bool:
    """Whether a path's folder is gone and was written by the pipeline; unknown if a repair assigned the path to the ledger."""
    return any(path == one.path and written.epoch > 0 and written.step <= one.step for one in deleted_folders)


def _carry_out(notes: Notes, note: Note, ledger: StoreReader) -> tuple[str, ...]:
    """Reads the ledger again, now that the note is written, and deletes the folders that it does not need; returns them."""
    if not note.settled:
        latest = ledger.latest()
        busy, step = (_busy(latest), latest.step) if latest else (set(), note.step)
        paths = tuple(path for path in note.paths if path not in busy)
        note = msgspec.structs.replace(note, step=step, paths=paths)
    notes.carry_out(note)
    return note.paths


def _busy(latest: Latest) -> set[str]:
    """Returns the paths that the newest cut uses, and those of a plan that is not done."""
    return _pinned(latest) | (paths_of(latest.unfinished) if latest.unfinished else set())


def _ended_after(ledger: StoreReader, since: datetime) -> dict[str, datetime]:
    """Returns path -> time of the first cut after `since` that no longer contains it."""
    ended: dict[str, datetime] = {}
    newer: Cut | None = None
    for cut in ledger.history(newest_first=True):
        if newer is not None:
            ended |= {path: newer.at for path in cut.paths() - newer.paths() if path not in ended}
        if cut.at <= since:
            break
        ended |= {path: cut.at for path in cut.wrote if path not in ended}
        newer = cut
    return ended
