"""The members of an event's `origin` that the layers above read, by name; they use these functions only.

`origin` keeps what a protocol has besides the fields of an event, under the protocol's own keys. A row's is the text of a
JSON object, so whole columns of them are searched; an event's is a dict.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.event import Resolved, SchemaChange

_KEY_ONLY = r'"ohk":true'
_SNAPSHOT = r'"snapshot":"?(?P<mark>[a-z_]+)'
LAST = "last"  # the mark of a snapshot's last record


def gtid(event: SchemaChange) -> str | None:
    """The GTID of a schema change's transaction."""
    name: str | None = event.origin.get("gtid")
    return name


def cut_name(event: Resolved) -> str | None:
    """The upstream's name for the point of a mark: a checkpoint's GTID set."""
    name: str | None = event.origin.get("checkpoint", {}).get("syncedGtid")
    return name


def snapshot_mark(event: SchemaChange) -> str | None:
    """The `snapshot` mark of a schema change, as `true` or `last`; None outside of a snapshot."""
    mark = event.origin.get("snapshot")
    if isinstance(mark, bool):  # connectors of old wrote it without quotes
        return "true" if mark else None
    return None if mark is None else str(mark)


def with_snapshot_mark(mark: str | None) -> dict[str, Any]:
    """An origin of which `snapshot_mark` reads this."""
    return {} if mark is None else {"snapshot": mark}


def snapshot_marks(origins: pa.StringArray) -> pa.StringArray:
    """The same of rows; NULL where a row's origin has none."""
    return pc.struct_field(pc.extract_regex(origins, _SNAPSHOT), "mark")


def key_only(origins: pa.StringArray) -> pa.BooleanArray | None:
    """Whether a row was too large for its producer's messages and came with its key alone; None where no row did."""
    if origins.null_count == len(origins) or _KEY_ONLY.encode() not in origins.buffers()[2].to_pybytes():
        return None
    return pc.fill_null(pc.match_substring(origins, _KEY_ONLY), False)
