"""Reads the log of a table in a local folder: its newest checkpoint, and the commits after it.

    00000000000000000010.checkpoint.parquet ──▶ state at version 10
    00000000000000000011.json               ──▶ state at version 11
    00000000000000000012.json               ──▶ state at version 12, the newest

`TableLog` keeps the state that it has read, and then reads later commits alone. The state is read from the start again if the
file of its newest commit is no longer the same file: the table was made again, or an older copy was restored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import DamagedError, SinkError
from changefeed.sinks.delta.actions import LogAction, actions_of
from changefeed.sinks.delta.log_names import checkpoint_version, commit_name, commit_version
from changefeed.sinks.ways_out import TABLE_DAMAGED

_OWN = "changefeed:"  # owner texts of pipelines, whose writes have growing numbers
_MAPS = ("partitionValues", "tags", "configuration", "options")  # pyarrow returns them as pairs
_KINDS = ("add", "protocol", "metaData", "txn")  # of the actions in a checkpoint

_File = tuple[int, int, int]  # inode, time of the last change in nanoseconds, size


@dataclass(frozen=True)
class LogState:
    """A table at one version.

    Attributes:
        files: path in the log -> the `add` action of the data file.
        protocol, metadata: the newest action of each kind.
        transactions: application -> its last transaction version.
    """

    version: int = -1
    files: Mapping[str, LogAction] = field(default_factory=dict)
    protocol: LogAction = field(default_factory=dict)
    metadata: LogAction = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def fields(self) -> list[LogAction]:
        """The columns, as fields of a Delta schema."""
        fields: list[LogAction] = json.loads(self.metadata["schemaString"])["fields"]
        return fields

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.get("configuration") or {}

    def after(self, version: int, actions: Iterable[LogAction]) -> LogState:
        """Returns the state at a later version, after the actions of the commits in between."""
        files, transactions = {**self.files}, {**self.transactions}
        protocol, metadata = self.protocol, self.metadata
        for action in actions:
            match action:
                case {"add": dict(file)}:
                    files[file["path"]] = file
                case {"remove": dict(file)}:
                    there = files.get(file["path"])
                    if there is not None and vector(there) == vector(file):
                        del files[file["path"]]
                case {"protocol": dict(changed)}:
                    protocol = changed
                case {"metaData": dict(changed)}:
                    metadata = changed
                case {"txn": dict(transaction)}:
                    application, last = transaction["appId"], transaction["version"]
                    if application.startswith(_OWN) and last <= transactions.get(application, -1):
                        raise _RepeatedError(f"write {last} of {application} is there twice, up to version {version}")
                    transactions[application] = last
        return LogState(version, files, protocol, metadata, transactions)


class _RepeatedError(Exception):
    """A commit of a pipeline is there again, where another one was."""


class TableLog:
    """The log of a table in a local folder."""

    def __init__(self, path: str | Path) -> None:
        """`path`: the table's folder, which need not exist."""
        self.path = str(path)
        self._read: tuple[LogState, _File | None] | None = None  # the file is that of the newest commit

    def read(self) -> LogState | None:
        """Reads the newest state; None if there is no table.

        Raises:
            SinkError: the log cannot be read.
        """
        log = Path(self.path) / "_delta_log"
        with _readable(self.path):
            if (known := self._known(log)) is None:
                self._read = _state(log, None)
            else:
                self._read = _later(log, *known)
        return None if self._read is None else self._read[0]

    def _known(self, log: Path) -> tuple[LogState, _File] | None:
        """Returns what was read, if the file of its newest commit exists and is unchanged."""
        if self._read is None:
            return None
        state, file = self._read
        return (state, file) if file is not None and _file(log / commit_name(state.version)) == file else None


def state(path: str | Path, version: int | None = None) -> LogState:
    """Reads the state of the table in a local folder at a version, by default the newest.

    Raises:
        SinkError: there is no table, or its log cannot be read.
    """
    with _readable(path):
        read = _state(Path(path) / "_delta_log", version)
    if read is None:
        raise SinkError(f"{path}: there is no table")
    return read[0]


def lost_checkpoint(path: str | Path) -> Path | None:
    """Returns the file that names the last checkpoint, if neither that checkpoint nor a later one exists; else None.

    Spark and `state` read such a table from its commits, but delta-rs does not read it.

    Raises:
        SinkError: the log cannot be read.
    """
    named = Path(path) / "_delta_log" / "_last_checkpoint"
    with _readable(path):
        try:
            version = msgspec.json.decode(named.read_bytes(), type=dict)["version"]
        except FileNotFoundError:
            return None
        _, checkpoints = _names(named.parent, None)
        return None if any(there >= version for there in checkpoints) else named


def vector(file: LogAction) -> tuple[Any, ...]:
    """Returns a key for a data file's deletion vector, which differs from that of every earlier vector of the file."""
    descriptor = file.get("deletionVector") or {}
    return descriptor.get("storageType"), descriptor.get("pathOrInlineDv"), descriptor.get("offset")


def _state(log: Path, version: int | None) -> tuple[LogState, _File | None] | None:
    """Reads the state at a version, and the file of that version's commit; None if the log is empty or does not exist."""
    commits, checkpoints = _names(log, version)
    begin, parts = max(checkpoints.items(), default=(-1, []))
    last = max(begin, *commits, -1) if version is None else version
    if last < 0:
        return None
    later, newest = [], None
    for number in range(begin + 1, last + 1):
        actions, newest = _commit(log / commit_name(number))
        later.append(actions)
    checkpoint = chain.from_iterable(map(_of_checkpoint, parts))
    state = LogState().after(last, chain(checkpoint, *later))
    if not (state.protocol and state.metadata):
        raise ValueError(f"version {last} has no metadata")
    return state, newest if later else _file(log / commit_name(last))


def _later(log: Path, state: LogState, newest: _File) -> tuple[LogState, _File]:
    """Applies the commits after a state."""
    while True:
        try:
            actions, file = _commit(log / commit_name(state.version + 1))
        except FileNotFoundError:
            return state, newest
        state, newest = state.after(state.version + 1, actions), file


def _names(log: Path, version: int | None) -> tuple[list[int], dict[int, list[Path]]]:
    """Lists the versions of the commits up to a version, and the files of its complete checkpoints, by version."""
    commits, parts = list[int](), dict[tuple[int, int], list[Path]]()
    try:
        names = sorted(os.listdir(log))
    except (FileNotFoundError, NotADirectoryError):
        return [], {}
    for name in names:
        commit, checkpoint = commit_version(name), checkpoint_version(name)
        if commit is not None and (version is None or commit <= version):
            commits.append(commit)
        if checkpoint is not None and (version is None or checkpoint[0] <= version):
            of, count = checkpoint
            if count is not None:
                parts.setdefault((of, count), []).append(log / name)
    return commits, {of: files for (of, count), files in parts.items() if len(files) == count}


def _file(path: Path) -> _File | None:
    """Identifies a file; None if there is none."""
    try:
        return _identity(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identity(stat: os.stat_result) -> _File:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _commit(path: Path) -> tuple[list[LogAction], _File]:
    """Reads the actions of a commit, removes first: a file that gets a deletion vector is removed and added again."""
    with path.open("rb") as file:
        identity, text = _identity(os.fstat(file.fileno())), file.read()
    try:
        actions = actions_of(text)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: {error}. {TABLE_DAMAGED}") from error
    return sorted(actions, key=lambda action: "remove" not in action), identity


def _of_checkpoint(file: Path) -> Iterator[LogAction]:
    with pq.ParquetFile(file) as parquet:
        wanted = [name for name in _KINDS if name in parquet.schema_arrow.names]
        leaves = [path for path in _paths(parquet) if path.split(".")[0] in wanted and "_parsed" not in path]
        for batch in parquet.iter_batches(columns=leaves):
            for name in batch.schema.names:
                for value in batch.column(name).drop_null().to_pylist():
                    yield {name: _plain(value)}


def _paths(parquet: Any) -> Sequence[str]:
    return [parquet.schema.column(i).path for i in range(len(parquet.schema))]


def _plain(value: LogAction) -> LogAction:
    """Converts an action of a checkpoint to the form of JSON: without NULLs, and with maps as objects."""
    fields: LogAction = {}
    for name, one in value.items():
        if one is None:
            continue
        if name in _MAPS:
            one = dict(one)
        elif isinstance(one, dict):
            one = _plain(one)
        fields[name] = one
    return fields


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Converts the errors of reading a log."""
    try:
        yield
    except _RepeatedError as error:
        raise DamagedError(
            f"{path}: a commit in the table's log is a copy of an older one: {error}. {TABLE_DAMAGED}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError, pa.ArrowException) as error:
        raise SinkError(f"{path}: the table's log cannot be read: {error}", transient=True) from error
