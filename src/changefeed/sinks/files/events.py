"""A folder of record logs as an event sink: one Parquet file for each append.

    00000000000000000001.parquet     records with the columns of Spark's Kafka source; in the footer, as JSON under the name
    00000000000000000002.parquet     `changefeed.append`: the marks of all owners, and where each partition ends
    .unfinished/…                    temporary files

Rule 1. File n + 1 is created atomically by a writer that has read the footer of file n. If n + 1 exists already, another
writer was faster, and the append was not made. So an older run that wakes up finds its number taken.
Rule 2. Files are never changed. A program that deletes old files must keep the newest one, and those that are younger than any
pause of a run: if a number became free again, an older run could write.
Rule 3. The folder is one record log, in the order of names, for `changefeed decode FOLDER`; `FOLDER/*.parquet` is a source
of type `files`.
"""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import SinkError
from changefeed.local_files import link_new, make_folder, sync
from changefeed.model.batch import Decoded
from changefeed.protocols.base import Encoder
from changefeed.sinks.events import AppendEncoder, Ends, Mark, is_made, made_by, mark_of, numbered, overtaken
from changefeed.sinks.writes import WriteId

_SUFFIX = ".parquet"
_UNFINISHED = ".unfinished"
_FOOTER = b"changefeed.append"
_FORMAT = 1
_PASSING = (
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.ENOSPC,
    errno.EDQUOT,
)


class _Footer(msgspec.Struct, frozen=True):
    """The footer of a file: the state of the folder after it.

    Attributes:
        owner: owner text of the pipeline that wrote the file.
        marks: owner -> the mark of its last append.
        ends: the next offset of each partition.
    """

    format: int
    owner: str
    marks: dict[str, Mark]
    ends: Ends


_EMPTY = _Footer(_FORMAT, "", {}, {})


@dataclass(slots=True)
class FileEvents:
    """The event sink of one pipeline in a folder of this machine.

    Attributes:
        path: the folder; created by the first append.
        encoder: creates an encoder of the protocol.
    """

    path: str
    encoder: Callable[[], Encoder]
    owner: str = ""
    atomic: bool = True
    _writing: AppendEncoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._writing = AppendEncoder(self.encoder)

    @property
    def location(self) -> str:
        """See `EventSink`."""
        return self.path

    def owned_by(self, owner: str) -> FileEvents:
        """See `EventSink`."""
        return replace(self, owner=owner)

    def check(self) -> None:
        """See `EventSink`: creates a file in the folder, or in its nearest parent, and deletes it."""
        there = next(parent for parent in (Path(self.path), *Path(self.path).absolute().parents) if parent.exists())
        with _named(self.path), tempfile.TemporaryFile(dir=there):
            pass

    def last(self) -> WriteId | None:
        """See `EventSink`."""
        mark = self._newest()[1].marks.get(self.owner)
        return None if mark is None else mark.write_id

    def made(self) -> WriteId | None:
        """See `EventSink`."""
        return made_by(self._newest()[1].marks.get(self.owner))

    def append(self, changes: Decoded, write_id: WriteId, note: str) -> None:
        """See `EventSink`."""
        number, footer = self._newest()
        last = footer.marks.get(self.owner)
        if is_made(self.location, last, write_id):
            return
        try:
            records, numbering = self._writing.records(changes, last)
            records, ends = numbered(records, footer.ends)
            marks = {**footer.marks, self.owner: mark_of(write_id, numbering, note, last)}
            if not self._put(number + 1, records, _Footer(_FORMAT, self.owner, marks, ends)):
                raise overtaken(self.location, self._newest()[1].marks.get(self.owner), write_id)
        except BaseException:
            self._writing.forget()
            raise

    def close(self) -> None:
        """See `EventSink`."""
        self._writing.forget()

    def _newest(self) -> tuple[int, _Footer]:
        """Returns the number of the newest file, and its footer; 0 if there is no file."""
        with _named(self.path):
            try:
                names = [name for name in os.listdir(self.path) if name.endswith(_SUFFIX) and name[0] not in "._"]
            except FileNotFoundError:
                names = []
        if not names:
            return 0, _EMPTY
        name = max(names)
        file = f"{self.path}/{name}"
        stem = name.removesuffix(_SUFFIX)
        if not (stem.isdecimal() and len(stem) == 20):
            raise SinkError(f"{file} is not a file of an event sink. Set another folder for the sink")
        return int(stem), _footer_of(file)

    def _put(self, number: int, records: pa.RecordBatch, footer: _Footer) -> bool:
        """Creates a file; returns False if a file with this number exists."""
        path = f"{self.path}/{number:020}{_SUFFIX}"
        unfinished = f"{self.path}/{_UNFINISHED}/{uuid.uuid4().hex}"
        with _named(path):
            make_folder(os.path.dirname(unfinished))
            try:
                with pq.ParquetWriter(unfinished, records.schema) as writer:
                    writer.write_batch(records)
                    writer.add_key_value_metadata({_FOOTER: msgspec.json.encode(footer)})
                sync(unfinished)
                return link_new(unfinished, path, self.path)
            finally:
                with suppress(OSError):
                    os.unlink(unfinished)


def _footer_of(file: str) -> _Footer:
    with _named(file):
        try:
            metadata = pq.read_metadata(file).metadata or {}
            footer = msgspec.json.decode(metadata[_FOOTER], type=_Footer)
        except (KeyError, pa.ArrowInvalid, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SinkError(
                f"{file} is not a file of an event sink: {error}. Set another folder for the sink"
            ) from error
    if footer.format > _FORMAT:
        raise SinkError(f"{file}: written by a newer changefeed, in format {footer.format}; this one reads {_FORMAT}")
    return footer


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Translates an OSError to a SinkError that names the file."""
    try:
        yield
    except OSError as error:
        raise SinkError(f"{path}: {error.strerror or error}", transient=error.errno in _PASSING) from error
