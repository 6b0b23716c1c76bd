"""Notes of expiries beside the ledger: folders that are being deleted, and folders that were.

    _changefeed/expiring/<name>.json   what one expiry is about to delete; a run that needs one of the folders waits
    _changefeed/expired/<name>.json    folders that are gone; cuts up to `step` that pin one cannot be read

A command deletes while a pipeline may be running, without Spark, and `status` reads what is gone as it reads the ledger.
`wait_for_expiry` is the run's side of it.
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

from changefeed.errors import ConfigError, MissingExtraError, SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.planning.actions import Plan, paths_of
from changefeed.pipeline.state import State
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.spark_runtime.files import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_PATIENCE = 60.0  # seconds that a run waits for folders to be deleted
_ALIVE = timedelta(hours=1)  # how long an expiry of another machine is believed to be at work


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Folders that one expiry deletes.

    Attributes:
        name: of its file.
        at: when it began; host and pid of the process that did.
        step: of the newest cut then; a later cut that pins one of the paths means another table.
        paths: of the folders, below the sink's path.
        settled: the ledger was asked after the note was there: these folders go, and some may be gone.
    """

    name: str
    at: datetime
    host: str
    pid: int
    step: int
    paths: tuple[str, ...]
    settled: bool = False  # prose: stored under this name

    def died(self) -> bool:
        """Whether its process has ended."""
        if self.host != socket.gethostname():
            return datetime.now(UTC) - self.at > _ALIVE
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return self.pid == os.getpid()


class Gone(msgspec.Struct, frozen=True):
    """A folder that is gone since `at`: cuts up to `step` that pin it cannot be read."""

    path: str
    step: int
    at: datetime


def gone(own: str) -> list[Gone]:
    """Every folder that is gone, or about to go; `own` is the pipeline's own folder.

    Raises:
        SinkError: they cannot be read.
    """
    return _distinct(_files(f"{own}/expired", list[Gone]))


def wait_for_expiry(definition: Definition, spark: SparkSession, plan: Plan, state: State) -> None:
    """Lets `changefeed expire` end before a path is used that the tables do not use; see rule 3 of `expire.py`.

    Args:
        definition: the pipeline.
        spark: a session that can read its sink.
        plan: that is begun, and is about to be carried out.
        state: before it.

    Raises:
        SinkError: it does not end.
    """
    if paths_of(plan) <= {table.path for table in state.tables.values()}:
        return
    folder, files = file_system(spark, f"{own_folder(definition)}/expiring")
    until = time.monotonic() + _PATIENCE
    while files.exists(folder) and len(files.listStatus(folder)):
        if time.monotonic() > until:
            raise SinkError(
                f"{folder}: `changefeed expire` is deleting folders, or died at it. Run it again, and then this",
                transient=True,
            )
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Notes:
    """The open notes of one pipeline, and the deleting that they are about.

    Attributes:
        root: the sink's path, where the folders lie.
        own: the pipeline's own folder.
    """

    root: str
    own: str

    def left_behind(self) -> list[Note]:
        """Finishes what an interrupted expiry began.

        Raises:
            ConfigError: one is still at work.
        """
        notes = list(self._open())
        for note in notes:
            if not note.died():
                raise ConfigError(
                    f"another `changefeed expire` has been at work since {note.at:%Y-%m-%d %H:%M:%S}Z (process {note.pid} "
                    f"on {note.host}): wait for it. One on another machine that died is taken over after an hour"
                )
        return notes

    def begin(self, step: int, paths: tuple[str, ...]) -> Note:
        """Writes down what will go."""
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
        """Writes down that the folders are gone, and deletes them, each log first: no half of a table can be read.

        Raises:
            SinkError: a folder cannot be deleted; the note stays open.
        """
        self._write(msgspec.structs.replace(note, settled=True))
        if note.paths:
            self._add(note)
        system, root = _system(self.root)
        for path in note.paths:
            for folder in (f"{root}/{path}/_delta_log", f"{root}/{path}"):
                try:
                    if system.exists(folder):
                        system.rm(folder, recursive=True)
                except OSError as error:
                    raise SinkError(f"{folder}: {error}; run `changefeed expire` again", transient=True) from error
        system, own = _system(self.own)
        system.rm_file(f"{own}/expiring/{note.name}.json")

    def _open(self) -> Iterator[Note]:
        yield from _files(f"{self.own}/expiring", Note).values()

    def _add(self, note: Note) -> None:
        """Adds the note's folders to those that are gone, which are one file most of the time."""
        before = _files(f"{self.own}/expired", list[Gone])
        name, new = uuid.uuid4().hex, [Gone(path, note.step, note.at) for path in note.paths]
        self._put(f"expired/{name}.json", _distinct({**before, name: new}))
        system, own = _system(self.own)
        for old in before:
            system.rm_file(f"{own}/expired/{old}")

    def _write(self, note: Note) -> None:
        self._put(f"expiring/{note.name}.json", note)

    def _put(self, name: str, value: Any) -> None:
        """Makes a file whole or not at all."""
        system, own = _system(self.own)
        system.makedirs(f"{own}/{name.partition('/')[0]}", exist_ok=True)
        unfinished = f"{own}/.{uuid.uuid4().hex}.new"  # not beside the others: a run waits for whatever lies there
        system.pipe_file(unfinished, msgspec.json.encode(value))
        system.mv(unfinished, f"{own}/{name}")


def _distinct(files: Mapping[str, list[Gone]]) -> list[Gone]:
    """The folders of all files, each once."""
    return list(dict.fromkeys(one for ones in files.values() for one in ones))


def _files(folder: str, kind: type[_T]) -> dict[str, _T]:
    """File name -> what is in it, of the JSON files in a folder; none when there is no folder.

    Raises:
        SinkError: one cannot be read.
    """
    above, _, below = folder.rpartition("/")
    there = folder_to_read(above)
    values = dict[str, _T]()
    while True:
        names = {name for name in there.names(below) if name.endswith(".json")}
        values = {name: one for name, one in values.items() if name in names}
        for name in sorted(names - values.keys()):
            data = there.read(f"{below}/{name}")
            if data is None:
                break  # an expiry has just ended; its notes are in another file now
            try:
                values[name] = msgspec.json.decode(data, type=kind)
            except msgspec.DecodeError as error:
                raise SinkError(
                    f"{folder}/{name} was damaged: {error}. Restore it from a copy of the folder"
                ) from error
        else:
            return values


def _system(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("Deleting folders without Spark", "spark") from error
    try:
        system, folder = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise ConfigError(f"{url}: {error} (`changefeed expire` deletes by fsspec, without Spark)") from error
    return system, str(folder).rstrip("/")
