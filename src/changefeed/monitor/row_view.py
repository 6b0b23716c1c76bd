"""The content of the page of a row, as plain values; see `views.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from changefeed.errors import ConfigError
from changefeed.model.change import RowChange
from changefeed.monitor.reading import PipelineReader
from changefeed.monitor.rows import RowVersion, text_of
from changefeed.monitor.views import NotThereError
from changefeed.pipeline.monitoring.cuts import cut_text
from changefeed.sinks.section import version_in_json
from changefeed.ticdc import tso

CHANGES = 100  # pending changes of one page


def row(reader: PipelineReader, name: str, values: Sequence[str]) -> dict[str, Any]:
    """The recent past of a row: its value at the cuts that changed it, as far as files are kept, and its pending changes.

    Args:
        reader: the pipeline's.
        name: `database.table`.
        values: a text for each column of the key, in order; none for the form alone.

    Raises:
        NotThereError: there is no such table, or it has no such key.
    """
    current = reader.state().tables.get(name)
    if current is None:
        raise NotThereError(f"The newest cut has no table {name}.")
    keys = current.table.keys
    if not keys:
        raise NotThereError(f"{name} has no key, so its rows cannot be looked up.")
    shown: dict[str, Any] = {
        "name": name,
        "keys": list(keys),
        "key": None,
        "values": [],
        "complete": True,
        "pending": [],
        "pending_complete": True,
    }
    if not any(values):
        return shown
    if len(values) != len(keys):
        raise NotThereError(f"The key of {name} is ({', '.join(keys)}); {len(values)} values were given.")
    key = dict(zip(keys, values, strict=True))
    try:
        past, pending = reader.row(name, key)
    except ConfigError as error:
        raise NotThereError(str(error)) from error
    return {
        **shown,
        "key": key,
        "values": list(_values(past, binlog=reader.glance().binlog, numbered=reader.numbered_versions)),
        "complete": not past or past[-1].rows is not None,
        "pending": [_change(change) for change in pending.changes[:CHANGES]],
        "pending_complete": pending.complete and len(pending.changes) <= CHANGES,
    }


def _values(past: Sequence[RowVersion], *, binlog: bool, numbered: bool) -> Iterable[dict[str, Any]]:
    """The versions that differ from the one before, newest first; a row that is not there is None."""
    shown = [(one, [{name: text_of(value) for name, value in row.items()} for row in one.rows or ()]) for one in past]
    for number, (one, rows) in enumerate(shown):
        if one.rows is None:
            return
        older = shown[number + 1] if number + 1 < len(shown) else None
        if older is not None and older[0].rows is not None and older[1] == rows:
            continue
        before = older[1][0] if older is not None and older[1] else {}
        current = rows[0] if rows else None
        yield {
            "step": one.step,
            "at": tso.iso(one.at),
            "cut": cut_text(one.commit_ts, one.mark, binlog=binlog),
            "version": version_in_json(one.version, numbered=numbered),
            "row": current,
            "changed": [name for name, value in (current or {}).items() if before.get(name) != value] if before else [],
        }


def _change(change: RowChange) -> dict[str, Any]:
    return {
        "op": change.op,
        "commit_ts": None if change.commit_ts is None else str(change.commit_ts),
        "commit_time": change.commit_time and tso.iso(change.commit_time),
        "position": str(change.position),
        "before": change.before and {name: text_of(value) for name, value in change.before.items()},
        "after": change.after and {name: text_of(value) for name, value in change.after.items()},
    }
