"""Takes back commits that a power cut has left incomplete, in the log of a table in a local folder.

A step's files are on disk before its `done` is in the ledger. Of a step that is not done, a power cut may leave some
commits and not others, in any order, and files without their bytes:

    version      7             8          9                      10
                 in a cut      intact     lacks its data file    empty
                                          └──── taken back ─────────┘

Rule 1. Only commits after the version in the ledger are taken back, from the first incomplete one on. The step then makes them
again.
Rule 2. A commit of another program is taken back only if it is not a whole commit: it has nothing that could be read.
Rule 3. A data file that a later commit has removed may be gone.
Rule 4. The newest commit is taken back first, so that the log has no gap if this is interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from changefeed.errors import SinkError
from changefeed.local_files import sync_names
from changefeed.sinks.delta.actions import LogAction, actions_of
from changefeed.sinks.delta.log_names import checkpoint_version, commit_name, commit_version
from changefeed.sinks.delta.native.snapshot import files_of

Commits: TypeAlias = dict[int, list[LogAction] | None]  # of a version, its actions; None if the commit is not whole
_UNSYNCED = 4  # commits that a table of dead letters gets between two entries of the ledger, at most
_SUMS_HEADER, _SUM, _SUMMED = 8, 4, 512  # bytes in a file of checksums; and of a file, for one checksum
_PARQUET = b"PAR1"


def take_back(path: str, version: int, application: str | None) -> list[int]:
    """Removes the commits of a table after a version, from the first one that is incomplete on; and checkpoints that are.

    Args:
        path: the table's folder, which need not exist.
        version: the version that the ledger has; -1 for none.
        application: the pipeline's owner text; None if nobody else writes the table.

    Returns:
        the versions of the removed commits.

    Raises:
        SinkError: a file cannot be read or deleted.
    """
    log = Path(path) / "_delta_log"
    if not (log / commit_name(version + 1)).exists():
        return []
    try:
        names = sorted(os.listdir(log))
        numbers = sorted(number for number in map(commit_version, names) if number is not None)
        commits = {number: _commit(log / commit_name(number)) for number in numbers if number > version}
        checkpoints = {name: of[0] for name in names if (of := checkpoint_version(name)) and of[0] > version}
        _remove_torn_sums(path, commits, checkpoints)
        first = _first_incomplete(path, commits, application)
        removed = [number for number in commits if first is not None and number >= first]
        if any(not _is_ours(commits[number], application) for number in removed):
            return []  # the guard names the commit of the other program
        _remove_checkpoints(log, checkpoints, first)
        for number in reversed(removed):
            commit, sums = commit_name(number), f"{number:020d}.crc"
            for name in (f".{commit}.crc", f".{sums}.crc", sums, commit):
                (log / name).unlink(missing_ok=True)
        sync_names(str(log))
    except OSError as error:
        raise SinkError(f"{path}: incomplete commits cannot be removed: {error}", transient=True) from error
    return removed


def take_back_newest(path: str) -> list[int]:
    """Removes the newest commits of a table that only this pipeline writes, from the first one that is incomplete on.

    Of the newest commits only, because a power cut cannot have reached those before the ledger's last entry.

    Raises:
        SinkError: as `take_back`.
    """
    log = Path(path) / "_delta_log"
    newest = max((number for number in map(commit_version, os.listdir(log)) if number is not None), default=-1)
    return take_back(path, max(newest - _UNSYNCED, -1), None)


def _commit(file: Path) -> list[LogAction] | None:
    """Returns the actions of a commit; None if it is not whole."""
    try:
        return actions_of(file.read_bytes())
    except ValueError:
        return None


def _is_ours(commit: list[LogAction] | None, application: str | None) -> bool:
    """Whether the pipeline has made the commit, or nothing shows who has because it is not whole."""
    if commit is None or application is None:
        return True
    if any(action.get("txn", {}).get("appId") == application for action in commit):
        return True
    info: dict[str, Any] = next((action["commitInfo"] for action in commit if "commitInfo" in action), {})
    return info.get("engineInfo") == "changefeed"  # a compaction


def _first_incomplete(path: str, commits: Commits, application: str | None) -> int | None:
    """The first commit that is not whole or, if it is the pipeline's, lacks a data file or vector that is still in use."""
    removed, first = set[str](), None
    for number, commit in sorted(commits.items(), reverse=True):
        if commit is None:
            first = number
            continue
        files = [action["add"] for action in commit if "add" in action]
        used = [file for file in files if file["path"] not in removed]
        if _is_ours(commit, application) and not all(
            _size(f"{path}/{name}") in sizes for file in used for name, sizes in files_of(file)
        ):
            first = number
        removed |= {action["remove"]["path"] for action in commit if "remove" in action}
    return first


def _remove_torn_sums(path: str, commits: Commits, checkpoints: Iterable[str]) -> None:
    """Removes files of checksums that Hadoop has written beside files of commits, and that are not whole.

    Spark does not read a file whose checksums are not whole; one without them it reads.
    """
    files = [f"_delta_log/{name}" for name in (*checkpoints, "_last_checkpoint")]
    files += [f"_delta_log/{commit_name(number)}" for number in commits]
    for commit in commits.values():
        files += [name for action in commit or () if "add" in action for name, _ in files_of(action["add"])]
    for name in files:
        folder, _, last = name.rpartition("/")
        sums = f"{path}/{folder}/.{last}.crc"
        size = _size(sums)
        if size >= 0 and size != _SUMS_HEADER + _SUM * -(-_size(f"{path}/{name}") // _SUMMED):
            os.unlink(sums)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1


def _remove_checkpoints(log: Path, checkpoints: Mapping[str, int], first: int | None) -> None:
    """Removes the files of checkpoints that are incomplete or of commits that are taken back, and the name of a lost one.

    Args:
        log: the folder of the log.
        checkpoints: name of a file -> version, for the checkpoints after the version in the ledger.
        first: the first commit that is taken back; None if none is.
    """
    for name, version in checkpoints.items():
        if (first is not None and version >= first) or not _is_parquet(log / name):
            (log / name).unlink(missing_ok=True)
    last = log / "_last_checkpoint"
    try:
        at = int(msgspec.json.decode(last.read_bytes(), type=dict)["version"])
        lost = not any(name.startswith(f"{at:020d}.checkpoint") for name in os.listdir(log))
    except FileNotFoundError:
        return
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        lost = True
    if lost:
        last.unlink()
        (log / "._last_checkpoint.crc").unlink(missing_ok=True)


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as opened:
        opened.seek(0, os.SEEK_END)
        if opened.tell() < 2 * len(_PARQUET):
            return False
        opened.seek(-len(_PARQUET), os.SEEK_END)
        return opened.read() == _PARQUET
