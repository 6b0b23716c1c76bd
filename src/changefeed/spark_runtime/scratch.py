"""Temporary folders that do not outlive a killed run for long: the next one deletes them.

A folder belongs to the process that holds the lock of the file `.lock` in it: a lock of the system, which ends with the
process however
it ends, and is seen from other containers too. The file gets its name when it is locked, so a folder without one is one that
is being made, or somebody else's, and is left alone. So are the folders of other users.
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
        path: of the folder.
    """

    def __init__(self, purpose: str, within: str | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=within))
        unnamed = self.path / f"{_LOCK}-"
        self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
        with suppress(OSError):  # a file system without locks: the folder is left to other clean-up jobs
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(self.path / _LOCK)

    def close(self) -> None:
        """Deletes the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def sweep(within: str | None = None) -> list[Path]:
    """Deletes the folders of this user whose owners have ended, and returns them."""
    folders = []
    for folder in Path(within or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its owner lives
                shutil.rmtree(folder, ignore_errors=True)
                folders.append(folder)
            finally:
                os.close(lock)
    return folders
