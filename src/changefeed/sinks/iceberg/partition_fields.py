"""The fields by which a table is divided, as the option `partition-by` has them.

    days(created)       column `created`, transform `day`, field `created_day`
    bucket(16, id)      column `id`, transform `bucket[16]`, field `id_bucket`
    region              column `region`, transform `identity`, field `region`

The section of a definition and tasks import this module.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

FORMS = "a column, bucket(N, column), truncate(W, column), years(column), months(column), days(column) or hours(column)"
# The last sentence of errors about a field that a table can no longer have.
NO_FIELD = (
    "Take it out of sink.partition-by, and either drop it from the table (ALTER TABLE … DROP PARTITION FIELD, then "
    "rewrite_data_files with `rewrite-all`) or rebuild the table from the source: changefeed repair --rebuild"
)
_CALL = re.compile(r"(\w+) *\( *(?:([1-9]\d{0,8}) *, *)?(.+?) *\)")
_TIMES = ("year", "month", "day", "hour")
_SUFFIXES = {"bucket": "_bucket", "truncate": "_trunc", **{name: f"_{name}" for name in _TIMES}}


class PartitionField(msgspec.Struct, frozen=True):
    """A field of a partition spec.

    Attributes:
        source: name of the column; empty if the table no longer has it.
        transform: Iceberg's name of the transform, such as `bucket[16]`.
    """

    source: str
    transform: str

    def __str__(self) -> str:
        """Returns the field as the option has it: `bucket(16, id)`, `days(created)`."""
        name, _, number = self.transform.rstrip("]").partition("[")
        if number:
            return f"{name}({number}, {self.source})"
        return self.source if name == "identity" else f"{name}{'s' if name in _TIMES else ''}({self.source})"


def parsed(text: str) -> PartitionField:
    """Reads a field of the option.

    Raises:
        ValueError: it has none of the forms.
    """
    match = _CALL.fullmatch(text.strip())
    if match is None:
        if not text.strip() or "(" in text or ")" in text:
            raise ValueError(f"expected {FORMS}, not {text!r}")
        return PartitionField(text.strip(), "identity")
    name, number, column = match[1].lower(), match[2], match[3]
    if number is None and name.removesuffix("s") in _TIMES:
        return PartitionField(column, name.removesuffix("s"))
    if number is not None and name in ("bucket", "truncate"):
        return PartitionField(column, f"{name}[{number}]")
    raise ValueError(f"expected {FORMS}, not {text!r}")


def field_name(of: PartitionField, columns: Collection[str]) -> str:
    """Returns the name of a field, as Iceberg's own implementation gives it; it must not be that of a column."""
    name = f"{of.source}{_SUFFIXES.get(of.transform.partition('[')[0], '')}"
    while of.transform != "identity" and name in columns:
        name += "_partition"
    return name
