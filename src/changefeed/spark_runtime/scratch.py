"""Temporary folders that the next run deletes if their own run was killed.

The owner of a folder holds a system lock on the file `.lock` in it, which ends with the process and is visible in other
containers too. The file is renamed to `.lock` after it is locked, so a folder without this file is still being created, or
is not changefeed's, and is not deleted. Neither are the folders of other users.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "changefeed-"
_LOCK = ".lock"


class Scratch:
    """A temporary folder; `close` deletes it.

    Attributes:
        path: the folder's path.
    """

    def __init__(self, purpose: str, within: str | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=within))
        unnamed = self.path / f"{_LOCK}-"
        self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
        with suppress(OSError):  # a file system without locks: the folder remains if the process is killed
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(self.path / _LOCK)

    def close(self) -> None:
        """Deletes the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def sweep(within: str | None = None) -> list[Path]:
    """Deletes the folders of this user whose owners have ended, and returns them."""
    deleted = []
    for folder in Path(within or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its owner is alive
                shutil.rmtree(folder, ignore_errors=True)
                deleted.append(folder)
            finally:
                os.close(lock)
    return deleted
