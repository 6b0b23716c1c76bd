"""Folders at URLs, read through Arrow's file systems: so commands read a ledger without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ConfigError, SinkError
from changefeed.local_files import local_path
from changefeed.pipeline.store.folder import LedgerFolder, LocalFolder


class NeedsSparkError(ConfigError):
    """The ledger is on a file system that only Spark can read."""


@dataclass(frozen=True, slots=True)
class ArrowFolder:
    """A folder at a URL, read through Arrow's file systems."""

    path: str
    system: Any
    root: str

    def names(self, below: str) -> list[str]:
        """See `LedgerFolder`."""
        from pyarrow.fs import FileSelector, FileType

        with _reached(self.path):
            infos = self.system.get_file_info(FileSelector(f"{self.root}/{below}", allow_not_found=True))
        return [info.base_name for info in infos if info.type == FileType.File and not info.base_name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """See `LedgerFolder`."""
        with _reached(self.path):
            try:
                with self.system.open_input_file(f"{self.root}/{name}") as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None


@contextmanager
def _reached(path: str) -> Iterator[None]:
    """Translates an error of Arrow's file systems to one that names the ledger."""
    try:
        yield
    except OSError as error:
        why = " ".join(str(error).split())
        raise SinkError(f"{path} cannot be reached: {why:.300}", transient=True) from error


def folder_at(path: str) -> LedgerFolder:
    """Opens the folder at a path or URL, to read it without Spark.

    Raises:
        NeedsSparkError: only Spark can read the URL.
    """
    local = local_path(path)
    if local is not None:
        return LocalFolder(local)
    from pyarrow import ArrowException, fs

    url = path.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
    try:
        with _reached(path):
            system, root = fs.FileSystem.from_uri(url)
    except (ArrowException, ValueError) as error:
        raise NeedsSparkError(f"{path} cannot be read without Spark: {' '.join(str(error).split()):.300}") from error
    return ArrowFolder(path, system, root.rstrip("/"))
