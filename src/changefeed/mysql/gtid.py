"""Names of transactions that tell their order: GTIDs of MySQL and MariaDB, or places in a binlog.

3e11fa47-71ca-11e1-9e33-c80aa9429562:23          MySQL     a server's UUID, and a number that it counts up
3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23      MySQL 8.3 the same with a tag: counted by itself
0-1-23                                           MariaDB   domain, server and a number that the domain counts up
file=mysql-bin.000003,pos=154                    Debezium  without GTIDs: no number follows another directly
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
    """A transaction's name.

    Attributes:
        text: all of it.
        source: who counts; names of different sources have no order.
        number: its count.
        counted: every transaction of the source has the next number.
    """

    text: str
    source: str
    number: int
    counted: bool


_INTERVALS = re.compile(rf"{_MYSQL.pattern.rsplit(':', 1)[0]}(?::[0-9]+(?:-[0-9]+)?)+", re.I)


def is_set(text: str) -> bool:
    """Whether this is a set of MySQL's GTIDs, as `3e11fa47-71ca-11e1-9e33-c80aa9429562:1-306`."""
    return all(_INTERVALS.fullmatch(part.strip()) for part in text.split(","))


def parse(text: str) -> Name | None:
    """What a transaction's name says of its order; None for nothing."""
    if found := _MYSQL.fullmatch(text):
        return Name(text, found[1].lower(), int(found[2]), True)
    if found := _MARIADB.fullmatch(text):
        return Name(text, found[1], int(found[2]), True)
    if found := _BINLOG.fullmatch(text):
        return Name(text, "binlog", int(found[1]) << _POSITION_BITS | int(found[2]), False)
    return None


def of_row(origin: dict[str, Any], transaction: dict[str, Any] | None) -> str | None:
    """The GTID of a row from elsewhere: what its origin calls so, else its transaction's id if that is one."""
    if isinstance(told := origin.get("gtid"), str):
        return told
    name = parse((transaction or {}).get("id") or "")
    return name.text if name is not None and name.counted else None
