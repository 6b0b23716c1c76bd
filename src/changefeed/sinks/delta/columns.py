"""Columns that a user may ask for in addition to the upstream's own, and names that a table cannot have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

# name -> (Spark type, expression over a change `s` of `stages.changes`)
METADATA = {
    "_commit_ts": ("bigint", "s._ts"),
    "_commit_time": ("timestamp", "s._time"),
    "_op": ("string", "s._op"),
    "_position": ("string", "concat_ws(':', s._topic, s._partition, s._offset, s._index)"),
    "_irregular": ("map<string,string>", "s._irregular"),
}
_NOT_IN_NAMES = " ,;{}()\n\t="  # Delta has them in names with column mapping alone


def metadata_columns(sink: Any) -> dict[str, tuple[str, str]]:
    """The columns that a `type: delta` section asks for."""
    names = list(sink.metadata_columns)
    if sink.irregular == "keep":
        names.append("_irregular")
    return {name: METADATA[name] for name in names}


def refused(names: Iterable[str], ours: Collection[str]) -> str | None:
    """Why no plain table has columns of these names beside `ours`, and what to do; None when one has."""
    for name in names:
        if found := next((c for c in name if c in _NOT_IN_NAMES), None):
            fix = "Rename it upstream, or name the table in pipeline.exclude"
            return f"column {name!r}: plain Delta tables have no {found!r} in names of columns. {fix}"
        if clash := next((n for n in ours if n.lower() == name.lower()), None):
            fix = (
                "set sink.irregular to `null` or `fail`"
                if clash == "_irregular"
                else "leave it out of sink.metadata-columns"
            )
            return f"column {name!r} has the name of one of ours: {fix}"
    return None
