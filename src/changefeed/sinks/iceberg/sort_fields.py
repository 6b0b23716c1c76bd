"""The fields by which the rows of a data file are sorted, as the option `sort-by` has them.

    created                       ascending, NULL first
    id desc                       descending, NULL last
    days(at) desc nulls first     by a transform, with NULL at the other end

The section of a definition and tasks import this module.
"""

from __future__ import annotations

import re

import msgspec

from changefeed.sinks.iceberg.partition_fields import FORMS, PartitionField, parsed

SORT_FORMS = f"{FORMS}; each optionally with asc or desc, and nulls first or nulls last"
_SUFFIXES = re.compile(r"(.+?)(?: +(asc|desc))?(?: +nulls +(first|last))?", re.IGNORECASE)


class SortField(msgspec.Struct, frozen=True):
    """A field of a sort order.

    Attributes:
        term: the column and its transform.
        descends: whether large values come first.
        nulls_first: whether NULL comes first.
    """

    term: PartitionField
    descends: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        """Returns the field as the option has it: `created`, `id desc`, `days(at) nulls last`."""
        nulls = "" if self.nulls_first != self.descends else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.term}{' desc' if self.descends else ''}{nulls}"


def parsed_sort_field(text: str) -> SortField:
    """Reads a field of the option. As in Spark, NULL comes first in ascending order, and last in descending order.

    Raises:
        ValueError: it has none of the forms.
    """
    match = _SUFFIXES.fullmatch(text.strip())
    try:
        term = parsed(match[1] if match is not None else "")
    except ValueError as error:
        raise ValueError(f"expected {SORT_FORMS}, not {text!r}") from error
    assert match is not None
    descends = (match[2] or "").lower() == "desc"
    return SortField(term, descends, match[3].lower() == "first" if match[3] else not descends)
