"""Folders of small files that are written once: the contract that `files.py` needs, and its implementation on local disks.

One rule must hold: if two processes `put` the same name, exactly one succeeds, and a reader sees all of its bytes or no
file. On a local disk a file gets its name by link(2), which fails if the name is taken, after its bytes are on disk.
`hadoop.py` implements other file systems, `arrow.py` reads them without Spark.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from changefeed.errors import SinkError
from changefeed.local_files import link_new, make_folder

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
_UNFINISHED = ".tmp"  # files that have no name yet
_STALE = 24 * 3600.0  # seconds after which no process uses one of these any more


class LedgerFolder(Protocol):
    """A folder to read: files by their relative names, such as `log/00000000000000000001.json`."""

    @property
    def path(self) -> str:
        """The path of the folder, as the user named it; for messages."""

    def names(self, below: str) -> list[str]:
        """Returns the names of the files in a subfolder, except hidden ones (`.…`); empty if it does not exist.

        Every file that exists from the beginning of the call to its end is among them.
        """

    def read(self, name: str) -> bytes | None:
        """Returns a file's bytes; None if the file does not exist."""


class WritableFolder(LedgerFolder, Protocol):
    """A folder to read and write."""

    def put(self, name: str, data: bytes) -> bool:
        """Creates a file durably. Returns False, and changes nothing, if a file with this name exists.

        `data` is one line of UTF-8 text with its newline. After an error the file may exist nevertheless.
        """

    def delete(self, name: str) -> None:
        """Deletes a file; does nothing if it does not exist."""

    def tidy(self) -> None:
        """Deletes the temporary files of writers that were killed."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a local disk."""

    path: str

    def names(self, below: str) -> list[str]:
        """See `LedgerFolder`."""
        with _named_errors(f"{self.path}/{below}"):
            try:
                return [name for name in os.listdir(f"{self.path}/{below}") if not name.startswith(".")]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def read(self, name: str) -> bytes | None:
        """See `LedgerFolder`."""
        with _named_errors(f"{self.path}/{name}"):
            try:
                with open(f"{self.path}/{name}", "rb") as file:
                    return file.read()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def put(self, name: str, data: bytes) -> bool:
        """See `WritableFolder`."""
        path = f"{self.path}/{name}"
        unfinished = f"{self.path}/{_UNFINISHED}/{uuid.uuid4().hex}"
        with _named_errors(path):
            make_folder(os.path.dirname(path))
            make_folder(os.path.dirname(unfinished))
            try:
                with open(unfinished, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                return link_new(unfinished, path, self.path)
            finally:
                with suppress(OSError):
                    os.unlink(unfinished)

    def delete(self, name: str) -> None:
        """See `WritableFolder`."""
        with _named_errors(f"{self.path}/{name}"), suppress(FileNotFoundError):
            os.unlink(f"{self.path}/{name}")

    def tidy(self) -> None:
        """See `WritableFolder`."""
        folder = f"{self.path}/{_UNFINISHED}"
        with _named_errors(folder), suppress(FileNotFoundError):
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):
                    if os.stat(f"{folder}/{name}").st_mtime < time.time() - _STALE:
                        os.unlink(f"{folder}/{name}")


@contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Translates an OSError to a SinkError that names the file; `edge.py` handles a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise OSError(error.errno, error.strerror) from error
        raise SinkError(f"{path}: {error.strerror or error}", transient=error.errno in _PASSING) from error
