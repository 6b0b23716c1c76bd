"""A table's log in a local folder, as the actions of the Delta protocol: the newest checkpoint, and the commits after it.

delta-rs reads the log too, and for plain tables that is enough. It does not return what a commit of deletion vectors needs:
the entries of data files as they are, with their descriptors and statistics, and the metadata and protocol word by word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import SinkError

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_MAPS = ("partitionValues", "tags", "configuration", "options")  # pyarrow returns them as pairs

Action = dict[str, Any]


@dataclass(slots=True)
class State:
    """A table at one version.

    Attributes:
        files: path, as the log has it -> `add` of each data file.
        protocol, metadata: the newest of each.
    """

    version: int
    files: dict[str, Action] = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)

    def apply(self, action: Action) -> None:
        """Takes the next action of the log."""
        match action:
            case {"add": dict(file)}:
                self.files[file["path"]] = file
            case {"remove": dict(file)}:
                there = self.files.get(file["path"])
                if there is not None and vector(there) == vector(file):
                    del self.files[file["path"]]
            case {"protocol": dict(protocol)}:
                self.protocol = protocol
            case {"metaData": dict(metadata)}:
                self.metadata = metadata


def vector(file: Action) -> tuple[Any, ...]:
    """The identity of a data file's deletion vector among all that the file has had."""
    descriptor = file.get("deletionVector") or {}
    return descriptor.get("storageType"), descriptor.get("pathOrInlineDv"), descriptor.get("offset")


def state(path: str | Path, version: int) -> State:
    """The table in a local folder at a version.

    Raises:
        SinkError: its log cannot be read.
    """
    table = State(version)
    for action in actions(path, version, ("add", "protocol", "metaData")):
        table.apply(action)
    return table


def actions(path: str | Path, version: int, columns: Sequence[str]) -> Iterator[Action]:
    """The actions up to a version: these kinds of the newest checkpoint, and all of the commits after it.

    Within a commit removes come first: the entry of a file that gets a deletion vector is replaced.

    Raises:
        SinkError: the log cannot be read.
    """
    log = Path(path) / "_delta_log"
    try:
        begin, files = _newest_checkpoint(log, version)
        for file in files:
            yield from _of_checkpoint(file, columns)
        for number in range(begin + 1, version + 1):
            lines = (log / f"{number:020d}.json").read_bytes().split(b"\n")  # texts may hold other ends of lines
            yield from sorted((json.loads(line) for line in lines if line.strip()), key=lambda a: "remove" not in a)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise SinkError(f"{path}: the table's log cannot be read: {error}", transient=True) from error


def _newest_checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """Version and files of the newest checkpoint up to a version that is there in all its parts; -1 without one."""
    checkpoints: dict[tuple[int, int], list[Path]] = {}
    for file in sorted(log.glob("*.checkpoint*.parquet")):
        if (named := _CHECKPOINT.fullmatch(file.name)) and int(named[1]) <= version:
            checkpoints.setdefault((int(named[1]), int(named[3] or 1)), []).append(file)
    return max(((of, files) for (of, parts), files in checkpoints.items() if len(files) == parts), default=(-1, []))


def _of_checkpoint(file: Path, columns: Sequence[str]) -> Iterator[Action]:
    with pq.ParquetFile(file) as parquet:
        wanted = [name for name in columns if name in parquet.schema_arrow.names]
        leaves = [path for path in _paths(parquet) if path.split(".")[0] in wanted and "_parsed" not in path]
        for batch in parquet.iter_batches(columns=leaves):
            for name in batch.schema.names:
                for value in batch.column(name).drop_null().to_pylist():
                    yield {name: _plain(value)}


def _paths(parquet: Any) -> list[str]:
    return [parquet.schema.column(i).path for i in range(len(parquet.schema))]


def _plain(value: Action) -> Action:
    """An action of a checkpoint as JSON has it: without what is NULL, and with maps as objects."""
    fields: Action = {}
    for name, one in value.items():
        if one is None:
            continue
        if name in _MAPS:
            one = dict(one)
        elif isinstance(one, dict):
            one = _plain(one)
        fields[name] = one
    return fields
