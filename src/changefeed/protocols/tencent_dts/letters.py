"""Dead letters: records that cannot be read, and entries of which only the others can.

    tencent-dts: 'one' is not an integer - at `id` in entry 3 at byte 117 (topic:0:41)
                                                   of the group     of the value

Rule 1. A byte is counted in the record's value. Where the data of several records were joined there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from changefeed.errors import ProtocolError
from changefeed.model.event import DeadLetter
from changefeed.model.position import Place
from changefeed.protocols.tencent_dts.fragments import Group, Record

NAME = "tencent-dts"


@dataclass(frozen=True, slots=True)
class Dead:
    """An entry that cannot be read; `number` counts from 1."""

    error: ProtocolError
    number: int
    table: tuple[str | None, str | None]


def byte_of(error: ProtocolError, group: Group) -> int | None:
    """Where in the record's value; nowhere when the data of several were joined."""
    return error.byte if len(group.records) == 1 else None


def entry_letter(dead: Dead, last: Record, place: Place, group: Group) -> DeadLetter:
    """The letter of an entry, in the name of the last record of its group."""
    error = ProtocolError(
        f"{dead.error} in entry {dead.number}", reason=dead.error.reason, byte=byte_of(dead.error, group)
    )
    database, table = dead.table
    return replace(letter(error, last, place), database=database or None, table=table or None)


def letter(error: ProtocolError, record: Record, place: Place, hint: str = "") -> DeadLetter:
    """The letter of a record."""
    at = "" if error.byte is None else f" at byte {error.byte}"
    where = f"{place.topic}:{place.partition}:{place.offset}"
    text = f"{NAME}: {error}{at} ({where}){'.' if hint else ''}{hint}"
    return DeadLetter(error.reason, text, NAME, place, record.key, record.value, record.headers, error.byte)
