"""Takes back commits that a power cut has left incomplete, in the log of a table in a local folder.

A step's files are on disk before its `done` is in the ledger. Of a step that is not done, a power cut may leave some
commits and not others, in any order, and files without their bytes:

    version      7             8          9                      10
                 in a cut      intact     lacks its data file    empty
                                          └──── taken back ─────────┘

Rule 1. Only commits after the version in the ledger are taken back, from the first incomplete one on. The step then makes them
again.
Rule 2. A commit of another program is taken back only if it is not a whole commit: it has nothing that could be read.
Rule 3. The newest commit is taken back first, so that the log has no gap if this is interrupted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from changefeed.errors import SinkError
from changefeed.local_files import sync_names
from changefeed.sinks.delta.actions import LogAction, actions_of
from changefeed.sinks.delta.native import vectors

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet")
_PARQUET = b"PAR1"
_FRAME = 8  # bytes around a vector: its size and its checksum


def take_back(path: str, application: str, version: int) -> list[int]:
    """Removes the commits of a table after a version, from the first one that is incomplete on; and checkpoints that are.

    Args:
        path: the table's folder, which need not exist.
        application: the pipeline's owner text.
        version: the version that the ledger has; -1 for none.

    Returns:
        the versions of the removed commits.

    Raises:
        SinkError: a file cannot be read or deleted.
    """
    log = Path(path) / "_delta_log"
    if not (log / f"{version + 1:020d}.json").exists():
        return []
    try:
        names = sorted(os.listdir(log))
        versions = sorted(int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name))
        later = [number for number in versions if number > version]
        commits = {number: _commit(log / f"{number:020d}.json") for number in later}
        bad = [number for number in later if not _is_complete(path, commits[number], application)]
        first = min(bad, default=None)
        removed = [number for number in later if first is not None and number >= first]
        if any(not _is_ours(commits[number], application) for number in removed):
            return []  # the guard names the commit of the other program
        _remove_checkpoints(log, names, version, first)
        for number in reversed(removed):
            for name in (
                f".{number:020d}.json.crc",
                f".{number:020d}.crc.crc",
                f"{number:020d}.crc",
                f"{number:020d}.json",
            ):
                (log / name).unlink(missing_ok=True)
        sync_names(str(log))
    except OSError as error:
        raise SinkError(f"{path}: incomplete commits cannot be removed: {error}", transient=True) from error
    return removed


def _commit(file: Path) -> list[LogAction] | None:
    """Returns the actions of a commit; None if it is not whole."""
    try:
        return actions_of(file.read_bytes())
    except ValueError:
        return None


def _is_ours(commit: list[LogAction] | None, application: str) -> bool:
    """Whether the pipeline has made the commit, or nothing shows who has because it is not whole."""
    if commit is None:
        return True
    if any(action.get("txn", {}).get("appId") == application for action in commit):
        return True
    info: dict[str, Any] = next((action["commitInfo"] for action in commit if "commitInfo" in action), {})
    return info.get("engineInfo") == "changefeed"  # a compaction


def _is_complete(path: str, commit: list[LogAction] | None, application: str) -> bool:
    """Whether a commit is whole and, if it is the pipeline's, has its data files and vectors."""
    if commit is None:
        return False
    if not _is_ours(commit, application):
        return True
    needed = (need for action in commit if "add" in action for need in _files(action["add"]))
    return all(_size(f"{path}/{name}") in sizes for name, sizes in needed)


def _files(file: LogAction) -> Iterator[tuple[str, range]]:
    """The files that an `add` names, with the sizes that they may have."""
    name, size = unquote(file["path"]), int(file["size"])
    if "/" not in name:
        yield name, range(size, size + 1)
    if descriptor := file.get("deletionVector"):
        stored = vectors.path_of(descriptor)
        if stored is not None and not stored.startswith("/"):
            end = int(descriptor.get("offset") or 0) + int(descriptor["sizeInBytes"]) + _FRAME
            yield stored, range(end, 1 << 62)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1


def _remove_checkpoints(log: Path, names: list[str], version: int, first: int | None) -> None:
    """Removes checkpoints after a version that are incomplete or of commits that are taken back, and the name of a lost one."""
    for name in names:
        named = _CHECKPOINT.fullmatch(name)
        if named is None or int(named[1]) <= version:
            continue
        if (first is not None and int(named[1]) >= first) or not _is_parquet(log / name):
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
