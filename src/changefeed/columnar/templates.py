r"""Templates: what stands around the values of a shape's rows, and what each value is written as.

    {"framed": …, "most": …,            each text behind its length; bytes that a row may take
     "heads": ["ts"],                   columns beside the images: numbers, or text that is written as it is
     "before": [{"form": "integer", "null": "null"}, …], "after": […],       the columns of both images
     "cases": [{"ops": ["insert"], "before": false, "after": true,           a kind of row
                "key":   [{"literal": "{\"ts\":"}, {"head": 0}, {"literal": ",\"scm\":…}"}],
                "value": [{"literal": "{\"u\":{\"id\":{\"t\":8,\"v\":"}, {"after": 0}, …]}]}

Rule 1. A template says no more than an encoder would write: whoever makes one takes literals from where the encoder does.
Rule 2. What no form can say is left to the encoder, row by row: forms refuse values, heads are NULL, cases are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.table import TableShape

# The name of a form, or one with what it needs to know; `kernel/src/encode/templates.rs` lists them.
Form = str | dict[str, Any]
Writer = str  # of strings and numbers: html, raw, java

NULL: Form = "null"
INTEGER: Form = "integer"


@dataclass(frozen=True, slots=True)
class Head:
    """A column beside the images, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A column of the image `before` or `after`, by its place there."""

    image: str
    place: int


Part = str | Head | Value


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of row and how it is written.

    Attributes:
        ops: None for all.
        before, after: whether it has the image.
        key: None for none.
    """

    before: bool
    after: bool
    key: Sequence[Part] | None
    value: Sequence[Part]
    ops: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A column's form, and what NULL is."""

    form: Form
    null: str = "null"


def places(shape: TableShape) -> dict[str, dict[str, int]]:
    """Where the columns of each image are, by name."""
    sides = {"before": shape.before_columns, "after": shape.after_columns}
    return {side: {c.name: at for at, c in enumerate(columns)} for side, columns in sides.items()}


def text(
    before: Iterable[Written],
    after: Iterable[Written],
    cases: Iterable[Case],
    *,
    framed: bool = False,
    most: int | None = None,
) -> str:
    """The template as the kernel reads it."""
    heads: dict[str, int] = {}
    listed = [
        {
            "ops": case.ops,
            "before": case.before,
            "after": case.after,
            "key": None if case.key is None else list(_parts(case.key, heads)),
            "value": list(_parts(case.value, heads)),
        }
        for case in cases
    ]
    images = {
        name: [{"form": c.form, "null": c.null} for c in columns]
        for name, columns in (("before", before), ("after", after))
    }
    limit = {} if most is None else {"most": most}
    return json.dumps({**images, "heads": list(heads), "cases": listed, "framed": framed, **limit})


def _parts(parts: Iterable[Part], heads: dict[str, int]) -> Iterator[dict[str, Any]]:
    literal = ""
    for part in parts:
        if isinstance(part, str):
            literal += part
            continue
        if literal:
            yield {"literal": literal}
        literal = ""
        if isinstance(part, Head):
            yield {"head": heads.setdefault(part.name, len(heads))}
        else:
            yield {part.image: part.place}
    if literal:
        yield {"literal": literal}


def moment(digits: int, *, ahead: int = 0, separator: str = " ", suffix: str = "", start: int = -(2**63)) -> Form:
    """A date and time between quotes, of values from `start` on, on a clock that is `ahead` µs of theirs."""
    return {"moment": {"digits": digits, "ahead": ahead, "separator": separator, "suffix": suffix, "from": start}}


def count(times: int = 1, by: int = 1, *, first: int = -(2**63), last: int = 2**63 - 1) -> Form:
    """Days or microseconds as a number: from `first` to `last`, multiplied and divided, down to the next integer."""
    return {"count": _numbered(times, by, first, last)}


def time(times: int = 1, by: int = 1, *, most: int = 2**62) -> Form:
    """A TIME as a number, as `count` has it for its microseconds, in either direction up to `most`."""
    return {"time": _numbered(times, by, -most, most)}


def _numbered(times: int, by: int, first: int, last: int) -> dict[str, int]:
    return {"times": times, "by": by, "from": first, "to": last}


def silent(origin: pa.Array, names: str) -> pa.Array:
    r"""Whether an origin, or none, surely has no member of these names (`a|b`); what is escaped may be anything."""
    return pc.invert(pc.coalesce(pc.match_substring_regex(origin, rf'"(?:{names})"|\\u'), False))
