"""Reads the log of a table: its newest checkpoint, and the commits after it.

    00000000000000000010.checkpoint.parquet ──▶ state at version 10
    00000000000000000011.json               ──▶ state at version 11
    00000000000000000012.json               ──▶ state at version 12, the newest

`TableLog` keeps the state that it has read, and then reads later commits alone. The state is read from the start again if the
file of its newest commit is no longer the same file: the table was made again, or an older copy was restored. If the pipeline
has committed to that state since, this is an error, as it is if the commit is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import DamagedError, SinkError
from changefeed.sinks.delta.actions import LogAction, checked_actions_of
from changefeed.sinks.delta.log_names import checkpoint_version, commit_name, commit_version
from changefeed.sinks.ways_out import TABLE_CHANGED, TABLE_DAMAGED
from changefeed.storage import Folder

_OWN = "changefeed:"  # owner texts of pipelines, whose writes have growing numbers
_MAPS = ("partitionValues", "tags", "configuration", "options")  # pyarrow returns them as pairs
_KINDS = ("add", "protocol", "metaData", "txn")  # of the actions in a checkpoint

_LOG = "_delta_log"
_LAST_CHECKPOINT = f"{_LOG}/_last_checkpoint"


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


@dataclass(frozen=True, slots=True)
class _Made:
    """A commit that was made after the last read: its version, and the transaction in it."""

    version: int
    application: str
    number: int


class TableLog:
    """Reads the log of one table again and again, and keeps what it has read."""

    def __init__(self, folder: Folder) -> None:
        """`folder`: the table's folder, which need not exist."""
        self.folder = folder
        self._read: tuple[LogState, str | None] | None = None  # and the tag of the newest commit's file
        self._made: _Made | None = None

    def read(self) -> LogState | None:
        """Reads the newest state; None if there is no table.

        Raises:
            DamagedError: the commit of `made` is gone or replaced, or the one before it is replaced.
            SinkError: the log cannot be read.
        """
        with _readable(self.folder):
            before, tag = self._read, self._tag()
            is_same = before is not None and tag is not None and tag == before[1]
            now = _later(self.folder, *before) if before is not None and is_same else _state(self.folder, None)
        state = None if now is None else now[0]
        if self._made is not None:  # it remains if this raises, so that every later read raises, too
            self._check_made(self._made, state, is_replaced=tag is not None and not is_same)
        self._read, self._made = now, None
        return state

    def known(self, version: int) -> LogState | None:
        """Returns the state that was read last, without a request; None if that is another version, or not the newest."""
        if self._read is None or self._read[1] is None or self._made is not None:
            return None
        return self._read[0] if self._read[0].version == version else None

    def made(self, version: int, application: str, number: int) -> None:
        """Notes that a version was committed to the state that was read last; the next `read` looks whether it is there."""
        self._made = _Made(version, application, number)

    def _tag(self) -> str | None:
        """The tag that the file of the newest commit that was read has now; None if there was no such file, or is none now."""
        if self._read is None or self._read[1] is None:
            return None
        return _tag(self.folder, self._read[0].version)

    def _check_made(self, made: _Made, state: LogState | None, *, is_replaced: bool) -> None:
        """Checks that a commit is in the log, and was made to the state that was read before it.

        A higher transaction is that of a newer run, which may have made the table again.
        """
        last = -1 if state is None else state.transactions.get(made.application, -1)
        if last < made.number or (last == made.number and is_replaced):
            raise DamagedError(
                f"{self.folder.path}: while version {made.version} was written, another program has replaced files of the "
                f"table's log. {TABLE_CHANGED}"
            )


def state(folder: Folder, version: int | None = None) -> LogState:
    """Reads the state of a table at a version, by default the newest.

    Raises:
        SinkError: there is no table, or its log cannot be read.
    """
    with _readable(folder):
        read = _state(folder, version)
    if read is None:
        raise SinkError(f"{folder.path}: there is no table")
    return read[0]


def lost_checkpoint(folder: Folder) -> str | None:
    """Returns the file that names the last checkpoint, if neither that checkpoint nor a later one exists; else None.

    Spark and `state` read such a table from its commits, but delta-rs does not read it.

    Raises:
        SinkError: the log cannot be read.
    """
    with _readable(folder):
        version = _last_checkpoint(folder)
        if version is None:
            return None
        _, checkpoints = _names(folder, None)
        return None if any(there >= version for there in checkpoints) else _LAST_CHECKPOINT


def vector(file: LogAction) -> tuple[Any, ...]:
    """Returns a key for a data file's deletion vector, which differs from that of every earlier vector of the file."""
    descriptor = file.get("deletionVector") or {}
    return descriptor.get("storageType"), descriptor.get("pathOrInlineDv"), descriptor.get("offset")


def _state(folder: Folder, version: int | None) -> tuple[LogState, str | None] | None:
    """Reads the state at a version, and the tag of that version's commit; None if the log is empty or does not exist."""
    commits, checkpoints = _newest_names(folder) if version is None else _names(folder, version)
    begin, parts = max(checkpoints.items(), default=(-1, []))
    last = max(begin, *commits, -1) if version is None else version
    if last < 0:
        return None
    tag = _tag(folder, last)
    numbers = range(begin + 1, last + 1)
    texts = folder.read_all([f"{_LOG}/{commit_name(number)}" for number in numbers])
    later = [_actions(folder, number, text) for number, text in zip(numbers, texts, strict=True)]
    checkpoint = chain.from_iterable(_of_checkpoint(folder, part) for part in parts)
    state = LogState().after(last, chain(checkpoint, *later))
    if not (state.protocol and state.metadata):
        raise ValueError(f"version {last} has no metadata")
    return state, tag


def _later(folder: Folder, state: LogState, tag: str | None) -> tuple[LogState, str | None]:
    """Applies the commits after a state."""
    while True:
        number = state.version + 1
        read = folder.read_with_tag(f"{_LOG}/{commit_name(number)}")
        if read is None:
            return state, tag
        text, tag = read
        state = state.after(number, _actions(folder, number, text))


def _newest_names(folder: Folder) -> tuple[list[int], dict[int, list[str]]]:
    """Lists versions and checkpoints as `_names`, from the last checkpoint on if it exists: one page, however long the log."""
    last = _last_checkpoint(folder)
    if last is not None:
        commits, checkpoints = _names(folder, None, start_after=f"{last:020d}")
        if checkpoints:
            return commits, checkpoints
    return _names(folder, None)


def _last_checkpoint(folder: Folder) -> int | None:
    text = folder.read(_LAST_CHECKPOINT)
    return None if text is None else int(msgspec.json.decode(text, type=dict)["version"])


def _names(folder: Folder, version: int | None, start_after: str = "") -> tuple[list[int], dict[int, list[str]]]:
    """Lists the versions of the commits up to a version, and the files of its complete checkpoints, by version."""
    commits, parts = list[int](), dict[tuple[int, int], list[str]]()
    for name in folder.names(_LOG, start_after):
        commit, checkpoint = commit_version(name), checkpoint_version(name)
        if commit is not None and (version is None or commit <= version):
            commits.append(commit)
        if checkpoint is not None and (version is None or checkpoint[0] <= version):
            of, count = checkpoint
            if count is not None:
                parts.setdefault((of, count), []).append(name)
    return commits, {of: files for (of, count), files in parts.items() if len(files) == count}


def _tag(folder: Folder, version: int) -> str | None:
    """Identifies the file of a commit; None if there is none."""
    info = folder.info(f"{_LOG}/{commit_name(version)}")
    return None if info is None else info.tag


def _actions(folder: Folder, version: int, text: bytes | None) -> list[LogAction]:
    """Reads the actions of a commit, removes first: a file that gets a deletion vector is removed and added again."""
    if text is None:
        raise FileNotFoundError(f"{commit_name(version)} is missing")
    try:
        actions = checked_actions_of(text)
    except ValueError as error:
        path = f"{folder.path}/{_LOG}/{commit_name(version)}"
        raise DamagedError(f"{path} is damaged: {error}. {TABLE_DAMAGED}") from error
    return sorted(actions, key=lambda action: "remove" not in action)


def _of_checkpoint(folder: Folder, name: str) -> Iterator[LogAction]:
    data = folder.read(f"{_LOG}/{name}")
    if data is None:
        raise FileNotFoundError(f"checkpoint {name} is missing")
    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
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
def _readable(folder: Folder) -> Iterator[None]:
    """Converts the errors of reading a log."""
    try:
        yield
    except _RepeatedError as error:
        raise DamagedError(
            f"{folder.path}: a commit in the table's log is a copy of an older one: {error}. {TABLE_DAMAGED}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError, pa.ArrowException) as error:
        raise SinkError(f"{folder.path}: the table's log cannot be read: {error}", transient=True) from error
