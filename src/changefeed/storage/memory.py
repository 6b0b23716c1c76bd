"""Folders in memory, for tests: those of one name have the same files in the whole process."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from changefeed.storage.base import FileInfo, FileWriter, Folder, checked_name, missing_file, too_short

_File = tuple[bytes, datetime]
_stores: defaultdict[str, dict[str, _File]] = defaultdict(dict)  # name of a store -> its files
_lock = Lock()


@dataclass(frozen=True, slots=True)
class MemoryFolder(Folder):
    """A folder at `memory://store/folder`."""

    path: str

    def read(self, name: str) -> bytes | None:
        """See `Folder`."""
        files, key = self._place(name)
        file = files.get(key)
        return None if file is None else file[0]

    def read_with_tag(self, name: str) -> tuple[bytes, str] | None:
        """See `Folder`."""
        files, key = self._place(name)
        file = files.get(key)
        return None if file is None else (file[0], file[1].isoformat())

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """See `Folder`."""
        data = self.read(name)
        if data is None:
            raise missing_file(self.path, name)
        if start + length > len(data):
            raise too_short(self.path, name, start, length)
        return data[start : start + length]

    def files(self, below: str = "", start_after: str = "") -> list[FileInfo]:
        """See `Folder`."""
        infos = (info for info in self.files_below(below) if "/" not in info.name and info.name > start_after)
        return [info for info in infos if not info.name.startswith(".")]

    def folders(self, below: str = "") -> list[str]:
        """See `Folder`."""
        names = {info.name.partition("/")[0] for info in self.files_below(below) if "/" in info.name}
        return sorted(name for name in names if not name.startswith("."))

    def files_below(self, below: str = "") -> Iterator[FileInfo]:
        """See `Folder`."""
        files, key = self._place(below)
        above = f"{key}/" if key else ""
        with _lock:
            inside = sorted((name, file) for name, file in files.items() if name.startswith(above))
        yield from (FileInfo(name[len(above) :], len(data), at, at.isoformat()) for name, (data, at) in inside)

    def info(self, name: str) -> FileInfo | None:
        """See `Folder`."""
        files, key = self._place(name)
        file = files.get(key)
        return None if file is None else FileInfo(name, len(file[0]), file[1], file[1].isoformat())

    def create(self, name: str, data: bytes) -> bool:
        """See `Folder`."""
        files, key = self._place(name)
        file = (bytes(data), datetime.now(UTC))
        with _lock:
            return files.setdefault(key, file) is file

    def put(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        files, key = self._place(name)
        with _lock:
            files[key] = (bytes(data), datetime.now(UTC))

    def writer(self, name: str) -> FileWriter:
        """See `Folder`."""
        self._place(name)
        return _Writer(self, name)

    def move(self, name: str, to: str) -> bool:
        """See `Folder`."""
        files, key = self._place(name)
        with _lock:
            file = files.pop(key, None)
            if file is not None:
                files[self._place(to)[1]] = file
        return file is not None

    def delete(self, names: Iterable[str]) -> None:
        """See `Folder`."""
        for name in names:
            files, key = self._place(name)
            with _lock:
                files.pop(key, None)

    def subfolder(self, name: str) -> MemoryFolder:
        """See `Folder`."""
        name = checked_name(self.path, name)
        return MemoryFolder(f"{self.path.rstrip('/')}/{name}") if name else self

    def _place(self, name: str) -> tuple[dict[str, _File], str]:
        """Returns the files of the store, and the key of a file."""
        store, _, folder = self.path.removeprefix("memory://").partition("/")
        name = checked_name(self.path, name)
        return _stores[store], "/".join(part for part in (folder.strip("/"), name) if part)


class _Writer(FileWriter):
    """A file in memory that is written in pieces."""

    def __init__(self, folder: MemoryFolder, name: str) -> None:
        self._folder, self._name, self._data = folder, name, io.BytesIO()

    def tell(self) -> int:
        return self._data.tell()

    def write(self, data: Any) -> int:
        return self._data.write(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._folder.put(self._name, self._data.getvalue())

    def discard(self) -> None:
        """See `FileWriter`."""
        super().close()
