"""Chooses the data files of a table to compact: files with many deleted rows, and many small files.

Both slow down every reader, and every write by key. A file is compacted when a large enough share of its rows is deleted. Small
files are compacted when there are many; the result counts as small until it is large. So the work of compaction is proportional
to what writes have added and deleted, however large the table is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from changefeed.sinks.delta.actions import LogAction


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """When to compact files.

    Attributes:
        share: a file is compacted if at least this share of its rows is deleted.
        small_bytes: a file is small if its remaining rows have fewer bytes.
        many: small files are compacted if there are at least so many.
        group_bytes: size of the files that one task compacts, in bytes.
        most_bytes: maximum size of all files of one compaction; the others wait for the next.
        every: a table is examined after this number of versions.
    """

    share: float = 0.3
    small_bytes: int = 16 * 2**20
    many: int = 16
    group_bytes: int = 128 * 2**20
    most_bytes: int = 2**30
    every: int = 8


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    time: int
    left: float  # share of its rows that are not deleted
    bytes: float  # of these rows


def groups(files: Mapping[str, LogAction], rules: CompactionRules) -> list[list[str]]:
    """Returns the paths of the files to compact, in groups, one for each task; empty if compaction is not worth it.

    Args:
        files: path -> the `add` action of each data file of a table.
        rules: when to compact.
    """
    all_files = sorted((_file(one) for one in files.values()), key=lambda file: (file.time, file.path))
    small = [file for file in all_files if file.bytes < rules.small_bytes]
    together = {file.path for file in small} if len(small) >= rules.many else set[str]()
    taken = [file for file in all_files if file.path in together or 1 - file.left >= rules.share]
    packed = _packed(taken, rules)
    return [[file.path for file in group] for group in packed if len(group) > 1 or group[0].left < 1]


def _file(add: LogAction) -> _File:
    rows = json.loads(add.get("stats") or "{}").get("numRecords") or 0
    deleted = (add.get("deletionVector") or {}).get("cardinality", 0)
    left = 1 - deleted / rows if rows else 1.0
    return _File(add["path"], add["modificationTime"], left, add["size"] * left)


def _packed(files: Sequence[_File], rules: CompactionRules) -> Iterator[list[_File]]:
    """Divides files into groups, the oldest first, up to `most_bytes` in total."""
    group, size, total = list[_File](), 0.0, 0.0
    for file in files:
        if group and size + file.bytes > rules.group_bytes:
            yield group
            group, size = [], 0.0
        if total and total + file.bytes > rules.most_bytes:
            break
        group.append(file)
        size, total = size + file.bytes, total + file.bytes
    if group:
        yield group
