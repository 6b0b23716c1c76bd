"""Chooses the data files of a table to compact: files with many deleted rows, and many small files.

Both slow down every reader, and every write by key. A file is compacted when a large enough share of its rows is deleted. Small
files are compacted when there are many; the result counts as small until it is large. So the work of compaction is proportional
to what writes have added and deleted, however large the table is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


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
class StoredFile:
    """A data file of a table.

    Attributes:
        time: when it was written; compared with that of other files of the table.
        size: in bytes.
        rows: number of rows, deleted ones included; 0 if unknown.
        deleted: number of rows that its deletion vector marks.
    """

    path: str
    time: int
    size: int
    rows: int
    deleted: int

    @property
    def live_share(self) -> float:
        """The share of its rows that are not deleted."""
        return 1 - self.deleted / self.rows if self.rows else 1.0

    @property
    def live_bytes(self) -> float:
        """The share of its size that these rows have."""
        return self.size * self.live_share


def groups(files: Iterable[StoredFile], rules: CompactionRules) -> list[list[str]]:
    """Returns the paths of the files to compact, in groups, one for each task; empty if compaction is not worth it."""
    by_age = sorted(files, key=lambda file: (file.time, file.path))
    small = [file for file in by_age if file.live_bytes < rules.small_bytes]
    together = {file.path for file in small} if len(small) >= rules.many else set[str]()
    taken = [file for file in by_age if file.path in together or 1 - file.live_share >= rules.share]
    packed = _packed(taken, rules)
    return [[file.path for file in group] for group in packed if len(group) > 1 or group[0].live_share < 1]


def _packed(files: Sequence[StoredFile], rules: CompactionRules) -> Iterator[list[StoredFile]]:
    """Divides files into groups, the oldest first, up to `most_bytes` in total."""
    group, size, total = list[StoredFile](), 0.0, 0.0
    for file in files:
        if group and size + file.live_bytes > rules.group_bytes:
            yield group
            group, size = [], 0.0
        if total and total + file.live_bytes > rules.most_bytes:
            break
        group.append(file)
        size, total = size + file.live_bytes, total + file.live_bytes
    if group:
        yield group
