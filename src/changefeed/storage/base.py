"""The contract of a storage: folders of files, on local disks, in object stores, in memory.

    read, read_with_tag, read_range, read_ranges, read_all, open    a file, parts of it, several files
    names, files, folders, files_below, info                        which files exist
    create                                                          a new file, if its name is free: the only way to commit
    put, writer                                                     any other file
    delete, tidy                                                    files that nobody needs
    durable, check_create                                           what commits depend on

Rule 1. **`create` excludes.** If any number of processes create files of one name, exactly one call returns True. The others
        return False and change nothing. A reader sees the whole file or none.
Rule 2. **A lost answer is looked up.** After an error that leaves open whether the file was created, an implementation reads the
        file: if it has the bytes of this call, the call has succeeded. So bytes that two callers must not both create have to
        differ. If that cannot be found out, the call raises, and the file may exist nevertheless.
Rule 3. **Reads are whole.** A read returns all bytes of the file or of the range, or raises; it never returns fewer.
Rule 4. **Lists are complete.** A file that exists from the beginning of a call to its end is listed, and names are in ascending
        order. In an object store a list costs a request for each thousand names, and `start_after` skips names without a request.
Rule 5. **Folders are values.** They are equal by path and options, and can be pickled. Each process opens a client when it needs
        one. A process that was forked after its parent opened one cannot use object stores.
Rule 6. **Errors are of changefeed.** `AccessError`: the storage refuses the credentials, or this user has not the rights.
        `ConfigError`: there is no such bucket or region. `SinkError`: everything else; `transient` if another try may succeed. A
        full local disk raises `OSError`.

Names are relative to the folder, with `/` between their parts; `..` and empty parts are refused. Folders need not exist and are
not created by themselves. A file whose name begins with a `.` is hidden: `names` and `files` leave it out.

An implementation must pass `tests/storage/conformance.py`.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from changefeed.errors import ConfigError, SinkError

PARALLEL = 16  # requests of one call at the same time
_WHOLE = 1 << 20  # bytes of a file that is opened and read whole
_PROBE = ".create-probe"


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file in a list.

    Attributes:
        name: its name, relative to the folder that was listed.
        size: number of bytes.
        modified: when it was written, by the clock of the storage.
        tag: differs from that of every other file that had this name.
    """

    name: str
    size: int
    modified: datetime
    tag: str = ""


class FileWriter(io.RawIOBase):
    """A new file that is written in pieces; it exists when `close` has returned. Readers must not use it before."""

    @abstractmethod
    def discard(self) -> None:
        """Gives the file up instead of closing it; what was written of it is deleted as far as possible."""

    def writable(self) -> bool:
        """Whether bytes can be written."""
        return True

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if not self.closed:
            self.discard()


class Folder(ABC):
    """A folder of a storage; see the rules above.

    Attributes:
        path: the path or URL of the folder, as the user wrote it; for messages.
    """

    path: str

    # Reading.

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Returns a file's bytes; None if the file does not exist."""

    @abstractmethod
    def read_with_tag(self, name: str) -> tuple[bytes, str] | None:
        """Returns a file's bytes and its tag, that of `info`, by one request; None if the file does not exist."""

    @abstractmethod
    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Returns `length` bytes from `start` on.

        Raises:
            SinkError: the file does not exist, or ends before.
        """

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Returns several ranges (start, length) of a file, read in parallel; raises as `read_range`."""
        return in_parallel(lambda of: self.read_range(name, *of), ranges)

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Returns the bytes of several files, read in parallel; None in the place of a file that does not exist."""
        return in_parallel(self.read, names)

    def open(self, name: str, size: int | None = None) -> BinaryIO:
        """Opens a file to read it at any place, for Parquet. A small one is read whole, in one request.

        Args:
            name: the file.
            size: its size, if it is known: saves a request.

        Raises:
            SinkError: the file does not exist.
        """
        if size is None:
            info = self.info(name)
            if info is None:
                raise missing_file(self.path, name)
            size = info.size
        if size > _WHOLE:
            return io.BufferedReader(_Ranges(self, name, size), 1 << 16)
        data = self.read(name)
        if data is None:
            raise missing_file(self.path, name)
        return io.BytesIO(data)

    # Lists.

    def names(self, below: str = "", start_after: str = "") -> list[str]:
        """Returns the names of the files directly in a subfolder, in ascending order; none if it does not exist.

        Args:
            below: the subfolder; by default the folder itself.
            start_after: leaves out names up to this one.
        """
        return [info.name for info in self.files(below, start_after)]

    @abstractmethod
    def files(self, below: str = "", start_after: str = "") -> list[FileInfo]:
        """Returns the files that `names` names, with their sizes and times."""

    @abstractmethod
    def folders(self, below: str = "") -> list[str]:
        """Returns the names of the folders directly in a subfolder, in ascending order, except hidden ones (`.…`)."""

    @abstractmethod
    def files_below(self, below: str = "") -> Iterator[FileInfo]:
        """Yields all files in a subfolder and in its subfolders, hidden ones too; names are relative to the subfolder."""

    @abstractmethod
    def info(self, name: str) -> FileInfo | None:
        """Returns size and time of a file; None if the file does not exist."""

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        return self.info(name) is not None

    # Writing.

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Creates a file durably. Returns False, and changes nothing, if a file with this name exists; see rules 1 and 2."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Writes a file durably; replaces a file with this name."""

    @abstractmethod
    def writer(self, name: str) -> FileWriter:
        """Opens a new file to write it in pieces, such as a data file with a random name. It is durable after `durable`."""

    @abstractmethod
    def move(self, name: str, to: str) -> bool:
        """Gives a file another name; replaces a file with that name. Returns False if the file does not exist."""

    def move_all(self, names: Mapping[str, str]) -> bool:
        """Moves several files in parallel, from one name to another; returns whether all of them existed."""
        return all(in_parallel(lambda pair: self.move(*pair), list(names.items())))

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Deletes files; names of files that do not exist are skipped."""

    def delete_folder(self, name: str) -> None:
        """Deletes a subfolder with all files in it; nothing happens if there is none."""
        self.delete([f"{name}/{info.name}" for info in self.files_below(name)])

    def tidy(self) -> None:
        """Deletes the temporary files of writers that were killed a day ago or earlier."""
        return None

    # What commits depend on.

    def durable(self) -> None:
        """Returns when all that any process has written in this folder survives a power cut.

        Raises:
            SinkError: the storage has not taken everything.
        """
        return None

    def check_create(self) -> None:
        """Checks with two files of one name that `create` excludes. The second probe of a folder costs one request.

        Raises:
            ConfigError: it does not: the storage ignores the condition.
        """
        if self.create(_PROBE, b"1\n") and self.create(_PROBE, b"2\n"):
            raise unconditional(self.path)

    @abstractmethod
    def subfolder(self, name: str) -> Folder:
        """Returns a subfolder."""


class _Ranges(io.RawIOBase):
    """A file of a folder that is read by ranges."""

    def __init__(self, folder: Folder, name: str, size: int) -> None:
        self._folder, self._name, self._size, self._position = folder, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(0, self._size - self._position))
        if length:
            buffer[:length] = self._folder.read_range(self._name, self._position, length)
            self._position += length
        return length


def in_parallel(read: Any, of: Sequence[Any]) -> list[Any]:
    """Calls a function for several values at the same time; returns the results in their order."""
    if len(of) < 2:
        return [read(value) for value in of]
    with ThreadPoolExecutor(min(PARALLEL, len(of)), thread_name_prefix="storage") as pool:
        return list(pool.map(read, of))


def unconditional(path: str) -> ConfigError:
    """Returns the error for a storage on which `create` does not exclude."""
    return ConfigError(
        f"{path}: this storage does not support conditional writes: of two files with one name that may only be created once, it "
        "has accepted both. Two runs could overwrite each other's commits. Use a storage that supports If-None-Match, as Amazon "
        "S3 does"
    )


def missing_file(path: str, name: str) -> SinkError:
    """Returns the error for a file that does not exist."""
    return SinkError(f"{path}/{name}: the file does not exist")


def too_short(path: str, name: str, start: int, length: int) -> SinkError:
    """Returns the error for a file that ends before a range."""
    return SinkError(f"{path}/{name}: the file ends before byte {start + length}")


def checked_name(path: str, name: str) -> str:
    """Returns a name without empty parts at its ends.

    Raises:
        ConfigError: a part of it is empty, `.` or `..`.
    """
    name = name.strip("/")
    if name and any(part in ("", ".", "..") for part in name.split("/")):
        raise ConfigError(f"{path}: {name!r} is not a name in a folder")
    return name
