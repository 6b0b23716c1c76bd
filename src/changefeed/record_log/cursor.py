"""A place in a record log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """The place between two records.

    Attributes:
        records: number of records before it.
        bytes: number of bytes before it in a plain `.jsonl`; 0 in other forms, where lines are skipped instead.
    """

    records: int
    bytes: int = 0


START = Cursor(0)
