"""Cases of damage to a sink's files: a table by the role of the file, the damage, and the moment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.pipeline.kit.storage import FILE_DAMAGE, KEYED, KEYLESS, MOMENTS, Prepared, checksum_of, files

OWN = "_changefeed"
DELTA_FOLDERS = {
    "table with a key": KEYED,
    "table without a key": KEYLESS,
}
FOLDERS = DELTA_FOLDERS | {
    "dead letters": f"{OWN}/dead_letters",
    "heartbeat": f"{OWN}/heartbeat",
    "ledger": f"{OWN}/ledger",
    "pending": f"{OWN}/pending",
    "all of the pipeline's own": OWN,
}
_DELTA_KINDS = ("commit", "checkpoint", "last checkpoint", "version checksum", "data", "checksum beside a file")
ROLES = (
    *(f"{area}: {kind}" for area in DELTA_FOLDERS for kind in _DELTA_KINDS),
    "dead letters: file",
    "heartbeat: file",
    "ledger: entry",
    "ledger: definitions",
    "pending: part",
)
PICKS = ("newest", "oldest", "any")
_MANY = (
    ": commit",
    ": data",
    ": part",
    ": file",
    ": entry",
    ": definitions",
)  # files of which the newest and the oldest matter differently
_READ = (*_MANY, ": checkpoint", ": last checkpoint")  # and those that are read with a table


class NotThereError(Exception):
    """No file in this state has the role."""


@dataclass(frozen=True)
class Damage:
    """One kind of damage: `act` changes the sink at `lake`."""

    name: str
    act: Callable[[Prepared, Path, Random], None]


@dataclass(frozen=True)
class Case:
    """Damage to the sink in one of its states."""

    moment: str
    damage: Damage

    @property
    def name(self) -> str:
        """For people and for pytest."""
        return f"{self.moment}: {self.damage.name}"


def _file_damage(wanted: str, pick: str, how: str) -> Damage:
    def act(prepared: Prepared, lake: Path, chance: Random) -> None:
        paths = [path for role, path in files(lake) if role == wanted]
        if wanted.endswith(": data"):
            paths = [path for path in paths if path in _live(lake / DELTA_FOLDERS[wanted.removesuffix(": data")])]
        if wanted.endswith((": commit", ": checkpoint", ": version checksum", ": entry", ": definitions")):
            paths.sort(key=lambda path: path.name)
        if not paths:
            raise NotThereError(wanted)
        chosen = {"newest": paths[-1], "oldest": paths[0]}.get(pick) or chance.choice(paths)
        print("file", chosen.relative_to(lake))
        FILE_DAMAGE[how](chosen, chance)

    return Damage(f"{wanted} ({pick}) {how}", act)


def _live(table: Path) -> set[Path]:
    """The data files of the newest version."""
    return {Path(uri.removeprefix("file://")) for uri in DeltaTable(str(table)).file_uris()}


def _folder_deleted(prepared: Prepared, lake: Path, folder: str) -> None:
    shutil.rmtree(lake / folder)


def _folder_emptied(prepared: Prepared, lake: Path, folder: str) -> None:
    for path in (lake / folder).rglob("*"):
        if path.is_file():
            path.unlink()


def _older_copy(prepared: Prepared, lake: Path, folder: str) -> None:
    shutil.rmtree(lake / folder)
    shutil.copytree(prepared.folder / "early" / folder, lake / folder)


def _commits_gone(count: int) -> Callable[[Prepared, Path, str], None]:
    """Removes the newest commits, with the files that belong to them."""

    def act(prepared: Prepared, lake: Path, folder: str) -> None:
        log = lake / folder / "_delta_log"
        newest = max(int(path.stem) for path in log.glob("*.json"))
        for version in range(newest - count + 1, newest + 1):
            for path in (*log.glob(f"{version:020}.*"), *log.glob(f".{version:020}.*")):
                path.unlink()
        for path in (log / "_last_checkpoint", checksum_of(log / "_last_checkpoint")):
            path.unlink(missing_ok=True)

    return act


def _pointer_older(prepared: Prepared, lake: Path, folder: str) -> None:
    """Replaces the pointer to the last checkpoint by an older one."""
    early = prepared.folder / "early" / folder / "_delta_log" / "_last_checkpoint"
    if not early.exists():
        raise NotThereError(early.name)
    pointer = lake / folder / "_delta_log" / "_last_checkpoint"
    for path, old in ((pointer, early), (checksum_of(pointer), checksum_of(early))):
        shutil.copy(old, path)


def _commit_older(prepared: Prepared, lake: Path, folder: str) -> None:
    """Replaces the newest commit's content by that of the one before it."""
    before, newest = sorted((lake / folder / "_delta_log").glob("*.json"))[-2:]
    shutil.copy(before, newest)
    checksum_of(newest).unlink(missing_ok=True)


def _entries_gone(count: int) -> Callable[[Prepared, Path, str], None]:
    """Removes the newest entries of the ledger."""

    def act(prepared: Prepared, lake: Path, folder: str) -> None:
        for path in sorted((lake / folder / "log").iterdir())[-count:]:
            path.unlink()

    return act


def _entry_older(prepared: Prepared, lake: Path, folder: str) -> None:
    """Replaces the newest entry's content by that of the one before it."""
    before, newest = sorted((lake / folder / "log").iterdir())[-2:]
    shutil.copy(before, newest)


def _pending_folder_deleted(prepared: Prepared, lake: Path, folder: str) -> None:
    shutil.rmtree(max((lake / folder).iterdir()))


def _largest_part_deleted(prepared: Prepared, lake: Path, folder: str) -> None:
    largest = max((lake / folder).rglob("part-*.parquet"), key=lambda path: path.stat().st_size)
    largest.unlink()
    checksum_of(largest).unlink(missing_ok=True)


def _parts_emptied(prepared: Prepared, lake: Path, folder: str) -> None:
    """Replaces every part by a Parquet file without rows."""
    for part in (lake / folder).rglob("part-*.parquet"):
        pq.write_table(pq.read_table(part).slice(0, 0), part)
        checksum_of(part).unlink(missing_ok=True)


def _part_doubled(prepared: Prepared, lake: Path, folder: str) -> None:
    part = max((lake / folder).rglob("part-*.parquet"), key=lambda path: path.stat().st_size)
    shutil.copy(part, part.with_name(part.name.replace("part-", "part-9")))


def _stray_folder(prepared: Prepared, lake: Path, folder: str) -> None:
    first = min(path for path in (lake / folder).iterdir() if path.is_dir())
    shutil.copytree(first, first.with_name("900000-00000000"))


# Another writer in between.


def _rows_of(lake: Path, folder: str) -> tuple[DeltaTable, Any]:
    table = DeltaTable(str(lake / folder))
    return table, pa.table(table.to_pyarrow_table())


def _row_appended(prepared: Prepared, lake: Path, folder: str) -> None:
    """Appends a copy of an existing row."""
    table, there = _rows_of(lake, folder)
    write_deltalake(table, there.slice(0, 1), mode="append")


def _rows_deleted(prepared: Prepared, lake: Path, folder: str) -> None:
    DeltaTable(str(lake / folder)).delete()


def _restored(prepared: Prepared, lake: Path, folder: str) -> None:
    DeltaTable(str(lake / folder)).restore(1)


def _column_added(prepared: Prepared, lake: Path, folder: str) -> None:
    table, there = _rows_of(lake, folder)
    row = there.slice(0, 1).append_column("foreign", pa.array(["x"]))
    write_deltalake(table, row, mode="append", schema_mode="merge")


def _column_dropped(prepared: Prepared, lake: Path, folder: str) -> None:
    table, there = _rows_of(lake, folder)
    last = there.column_names[-1]
    write_deltalake(table, there.drop_columns([last]), mode="overwrite", schema_mode="overwrite")


def _optimized(prepared: Prepared, lake: Path, folder: str) -> None:
    DeltaTable(str(lake / folder)).optimize.compact()


def _vacuumed(prepared: Prepared, lake: Path, folder: str) -> None:
    table = DeltaTable(str(lake / folder))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def _checkpointed(prepared: Prepared, lake: Path, folder: str) -> None:
    DeltaTable(str(lake / folder)).create_checkpoint()


_WRITERS: dict[str, Callable[[Prepared, Path, str], None]] = {
    "a row appended by another writer": _row_appended,
    "rows deleted by another writer": _rows_deleted,
    "restored to version 1": _restored,
    "a column added by another writer": _column_added,
    "a column dropped by another writer": _column_dropped,
    "compacted": _optimized,
    "compacted and vacuumed": _vacuumed,
    "a checkpoint written by another writer": _checkpointed,
}
_OF_A_LOG: dict[str, Callable[[Prepared, Path, str], None]] = {
    "the last commit gone": _commits_gone(1),
    "the last two commits gone": _commits_gone(2),
    "an older pointer to the last checkpoint": _pointer_older,
    "the last commit as the one before": _commit_older,
    **_WRITERS,
}
_OF_A_FOLDER: dict[str, Callable[[Prepared, Path, str], None]] = {
    "deleted": _folder_deleted,
    "emptied": _folder_emptied,
    "an older copy put back": _older_copy,
}
_OF_THE_LEDGER: dict[str, Callable[[Prepared, Path, str], None]] = {
    "the last entry gone": _entries_gone(1),
    "the last two entries gone": _entries_gone(2),
    "the last entry as the one before": _entry_older,
}
_OF_PENDING: dict[str, Callable[[Prepared, Path, str], None]] = {
    "the last folder deleted": _pending_folder_deleted,
    "the largest part deleted": _largest_part_deleted,
    "every part without rows": _parts_emptied,
    "a part doubled": _part_doubled,
    "a foreign folder put in": _stray_folder,
}


def _folder_damage(area: str, name: str, act: Callable[[Prepared, Path, str], None]) -> Damage:
    return Damage(f"{area}: {name}", lambda prepared, lake, chance: act(prepared, lake, FOLDERS[area]))


def _everything_older(prepared: Prepared, lake: Path, chance: Random) -> None:
    shutil.rmtree(lake)
    prepared.copy("early", lake)


DAMAGES: tuple[Damage, ...] = (
    Damage("nothing", lambda prepared, lake, chance: None),
    Damage("the whole sink: an older copy put back", _everything_older),
    *(_folder_damage(area, name, act) for area in FOLDERS for name, act in _OF_A_FOLDER.items()),
    *(_folder_damage(area, name, act) for area in DELTA_FOLDERS for name, act in _OF_A_LOG.items()),
    *(_folder_damage("ledger", name, act) for name, act in _OF_THE_LEDGER.items()),
    *(_folder_damage("pending", name, act) for name, act in _OF_PENDING.items()),
    *(
        _file_damage(role, pick, how)
        for role in ROLES
        for pick in (PICKS[:2] if role.endswith(_MANY) else PICKS[2:])
        for how in (list(FILE_DAMAGE) if role.endswith(_READ) else ("deleted", "truncated"))
    ),
)
CASES = tuple(Case(moment, damage) for moment in MOMENTS for damage in DAMAGES)
