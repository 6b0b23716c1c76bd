"""Columns that a user may ask for in addition to the upstream's own."""

from __future__ import annotations

from typing import Any

# name -> (Spark type, expression over a change `s` of `stages.changes`)
METADATA = {
    "_commit_ts": ("bigint", "s._ts"),
    "_commit_time": ("timestamp", "s._time"),
    "_op": ("string", "s._op"),
    "_position": ("string", "concat_ws(':', s._topic, s._partition, s._offset, s._index)"),
    "_irregular": ("map<string,string>", "s._irregular"),
}


def metadata_columns(sink: Any) -> dict[str, tuple[str, str]]:
    """The columns that a `type: delta` section asks for."""
    names = list(sink.metadata_columns)
    if sink.irregular == "keep":
        names.append("_irregular")
    return {name: METADATA[name] for name in names}
