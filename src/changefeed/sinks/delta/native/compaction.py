"""Chooses the data files of a table that are worth being written again: those with many deleted rows, and many small ones.

Both cost every reader, and every write by key. A file is taken when the rows that it has lost pay for those that are copied;
small files are taken when there are many, and the file that they make counts as small until it is large. So what compaction
copies stays in proportion to what writes have added and deleted, however large the table is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from changefeed.sinks.delta.native.replay import Action


@dataclass(frozen=True, slots=True)
class Rules:
    """When files are written again.

    Attributes:
        share: of a file's rows that are deleted, from which on it is taken.
        small_bytes: a file with fewer bytes of rows that are left is small.
        many: so many small files are taken together.
        group_bytes: of the files that one task writes again.
        most_bytes: of all files that one compaction takes; the others wait for the next.
        every: a table is looked at after every so many versions.
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


def groups(files: Mapping[str, Action], rules: Rules) -> list[list[str]]:
    """Paths of the files that are to be written again, those of each group by one task; none if it is not worth it.

    Args:
        files: `add` of each data file of a table, by its path.
        rules: when it is.
    """
    all_files = sorted((_file(one) for one in files.values()), key=lambda file: (file.time, file.path))
    small = [file for file in all_files if file.bytes < rules.small_bytes]
    together = {file.path for file in small} if len(small) >= rules.many else set[str]()
    taken = [file for file in all_files if file.path in together or 1 - file.left >= rules.share]
    packed = _packed(taken, rules)
    return [[file.path for file in group] for group in packed if len(group) > 1 or group[0].left < 1]


def _file(add: Action) -> _File:
    rows = json.loads(add.get("stats") or "{}").get("numRecords") or 0
    deleted = (add.get("deletionVector") or {}).get("cardinality", 0)
    left = 1 - deleted / rows if rows else 1.0
    return _File(add["path"], add["modificationTime"], left, add["size"] * left)


def _packed(files: Sequence[_File], rules: Rules) -> Iterator[list[_File]]:
    """The files in groups, the oldest first, up to the most bytes."""
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
