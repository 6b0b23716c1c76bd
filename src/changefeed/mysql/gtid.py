"""Transaction ids that define an order: GTIDs of MySQL and MariaDB, and binlog positions.

3e11fa47-71ca-11e1-9e33-c80aa9429562:23          MySQL     a server's UUID, and a consecutive number
3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23      MySQL 8.3 the same with a tag, which has its own numbers
0-1-23                                           MariaDB   domain, server, and a consecutive number of the domain
file=mysql-bin.000003,pos=154                    Debezium  without GTIDs: ascending, but not consecutive
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_MYSQL = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[a-z_][a-z0-9_]{0,31})?):([0-9]{1,19})", re.I)
_MARIADB = re.compile(r"([0-9]{1,10})-[0-9]{1,10}-([0-9]{1,20})")
_BINLOG = re.compile(r"file=[^,]*?([0-9]{1,7}),pos=([0-9]{1,12})")
_POSITION_BITS = 40
# A GTID and nothing else, for Arrow's regular expressions.
GTID = rf"(?i)^(?:{_MYSQL.pattern}|{_MARIADB.pattern})$"


@dataclass(frozen=True, slots=True)
class Name:
    """The parts of a transaction id: a GTID of MySQL or MariaDB, or a binlog position.

    Attributes:
        text: the whole id.
        source: what assigns the number; ids of different sources are not ordered.
        number: the number within the source.
        counted: numbers are consecutive: the next transaction of the source has the next number.
    """

    text: str
    source: str
    number: int
    counted: bool


_INTERVALS = re.compile(rf"{_MYSQL.pattern.rsplit(':', 1)[0]}(?::[0-9]+(?:-[0-9]+)?)+", re.I)


def is_set(text: str) -> bool:
    """Whether the text is a MySQL GTID set such as `3e11fa47-71ca-11e1-9e33-c80aa9429562:1-306`."""
    return all(_INTERVALS.fullmatch(part.strip()) for part in text.split(","))


def parse(text: str) -> Name | None:
    """Parses a transaction id; None if it has none of the known forms."""
    if match := _MYSQL.fullmatch(text):
        return Name(text, match[1].lower(), int(match[2]), True)
    if match := _MARIADB.fullmatch(text):
        return Name(text, match[1], int(match[2]), True)
    if match := _BINLOG.fullmatch(text):
        return Name(text, "binlog", int(match[1]) << _POSITION_BITS | int(match[2]), False)
    return None


def of_row(origin: dict[str, Any], transaction: dict[str, Any] | None) -> str | None:
    """The GTID of a foreign row: `gtid` of its origin, else its transaction's id if that is a GTID."""
    if isinstance(gtid := origin.get("gtid"), str):
        return gtid
    name = parse((transaction or {}).get("id") or "")
    return name.text if name is not None and name.counted else None
