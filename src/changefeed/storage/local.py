"""Folders on a local disk: a file gets its name by link(2), which fails if the name is taken, after its bytes are on disk."""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from changefeed.errors import SinkError
from changefeed.local_files import link_new, make_folder, sync_file_systems, sync_names
from changefeed.storage.base import FileInfo, FileWriter, Folder, checked_name, missing_file, too_short

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
_UNFINISHED = ".tmp"  # files that have no name yet
_STALE = 24 * 3600.0  # seconds after which no process uses one of these any more


@dataclass(frozen=True, slots=True)
class LocalFolder(Folder):
    """A folder on a local disk."""

    path: str

    def read(self, name: str) -> bytes | None:
        """See `Folder`."""
        with self._errors(name):
            try:
                with open(self._file(name), "rb") as file:
                    return file.read()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def read_with_tag(self, name: str) -> tuple[bytes, str] | None:
        """See `Folder`."""
        with self._errors(name):
            try:
                with open(self._file(name), "rb") as file:
                    return file.read(), _info(name, os.fstat(file.fileno())).tag
            except (FileNotFoundError, NotADirectoryError):
                return None

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """See `Folder`."""
        with self.open(name) as file, self._errors(name):
            file.seek(start)
            data = file.read(length)
        if len(data) < length:
            raise too_short(self.path, name, start, length)
        return data

    def open(self, name: str, size: int | None = None) -> BinaryIO:
        """See `Folder`."""
        with self._errors(name):
            try:
                return open(self._file(name), "rb")
            except (FileNotFoundError, NotADirectoryError):
                raise missing_file(self.path, name) from None

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """See `Folder`: one after another, which is faster here."""
        return [self.read(name) for name in names]

    def files(self, below: str = "", start_after: str = "") -> list[FileInfo]:
        """See `Folder`."""
        entries = (entry for entry in self._entries(below) if not entry.name.startswith(".") and entry.is_file())
        infos = [self._info(entry.name, entry) for entry in entries if entry.name > start_after]
        return sorted((info for info in infos if info is not None), key=lambda info: info.name)

    def names(self, below: str = "", start_after: str = "") -> list[str]:
        """See `Folder`."""
        entries = self._entries(below)
        return sorted(e.name for e in entries if e.name > start_after and not e.name.startswith(".") and e.is_file())

    def folders(self, below: str = "") -> list[str]:
        """See `Folder`."""
        return sorted(e.name for e in self._entries(below) if not e.name.startswith(".") and e.is_dir())

    def files_below(self, below: str = "") -> Iterator[FileInfo]:
        """See `Folder`."""
        for entry in sorted(self._entries(below), key=lambda entry: entry.name):
            if entry.name == _UNFINISHED:
                continue
            if entry.is_dir():
                above = f"{below}/{entry.name}" if below else entry.name
                for info in self.files_below(above):
                    yield FileInfo(f"{entry.name}/{info.name}", info.size, info.modified)
            elif (file := self._info(entry.name, entry)) is not None:
                yield file

    def info(self, name: str) -> FileInfo | None:
        """See `Folder`."""
        with self._errors(name):
            try:
                return _info(name, os.stat(self._file(name)))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def create(self, name: str, data: bytes) -> bool:
        """See `Folder`."""
        with self._written(name, data) as (unfinished, path):
            return link_new(unfinished, path, self.path)

    def put(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        with self._written(name, data) as (unfinished, path):
            os.replace(unfinished, path)
            sync_names(os.path.dirname(path))

    def writer(self, name: str) -> FileWriter:
        """See `Folder`."""
        path = self._file(name)
        with self._errors(name):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return _Writer(self, name, path)

    def move(self, name: str, to: str) -> bool:
        """See `Folder`."""
        with self._errors(name):
            try:
                os.replace(self._file(name), self._file(to))
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def delete(self, names: Iterable[str]) -> None:
        """See `Folder`."""
        for name in names:
            with self._errors(name), suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._file(name))

    def delete_folder(self, name: str) -> None:
        """See `Folder`."""
        with self._errors(name), suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(self._file(name))

    def tidy(self) -> None:
        """See `Folder`."""
        folder = f"{self.path}/{_UNFINISHED}"
        with self._errors(_UNFINISHED), suppress(FileNotFoundError):
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):
                    if os.stat(f"{folder}/{name}").st_mtime < time.time() - _STALE:
                        os.unlink(f"{folder}/{name}")

    def durable(self) -> None:
        """See `Folder`."""
        sync_file_systems([self.path])

    def check_create(self) -> None:
        """Does nothing: link(2) excludes on every file system that has it, and `create` names one that has not."""

    def subfolder(self, name: str) -> LocalFolder:
        """See `Folder`."""
        return LocalFolder(self._file(name))

    def _file(self, name: str) -> str:
        name = checked_name(self.path, name)
        return f"{self.path}/{name}" if name else self.path

    def _entries(self, below: str) -> list[os.DirEntry[str]]:
        with self._errors(below):
            try:
                with os.scandir(self._file(below)) as entries:
                    return list(entries)
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _info(self, name: str, entry: os.DirEntry[str]) -> FileInfo | None:
        try:
            return _info(name, entry.stat())
        except FileNotFoundError:  # deleted in the meantime
            return None

    @contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[tuple[str, str]]:
        """Writes the bytes to a temporary file, on disk; yields its path and the path of the file."""
        path = self._file(name)
        unfinished = f"{self.path}/{_UNFINISHED}/{uuid.uuid4().hex}"
        with self._errors(name):
            make_folder(os.path.dirname(path))
            make_folder(os.path.dirname(unfinished))
            try:
                with open(unfinished, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                yield unfinished, path
            finally:
                with suppress(OSError):
                    os.unlink(unfinished)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Translates an OSError to a SinkError that names the file; `edge.py` of the pipeline handles a full disk."""
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise OSError(error.errno, error.strerror) from error
            path = f"{self.path}/{name}".rstrip("/")
            raise SinkError(f"{path}: {error.strerror or error}", transient=error.errno in _PASSING) from error


class _Writer(FileWriter):
    """A file on a local disk that is written in pieces."""

    def __init__(self, folder: LocalFolder, name: str, path: str) -> None:
        self._folder, self._name, self._path = folder, name, path
        self._file = open(path, "xb")  # noqa: SIM115  # closed by `close`

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: Any) -> int:
        with self._folder._errors(self._name):
            return self._file.write(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._folder._errors(self._name):
                self._file.close()

    def discard(self) -> None:
        """See `FileWriter`."""
        super().close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._path)


def _info(name: str, stat: os.stat_result) -> FileInfo:
    tag = f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}"
    return FileInfo(name, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC), tag)
