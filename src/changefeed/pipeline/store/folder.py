"""The part of the contract of `changefeed.storage` that ledger and dead letters need; file systems of Hadoop have it, too.

`storage.Folder` implements it on local disks and in object stores, `hadoop.py` on the file systems that only Spark reaches, and
`arrow.py` reads some of these without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


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

    def create(self, name: str, data: bytes) -> bool:
        """Creates a file durably. Returns False, and changes nothing, if a file with this name exists.

        `data` is UTF-8 text whose lines end with newlines. After an error the file may exist nevertheless.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Deletes files; names of files that do not exist are skipped."""

    def tidy(self) -> None:
        """Deletes the temporary files of writers that were killed."""

    def check_create(self) -> None:
        """Checks that `create` excludes; see `storage.Folder`."""
