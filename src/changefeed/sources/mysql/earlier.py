"""The definitions of tables at an earlier position of the log, from those that the server has now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from changefeed.errors import SourceError
from changefeed.model.definition import Table
from changefeed.sources.mysql import first_copy
from changefeed.sources.mysql.batches import queries
from changefeed.sources.mysql.dump import LogEvent
from changefeed.sources.mysql.schema_history import SchemaHistory, begin_history
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured, list_tables


def earlier_history(
    server: Server, captured: Captured, start: LogPosition, events: Iterable[LogEvent]
) -> SchemaHistory:
    """Returns the definitions at `start`: those of now, without tables that statements behind it mention.

    Args:
        server: the server.
        captured: the tables that are captured.
        start: the position.
        events: of the log, from there on.

    Raises:
        SourceError: tables change at this moment.
    """
    try:
        end, _, defined = first_copy.begin(server, partial(list_tables, server, captured.selector()), copies=False)
    except first_copy.SchemaChangedError as error:
        raise SourceError(f"{server.address}: {error} at this moment", transient=True) from error
    end, earlier = replace(end, shift=start.shift), begin_history(server, defined.tables)
    for event in events:
        if event.placed and event.at.number >= end.number:
            break
        for query in queries(event):
            earlier = earlier.before(query)
    return earlier


def has_same_columns(table: Table, other: Table | None) -> bool:
    """Whether two definitions have the same columns in the same order, so that they explain the same rows."""
    return other is not None and _columns(table) == _columns(other)


def _columns(table: Table) -> list[object]:
    return [*((c.name, c.type) for c in table.columns), *((v.place, v.name) for v in table.virtual)]
