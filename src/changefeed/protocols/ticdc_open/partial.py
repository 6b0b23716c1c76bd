"""Completes old rows that leave out columns: takes the missing columns of `p` from `u`.

    u  a=1 b=9 c=null d=null      p  b=2, and nameless t=3 f=65 v=-5      c has t=3 f=65, d has t=15 f=64
    before  a=1 b=2 c=-5 d=null   sent  ["b", "c"]

Rule 1. A column missing in `p` did not change: it has the value of `u`.
Rule 2. A nameless old value belongs to the column that is NULL in `u`, missing in `p` and equal in t and f, if there is only
        one such column and no other nameless value has this t and f. Otherwise the old values of these columns are unknown:
        the before image lacks them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from changefeed.protocols.ticdc_open.envelope import Image, Nameless
from changefeed.wire.floats import float32
from changefeed.wire.strict_json import Number

_FLOAT = "4"


@dataclass(frozen=True, slots=True)
class Completed:
    """The before image of an update whose `p` has only some columns, completed from `u`.

    Attributes:
        old: the columns that were sent, including nameless values whose column was identified.
        before: names of the before image's columns, in the order sent if `p` was complete.
        sent: names in the order sent, with an object for each value without an identified column; None if `p` was complete.
        same: whether the before image has the columns of the new row with the same descriptions.
    """

    old: Image
    before: tuple[str, ...]
    sent: list[Any] | None
    same: bool


def complete(new: Image, old: Image, nameless: tuple[tuple[int, Nameless], ...]) -> Completed:
    """Completes the old row whose `p` has the columns `old` and the values `nameless`."""
    described, values = list(old.described), list(old.values)
    sent: list[Any] = [d[0] for d in described]
    unknown: set[str] = set()
    runs = Counter((value.t, value.f) for _, value in nameless)
    for place, (named_before, value) in enumerate(nameless):
        names = _candidates(new, old, value)
        if len(names) == 1 and runs[value.t, value.f] == 1:
            sent.insert(named_before + place, names[0])
            described.append((names[0], value.t, value.h, value.f))
            values.append(value.value)
        else:
            sent.insert(named_before + place, _as_sent(value))
            unknown.update(names)
    named = [d[0] for d in described]
    new_names = tuple(d[0] for d in new.described)
    if not nameless and set(named).issuperset(new_names):
        return Completed(Image(tuple(described), values), tuple(named), None, False)
    extra = [name for name in named if name not in set(new_names)]
    return Completed(
        Image(tuple(described), values),
        (*(name for name in new_names if name not in unknown), *extra),
        sent,
        not unknown and not extra and set(described) <= set(new.described),
    )


def _candidates(new: Image, old: Image, value: Nameless) -> list[str]:
    sent = {d[0] for d in old.described}
    return [
        name
        for (name, t, _, f), now in zip(new.described, new.values, strict=True)
        if now is None and name not in sent and t == value.t and f == value.f
    ]


def _as_sent(value: Nameless) -> dict[str, Any]:
    members: dict[str, Any] = {"t": _number(value.t)}
    if value.h is not None:
        members["h"] = value.h
    if value.f is not None:
        members["f"] = _number(value.f)
    return members | {"v": _number(value.value, value.t) if type(value.value) is Number else value.value}


def _number(text: str, code: str = "") -> int | float:
    """Parses a number; for FLOAT as float32, which differs from the double with the same text."""
    if code == _FLOAT:
        number = float32(text)
        assert number is not None, "the decoder has read it"
        return number
    try:
        return int(text) if text != "-0" else -0.0
    except ValueError:
        return float(text)
