"""Folders on HDFS, read through Arrow's file systems: so commands read a ledger there without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from changefeed.errors import NeedsSparkError, SinkError


@dataclass(frozen=True, slots=True)
class ArrowFolder:
    """A folder at a URL, read through Arrow's file systems."""

    path: str
    system: Any
    root: str

    def names(self, below: str) -> list[str]:
        """See `LedgerFolder`."""
        from pyarrow.fs import FileSelector, FileType

        with _translate_errors(self.path):
            infos = self.system.get_file_info(FileSelector(f"{self.root}/{below}", allow_not_found=True))
        return [info.base_name for info in infos if info.type == FileType.File and not info.base_name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """See `LedgerFolder`."""
        with _translate_errors(self.path):
            try:
                with self.system.open_input_file(f"{self.root}/{name}") as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Translates an error of Arrow's file systems to one that names the ledger."""
    try:
        yield
    except OSError as error:
        why = " ".join(str(error).split())
        raise SinkError(f"{path} cannot be reached: {why:.300}", transient=True) from error


def arrow_folder(path: str) -> ArrowFolder:
    """Opens the folder at a URL.

    Raises:
        NeedsSparkError: only Spark can read the URL.
    """
    from pyarrow import ArrowException, fs

    try:
        with _translate_errors(path):
            system, root = fs.FileSystem.from_uri(path)
    except (ArrowException, ValueError) as error:
        raise NeedsSparkError(f"{path} cannot be read without Spark: {' '.join(str(error).split()):.300}") from error
    return ArrowFolder(path, system, root.rstrip("/"))
