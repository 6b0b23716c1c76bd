"""Reads the log of a table in a local folder as actions of the Delta protocol: newest checkpoint, and later commits.

delta-rs reads the log too, which is enough for plain tables. It does not return what a commit of deletion vectors needs: the
complete entries of data files with descriptors and statistics, and verbatim metadata and protocol.
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
class LogState:
    """A table at one version.

    Attributes:
        files: path in the log -> the `add` action of the data file.
        protocol, metadata: the newest action of each kind.
    """

    version: int
    files: dict[str, Action] = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)

    def apply(self, action: Action) -> None:
        """Applies the next action of the log."""
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
    """Returns a key for a data file's deletion vector, which differs from that of every earlier vector of the file."""
    descriptor = file.get("deletionVector") or {}
    return descriptor.get("storageType"), descriptor.get("pathOrInlineDv"), descriptor.get("offset")


def state(path: str | Path, version: int) -> LogState:
    """Reads the state of the table in a local folder at a version.

    Raises:
        SinkError: the table's log cannot be read.
    """
    table = LogState(version)
    for action in actions(path, version, ("add", "protocol", "metaData")):
        table.apply(action)
    return table


def actions(path: str | Path, version: int, columns: Sequence[str]) -> Iterator[Action]:
    """Yields the actions up to a version: from the newest checkpoint only these kinds, from later commits all.

    Within a commit removes come first: the entry of a file that gets a deletion vector is removed and added again.

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
    """Returns version and files of the newest complete checkpoint up to a version; -1 if there is none."""
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
    """Converts an action of a checkpoint to the form of JSON: without NULLs, and with maps as objects."""
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
