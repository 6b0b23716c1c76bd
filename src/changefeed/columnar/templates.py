r"""Templates: the literal text around the values of a shape's rows, and the form in which each value is written.

    {"framed": …, "most": …,            each text follows its length; maximum number of bytes of a row
     "heads": ["ts"],                   columns besides the images: numbers, or text that is written verbatim
     "before": [{"form": "integer", "null": "null"}, …], "after": […],       the columns of both images
     "cases": [{"ops": ["insert"], "before": false, "after": true,           a kind of row
                "key":   [{"literal": "{\"ts\":"}, {"head": 0}, {"literal": ",\"scm\":…}"}],
                "value": [{"literal": "{\"u\":{\"id\":{\"t\":8,\"v\":"}, {"after": 0}, …]}]}

Rule 1. A template writes exactly the same as the encoder: both take their literals from the same place.
Rule 2. Rows that no form supports are left to the encoder, row by row: forms refuse values, heads are NULL, cases are
        omitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.table import TableShape

# The name of a form, or its name with arguments; `kernel/src/encode/templates.rs` lists them.
Form = str | dict[str, Any]
Writer = str  # of strings and numbers: html, raw, java

NULL: Form = "null"
INTEGER: Form = "integer"


@dataclass(frozen=True, slots=True)
class Head:
    """A column besides the images, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A column of the image `before` or `after`, by its number in the image."""

    image: str
    place: int


Part = str | Head | Value


@dataclass(frozen=True, slots=True)
class Case:
    """The template of one kind of row.

    Attributes:
        before, after: whether the row has the image.
        key: the parts of the key; None for no key.
        value: the parts of the value.
        ops: the ops to which it applies; None for all.
    """

    before: bool
    after: bool
    key: Sequence[Part] | None
    value: Sequence[Part]
    ops: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class WrittenForm:
    """The form of a column, and its text for NULL."""

    form: Form
    null: str = "null"


def places(shape: TableShape) -> dict[str, dict[str, int]]:
    """Returns image -> column name -> number of the column in the image."""
    sides = {"before": shape.before_columns, "after": shape.after_columns}
    return {side: {c.name: at for at, c in enumerate(columns)} for side, columns in sides.items()}


def text(
    before: Iterable[WrittenForm],
    after: Iterable[WrittenForm],
    cases: Iterable[Case],
    *,
    framed: bool = False,
    most: int | None = None,
) -> str:
    """Returns the template as JSON for the kernel."""
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
    """Returns the form of a date and time in quotes.

    Args:
        digits: number of fraction digits.
        ahead: microseconds that are added to each value.
        separator: text between date and time.
        suffix: text after the time, before the closing quote.
        start: the smallest value to which the form applies.
    """
    return {"moment": {"digits": digits, "ahead": ahead, "separator": separator, "suffix": suffix, "from": start}}


def count(times: int = 1, by: int = 1, *, first: int = -(2**63), last: int = 2**63 - 1) -> Form:
    """Returns the form of days or microseconds as a number: the value * `times` / `by`, rounded down, for `first` to `last`."""
    return {"count": _numbered(times, by, first, last)}


def time(times: int = 1, by: int = 1, *, most: int = 2**62) -> Form:
    """Returns the form of a TIME as a number: its microseconds * `times` / `by`, rounded down, for `-most` to `most`."""
    return {"time": _numbered(times, by, -most, most)}


def _numbered(times: int, by: int, first: int, last: int) -> dict[str, int]:
    return {"times": times, "by": by, "from": first, "to": last}


def silent(origin: pa.Array, names: str) -> pa.Array:
    r"""Whether an origin certainly has no member of these names (`a|b`); an escaped name may be any of them."""
    return pc.invert(pc.coalesce(pc.match_substring_regex(origin, rf'"(?:{names})"|\\u'), False))
