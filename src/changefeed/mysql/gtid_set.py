"""Sets of transactions that a server has executed, as it prints them and as replicas ask for what comes after them.

MySQL     3e11fa47-71ca-11e1-9e33-c80aa9429562:1-306:310, …     all numbers of each source
MariaDB   0-1-306, 1-2-40                                       the last transaction of each domain
"""

from __future__ import annotations

import re
import struct
import uuid
from dataclasses import dataclass, field

_SOURCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.I)
_INTERVAL = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_DOMAIN = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})")


@dataclass(slots=True)
class MySqlGtids:
    """A GTID set of MySQL.

    Attributes:
        intervals: UUID, or `uuid:tag` -> first and last numbers, ascending, with gaps between them.
    """

    intervals: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, source: str, first: int, last: int) -> None:
        """Adds the numbers from `first` to `last` of a source."""
        known = self.intervals.setdefault(source, [])
        if known and known[-1][1] + 1 == first:  # as nearly always
            known[-1] = known[-1][0], last
            return
        apart = list[tuple[int, int]]()
        for start, end in known:
            if end + 1 < first or last + 1 < start:
                apart.append((start, end))
            else:
                first, last = min(first, start), max(last, end)
        self.intervals[source] = sorted([*apart, (first, last)])

    def has(self, source: str, number: int) -> bool:
        """Whether a transaction is in the set."""
        return any(first <= number <= last for first, last in self.intervals.get(source, ()))

    @property
    def tagged(self) -> str | None:
        """A source with a tag; None if there is none."""
        return next((source for source in self.intervals if ":" in source), None)

    def encoded(self) -> bytes:
        """The set in COM_BINLOG_DUMP_GTID: count (8), then UUID (16), count (8), first and last + 1 (8 each).

        Raises:
            ValueError: a GTID has a tag.
        """
        if self.tagged is not None:
            raise ValueError(f"the GTIDs {self.tagged} have a tag")
        parts = [struct.pack("<Q", len(self.intervals))]
        for source, known in sorted(self.intervals.items()):
            parts.append(uuid.UUID(source).bytes + struct.pack("<Q", len(known)))
            parts += [struct.pack("<QQ", first, last + 1) for first, last in known]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(str(first) if first == last else f"{first}-{last}" for first, last in known)])
            for source, known in sorted(self.intervals.items())
        )


@dataclass(slots=True)
class MariaDbGtids:
    """A GTID position of MariaDB.

    Attributes:
        last: domain -> server and number of its last transaction.
    """

    last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, domain: int, server: int, number: int) -> None:
        """Adds a transaction; one that comes before the last of its domain changes nothing."""
        if not self.has(domain, number):
            self.last[domain] = server, number

    def has(self, domain: int, number: int) -> bool:
        """Whether a transaction is not after the position."""
        return domain in self.last and number <= self.last[domain][1]

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.last.items()))


GtidSet = MySqlGtids | MariaDbGtids


def parse(text: str) -> GtidSet:
    """Parses a set of either server; an empty text is MySQL's empty set.

    Raises:
        ValueError: the text is neither.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if parts and all(_DOMAIN.fullmatch(part) for part in parts):
        position = MariaDbGtids()
        for domain, server, number in (map(int, part.split("-")) for part in parts):
            position.add(domain, server, number)
        return position
    gtids = MySqlGtids()
    for part in parts:
        _add(gtids, part)
    return gtids


def _add(gtids: MySqlGtids, part: str) -> None:
    """Adds `uuid:1-5:tag:7:9-11`."""
    first, *following = [word.strip() for word in part.split(":")]
    source = first.lower()
    if not (_SOURCE.fullmatch(first) and following):
        raise ValueError(f"`{part[:100]}` is not a set of GTIDs")
    for word in following:
        if (interval := _INTERVAL.fullmatch(word)) is not None:
            start, end = int(interval[1]), int(interval[2] or interval[1])
            if not 0 < start <= end:
                raise ValueError(f"`{word}` is not an interval of GTIDs")
            gtids.add(source, start, end)
        elif _TAG.fullmatch(word):
            source = f"{first.lower()}:{word.lower()}"
        else:
            raise ValueError(f"`{word[:100]}` is not an interval of GTIDs")
