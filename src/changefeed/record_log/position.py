"""Positions in a record log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A position between two records of a log.

    Attributes:
        records: number of records before it.
        bytes: number of bytes before it in a plain `.jsonl`; 0 in other forms, where lines are skipped instead.
    """

    records: int
    bytes: int = 0


START = LogPosition(0)
