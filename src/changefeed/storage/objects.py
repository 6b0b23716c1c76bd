"""Folders in object stores, through `obstore`: S3 and its look-alikes, Azure, Google.

A file is created by a conditional put: `If-None-Match: *` on S3 and Azure, `x-goog-if-generation-match: 0` on Google.

Two clients are open for a bucket. One repeats requests that fail, for reads, lists, deletions and puts that replace. `create`
uses the other one, which sends each request once: it must distinguish whether the name was taken before its first
request (False), or only before a second one, when the file may be its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from changefeed.errors import ChangefeedError, MissingExtraError, SinkError
from changefeed.storage.access import Access
from changefeed.storage.base import FileInfo, FileWriter, Folder, checked_name, missing_file, too_short
from changefeed.storage.failures import Deed, code_of, failure, lacks_bucket
from changefeed.storage.s3 import local_options

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta
    from obstore.store import ObjectStore

_T = TypeVar("_T")
_PAUSES = (0.1, 0.4, 1.6)  # seconds between the requests of one `create`
_RETRIES = 4
_PIECE = 8 * 2**20  # bytes of a part of a large file
_PAGE = 1000  # names in an answer


@dataclass(frozen=True, slots=True)
class ObjectFolder(Folder):
    """A folder in an object store.

    Attributes:
        access: the bucket.
        root: the folder's path in the bucket.
    """

    path: str
    access: Access
    root: str = ""

    def read(self, name: str) -> bytes | None:
        """See `Folder`."""
        read = self.read_with_tag(name)
        return None if read is None else read[0]

    def read_with_tag(self, name: str) -> tuple[bytes, str] | None:
        """See `Folder`."""
        return _twice(lambda: self._read(name))

    def _read(self, name: str) -> tuple[bytes, str] | None:
        import obstore

        with self._errors(name, "read"):
            try:
                got = obstore.get(self._client(), self._key(name))
                return got.bytes().to_bytes(), _tag(got.meta)
            except FileNotFoundError as error:
                if lacks_bucket(error):
                    raise
                return None

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """See `Folder`."""
        return self.read_ranges(name, [(start, length)])[0]

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Folder`; ranges that are near each other are one request."""
        return _twice(lambda: self._read_ranges(name, ranges))

    def _read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        import obstore

        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]
        with self._errors(name, "read"):
            try:
                pieces = obstore.get_ranges(self._client(), self._key(name), starts=starts, lengths=lengths)
            except FileNotFoundError as error:
                if lacks_bucket(error):
                    raise
                raise missing_file(self.path, name) from None
            except obstore.exceptions.BaseError as error:
                if code_of(error) == "InvalidRange":
                    raise too_short(self.path, name, max(starts), lengths[starts.index(max(starts))]) from error
                raise
        for (start, length), piece in zip(ranges, pieces, strict=True):
            if len(piece) < length:
                raise too_short(self.path, name, start, length)
        return [piece.to_bytes() for piece in pieces]

    def files(self, below: str = "", start_after: str = "") -> list[FileInfo]:
        """See `Folder`."""
        above = self._key(below)
        if start_after:
            listed = self._listed(below, f"{above}/{start_after}" if above else start_after)
        else:
            listed = self._listed_here(below)["objects"]
        infos = [_info(meta, above) for meta in listed]
        shown = (info for info in infos if info.name and "/" not in info.name and not info.name.startswith("."))
        return sorted((info for info in shown if info.name > start_after), key=lambda info: info.name)

    def folders(self, below: str = "") -> list[str]:
        """See `Folder`."""
        prefixes = self._listed_here(below)["common_prefixes"]
        names = (prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes)
        return sorted(name for name in names if not name.startswith("."))

    def files_below(self, below: str = "") -> Iterator[FileInfo]:
        """See `Folder`."""
        above = self._key(below)
        infos = [_info(meta, above) for meta in self._listed(below, None)]
        yield from sorted((info for info in infos if info.name), key=lambda info: info.name)

    def info(self, name: str) -> FileInfo | None:
        """See `Folder`."""
        import obstore

        with self._errors(name, "read"):
            try:
                meta = obstore.head(self._client(), self._key(name))
            except FileNotFoundError:
                return None
        return FileInfo(name, meta["size"], meta["last_modified"], _tag(meta))

    def create(self, name: str, data: bytes) -> bool:
        """See `Folder`."""
        import obstore

        key, client, was_sent = self._key(name), _client(self.access, os.getpid(), retries=False), False
        for pause in (*_PAUSES, None):
            try:
                obstore.put(client, key, data, mode="create", use_multipart=False)
                return True
            except (obstore.exceptions.BaseError, OSError, ValueError) as error:
                if isinstance(error, obstore.exceptions.AlreadyExistsError) and not _may_be_free(error):
                    return was_sent and self.read(name) == data
                translated = failure(error, f"{self.path}/{name}", self.access, "write")
                if not getattr(translated, "transient", False):
                    raise translated from error
                there = self._look(name, translated, error)
                if there is not None:
                    return there == data
                if pause is None:
                    raise translated from error
            was_sent = True
            time.sleep(pause)
        raise AssertionError("the last request returns or raises")

    def _look(self, name: str, translated: ChangefeedError, error: Exception) -> bytes | None:
        """Reads a file after an error; if that fails, too, raises the first error."""
        try:
            return self.read(name)
        except ChangefeedError:
            raise translated from error

    def put(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        import obstore

        with self._errors(name, "write"):
            obstore.put(self._client(), self._key(name), data, chunk_size=_PIECE)

    def writer(self, name: str) -> FileWriter:
        """See `Folder`."""
        return _Writer(self, name)

    def move(self, name: str, to: str) -> bool:
        """See `Folder`: the store copies the file, and then deletes it."""
        import obstore

        with self._errors(name, "write"):
            try:
                obstore.copy(self._client(), self._key(name), self._key(to))
            except FileNotFoundError as error:
                if lacks_bucket(error):
                    raise
                return False
        self.delete([name])
        return True

    def delete(self, names: Iterable[str]) -> None:
        """See `Folder`."""
        keys = [self._key(name) for name in names]
        for pause in (*_PAUSES, None) if keys else ():
            try:
                with self._errors("", "delete"):
                    self._delete(keys)
                return
            except SinkError as error:  # the client repeats no POST, which deletes several files
                if pause is None or not error.transient:
                    raise
                time.sleep(pause)

    def _delete(self, keys: list[str]) -> None:
        import obstore

        try:
            obstore.delete(self._client(), keys[0] if len(keys) == 1 else keys)
        except FileNotFoundError as error:  # of Azure and Google; S3 does not report it
            if lacks_bucket(error):
                raise
            for key in keys if len(keys) > 1 else ():
                self._delete([key])

    def subfolder(self, name: str) -> ObjectFolder:
        """See `Folder`."""
        name = checked_name(self.path, name)
        return ObjectFolder(f"{self.path.rstrip('/')}/{name}", self.access, self._key(name)) if name else self

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.root, checked_name(self.path, name)) if part)

    def _client(self) -> ObjectStore:
        return _client(self.access, os.getpid(), retries=True)

    def _listed(self, below: str, offset: str | None) -> list[ObjectMeta]:
        """All objects below a folder, behind an offset."""
        import obstore

        def attempt() -> list[ObjectMeta]:
            with self._errors(below, "list"):
                pages = obstore.list(self._client(), self._key(below) or None, offset=offset, chunk_size=_PAGE)
                return [meta for page in pages for meta in page]

        return _twice(attempt)

    def _listed_here(self, below: str) -> ListResult[Any]:
        """The objects and the folders in a folder."""
        import obstore

        def attempt() -> ListResult[Any]:
            with self._errors(below, "list"):
                return obstore.list_with_delimiter(self._client(), self._key(below) or None)

        return _twice(attempt)

    @contextmanager
    def _errors(self, name: str, deed: Deed) -> Iterator[None]:
        """Translates errors to those of changefeed."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise failure(error, f"{self.path}/{name}".rstrip("/"), self.access, deed) from error


def _twice(attempt: Callable[[], _T]) -> _T:
    """Calls `attempt`, and once more after an error that may pass: the client repeats no request whose answer ends early."""
    try:
        return attempt()
    except SinkError as error:
        if not error.transient:
            raise
        return attempt()


class _Writer(FileWriter):
    """A file that is written in pieces: up to 8 MiB are one put, more are an upload in parts."""

    def __init__(self, folder: ObjectFolder, name: str) -> None:
        import obstore

        self._folder, self._name, self._position = folder, name, 0
        with folder._errors(name, "write"):
            self._file: Any = obstore.open_writer(folder._client(), folder._key(name), buffer_size=_PIECE)

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        with self._folder._errors(self._name, "write"):
            self._file.write(bytes(data))
        length = memoryview(data).nbytes
        self._position += length
        return length

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._folder._errors(self._name, "write"):
                self._file.close()

    def discard(self) -> None:
        """See `FileWriter`."""
        super().close()
        self._file = None


def _may_be_free(error: Exception) -> bool:
    """Whether an answer "conflict" leaves open if the file exists: S3 gives it while another put of the name is not finished."""
    return code_of(error) in ("ConditionalRequestConflict", "OperationAborted")


def _info(meta: ObjectMeta, above: str) -> FileInfo:
    name = meta["path"].removeprefix(above).removeprefix("/") if above else meta["path"]
    return FileInfo(name, meta["size"], meta["last_modified"], _tag(meta))


def _tag(meta: ObjectMeta) -> str:
    return f"{meta['e_tag']} {meta['version']} {meta['last_modified'].isoformat()}"


@lru_cache(maxsize=32)
def _client(access: Access, process: int, *, retries: bool) -> ObjectStore:
    """Opens the client of a bucket, once in a process.

    Raises:
        ConfigError: options or credentials of this machine cannot be used.
        MissingExtraError: obstore is not installed.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise MissingExtraError("Object stores", "spark") from error
    repeated: Any = {
        "max_retries": _RETRIES if retries else 0,
        "retry_timeout": timedelta(seconds=60),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }
    config: Any = dict(access.config)
    common: Any = {"client_options": dict(access.client), "retry_config": repeated}
    try:
        match access.service:
            case "s3":
                options, credentials = local_options(access)
                return S3Store(access.bucket, config=config | options, credential_provider=credentials, **common)
            case "azure":
                return AzureStore(access.bucket, config=config, **common)
            case "google":
                return GCSStore(access.bucket, config=config, **common)
    except (BaseError, OSError, ValueError) as error:
        raise SinkError(f"{access.bucket}: the client cannot be opened: {error}") from error
