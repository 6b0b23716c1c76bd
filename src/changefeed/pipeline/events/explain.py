"""Explains an event pipeline without running it: `changefeed explain`. Reads definitions of tables, no rows; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from changefeed.errors import ConfigError
from changefeed.model.definition import Table
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.events.parts import open_sink
from changefeed.pipeline.events.status import EventStatus, event_status
from changefeed.pipeline.monitoring.lag import lag_text
from changefeed.protocols import protocol
from changefeed.sources import event_stream, source


@dataclass(frozen=True, slots=True)
class ExplainedEvents:
    """A table whose changes a run would append.

    Attributes:
        table: `database.table`.
        keys: names of the handle key's columns; empty without one.
        columns: column -> its MySQL type, in upstream order.
    """

    table: str
    keys: tuple[str, ...]
    columns: dict[str, str]


@dataclass(frozen=True, slots=True)
class EventExplanation:
    """The plan of a run of an event pipeline.

    Attributes:
        pipeline: the pipeline's name.
        source: title of the source.
        sink: destination of the records.
        protocol: name of the protocol in which changes are written.
        begins: a sentence about where a run begins.
        guarantee: a sentence about how often a change is appended.
        lag: a sentence about what is left to read, and how old the newest change is.
        tables: the tables that are captured.
        notes: sentences to read before running the pipeline.
    """

    pipeline: str
    source: str
    sink: str
    protocol: str
    begins: str
    guarantee: str
    lag: str
    tables: tuple[ExplainedEvents, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed explain --json`."""
        return {"kind": "events", **msgspec.to_builtins(self)}


def explain_events(definition: EventDefinition) -> EventExplanation:
    """Returns what a run of an event pipeline would do.

    Raises:
        ConfigError: the source or its server lacks a setting, or an option of the sink is wrong.
        SourceError: the source cannot be read.
        SinkError: the ledger cannot be read.
    """
    opened = source(definition.source)
    if (missing := opened.missing()) is not None:
        raise ConfigError(str(missing))
    opened.close()
    stream, sink = event_stream(definition.source, {}), open_sink(definition, "")
    try:
        tables = stream.current_tables()
    finally:
        stream.close()
    status = event_status(definition)
    if status.source_error:
        raise ConfigError(status.source_error)
    seen = "readers see all records of an append or none" if sink.atomic else "readers may see a part of an append"
    keyless = sorted(name for name, table in tables.items() if not table.keys)
    notes = [f"{', '.join(keyless)}: no handle key, so their records have no key"] if keyless else []
    return EventExplanation(
        pipeline=definition.pipeline.name,
        source=opened.title,
        sink=sink.location,
        protocol=protocol(definition.sink.protocol.name).title,
        begins=_begins(status),
        guarantee=f"each change is appended once; {seen}",
        lag=lag_text(status.lag, datetime.now(UTC)) or "nothing is known to be left",
        tables=tuple(_table(name, table) for name, table in sorted(tables.items())),
        notes=tuple(notes),
    )


def _begins(status: EventStatus) -> str:
    if status.positions:
        return "where the last run ended"
    if status.lag.records is None:
        return "in the log, without a first copy"
    note = ", again: the last run ended inside of it" if status.epoch else ""
    return f"with a first copy of the tables{note}"


def _table(name: str, table: Table) -> ExplainedEvents:
    return ExplainedEvents(name, table.keys, {column.name: str(column.type) for column in table.columns})
