"""Notes of expiries beside the ledger: folders that are being deleted, and folders that were.

    _changefeed/expiring/<name>.json   folders that one expiry is about to delete; a run that needs one of them waits
    _changefeed/expired/<name>.json    folders that were deleted; cuts up to `step` that use one cannot be read

`expire` deletes without Spark, also while the pipeline runs; a run waits in `wait_for_expiry`. `status` reads these notes
together with the ledger.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from changefeed.errors import ConfigError, SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.planning.actions import Plan, paths_of
from changefeed.pipeline.state import State
from changefeed.pipeline.store.hadoop import folder_of_session, folder_to_read
from changefeed.sinks.base import TableSink
from changefeed.spark_runtime.files import file_system_without_spark
from changefeed.storage.folders import folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_PATIENCE = 60.0  # seconds that a run waits for folders to be deleted
_ALIVE = timedelta(hours=1)  # how long an expiry of another machine is believed to be at work


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note about the folders that one expiry deletes.

    Attributes:
        name: name of the note's file.
        at: when the expiry began.
        host, pid: host name and process id of the expiry.
        step: step of the newest cut at that time; a later cut that uses one of the paths means another table.
        paths: the folders, below the sink's path.
        settled: the ledger has been read after the note was written: the folders are being deleted, some may be gone.
    """

    name: str
    at: datetime
    host: str
    pid: int
    step: int
    paths: tuple[str, ...]
    settled: bool = False  # prose: stored under this name

    def died(self) -> bool:
        """Whether the process of the expiry has ended."""
        if self.host != socket.gethostname():
            return datetime.now(UTC) - self.at > _ALIVE
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return self.pid == os.getpid()


class DeletedFolder(msgspec.Struct, frozen=True):
    """A folder that was deleted at `at`: cuts up to `step` that use it cannot be read."""

    path: str
    step: int
    at: datetime


def read_deleted_folders(definition: Definition) -> list[DeletedFolder]:
    """Returns every folder that is deleted or about to be deleted.

    Raises:
        SinkError: the notes cannot be read.
    """
    return _distinct(_files(definition, "expired", list[DeletedFolder]))


def wait_for_expiry(definition: Definition, spark: SparkSession, plan: Plan, state: State) -> None:
    """Waits until `changefeed expire` ends, if a plan needs a path that the tables do not use; see rule 3 of `expire.py`.

    Args:
        definition: the pipeline.
        spark: a session that can read the pipeline's sink.
        plan: the begun plan, which is about to be carried out.
        state: the state before the plan.

    Raises:
        SinkError: `expire` does not end.
    """
    if paths_of(plan) <= {table.path for table in state.tables.values()}:
        return
    folder = folder_of_session(spark, own_folder(definition), definition.storage)
    until = time.monotonic() + _PATIENCE
    while folder.names("expiring"):
        if time.monotonic() > until:
            raise SinkError(
                f"{folder.path}/expiring: `changefeed expire` is deleting folders, or was interrupted. Run it again, then run "
                "this again",
                transient=True,
            )
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Notes:
    """Writes the notes of one pipeline's expiries, and deletes the folders that they name.

    Attributes:
        sink: the sink, which contains the folders.
        definition: the pipeline, in whose own folder the notes are.
    """

    sink: TableSink
    definition: Definition

    def left_behind(self) -> list[Note]:
        """Finishes an interrupted expiry.

        Raises:
            ConfigError: another expiry is still running.
        """
        notes = list(self._open())
        for note in notes:
            if not note.died():
                raise ConfigError(
                    f"another `changefeed expire` has been running since {note.at:%Y-%m-%d %H:%M:%S}Z (process {note.pid} "
                    f"on {note.host}): wait for it. If it has died on another machine, run this command an hour after it began"
                )
        return notes

    def begin(self, step: int, paths: tuple[str, ...]) -> Note:
        """Writes a note that names the folders that will be deleted."""
        note = Note(
            name=uuid.uuid4().hex,
            at=datetime.now(UTC),
            host=socket.gethostname(),
            pid=os.getpid(),
            step=step,
            paths=paths,
        )
        self._write(note)
        return note

    def carry_out(self, note: Note) -> None:
        """Records that the folders are gone, and deletes them.

        Raises:
            SinkError: a folder cannot be deleted; the note stays open.
        """
        self._write(msgspec.structs.replace(note, settled=True))
        if note.paths:
            self._add(note)
        for path in note.paths:
            try:
                self.sink.delete(path)
            except SinkError as error:
                raise SinkError(f"{error}; run `changefeed expire` again", transient=True) from error
        self._delete([f"expiring/{note.name}.json"])

    def _open(self) -> Iterator[Note]:
        yield from _files(self.definition, "expiring", Note).values()

    def _add(self, note: Note) -> None:
        """Adds the note's folders to the file of deleted folders (usually a single file)."""
        before = _files(self.definition, "expired", list[DeletedFolder])
        name, new = uuid.uuid4().hex, [DeletedFolder(path, note.step, note.at) for path in note.paths]
        self._put(f"expired/{name}.json", _distinct({**before, name: new}))
        self._delete([f"expired/{old}" for old in before])

    def _write(self, note: Note) -> None:
        self._put(f"expiring/{note.name}.json", note)

    def _put(self, name: str, value: Any) -> None:
        """Writes a file atomically."""
        path, data = own_folder(self.definition), msgspec.json.encode(value)
        folder = folder_at(path, self.definition.storage, self.definition.spark)
        if folder is not None:
            folder.put(name, data)
            return
        system, root = file_system_without_spark(path)
        system.makedirs(f"{root}/{name.partition('/')[0]}", exist_ok=True)
        unfinished = f"{root}/.{uuid.uuid4().hex}.new"  # not beside the others: a run waits for whatever lies there
        system.pipe_file(unfinished, data)
        system.mv(unfinished, f"{root}/{name}")

    def _delete(self, names: list[str]) -> None:
        path = own_folder(self.definition)
        folder = folder_at(path, self.definition.storage, self.definition.spark)
        if folder is not None:
            folder.delete(names)
            return
        system, root = file_system_without_spark(path)
        for name in names:
            system.rm_file(f"{root}/{name}")


def _distinct(files: Mapping[str, list[DeletedFolder]]) -> list[DeletedFolder]:
    """The folders of all files, each once."""
    return list(dict.fromkeys(one for ones in files.values() for one in ones))


def _files(definition: Definition, below: str, kind: type[_T]) -> dict[str, _T]:
    """Returns name -> content of the JSON files in a folder of the pipeline; empty if it does not exist.

    Raises:
        SinkError: a file cannot be read.
    """
    folder = folder_to_read(own_folder(definition), definition.storage, definition.spark)
    values = dict[str, _T]()
    while True:
        names = {name for name in folder.names(below) if name.endswith(".json")}
        values = {name: one for name, one in values.items() if name in names}
        for name in sorted(names - values.keys()):
            data = folder.read(f"{below}/{name}")
            if data is None:
                break  # an expiry has just ended; its notes are in another file now
            try:
                values[name] = msgspec.json.decode(data, type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                file = f"{folder.path}/{below}/{name}"
                raise SinkError(f"{file} is damaged: {error}. Restore it from a copy of the folder") from error
        else:
            return values
