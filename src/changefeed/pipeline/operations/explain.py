"""Explains a pipeline without running it: `changefeed explain`.

Takes the first records of the source through the steps of a run (`rehearsal.py`), but writes nothing. So it shows the tables
that a run would start with, not tables whose first change comes later, and it stops where a run would.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from changefeed.errors import ConfigError, SourceError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.exclusion import check_file_systems
from changefeed.pipeline.ledger import occupied, read_ledger, strangers
from changefeed.pipeline.monitoring.holders import Holder, has_binlog, held_by_of, held_text, holders
from changefeed.pipeline.monitoring.lag import lag_of, lag_text
from changefeed.pipeline.operations.rehearsal import ENDS, lacks_ends, rehearse
from changefeed.pipeline.registration import outlook
from changefeed.pipeline.state import State, TableState
from changefeed.pipeline.tables import open_tables
from changefeed.protocols.base import Capabilities
from changefeed.sinks.base import TableSink
from changefeed.sources import Source, protocol_of, source

_BY_KEY = "each batch is applied at once, ordered per key; tables may be ahead of each other. A schema change waits, and later "
_BY_KEY_SENT = "rows of its tables with it, until every partition has shown it, or a resolved event at or above it"
_BY_KEY_WAITS = {
    "all": _BY_KEY_SENT,
    "first": f"{_BY_KEY_SENT}. It is sent to partition 0 alone, so all rows wait until that has passed them",
    "some": "rows of its tables with it, until every partition has shown a later change. It is not sent to every partition, so "
    "all rows wait until the other partitions have passed them, or the source has nothing more to read",
}
_BARRIERS = {
    "marks": "all tables move together to the smallest resolved event over all partitions; what is above it waits",
    "transactions": "all tables move together behind whole transactions; one that is not complete waits, with all after it",
    "nothing": "nothing: the protocol does not show what is complete; use consistency `key`",
}
_SCHEMA = {
    "evolve": "schema changes are applied; one that cannot be stops the pipeline",
    "try_evolve": "schema changes are applied; one that cannot be is noted and skipped",
    "lenient": "as try_evolve, and nothing is dropped or truncated",
    "ignore": "new tables are created; other schema changes are ignored, and tables follow their rows",
    "exception": "new tables are created; any other schema change stops the pipeline",
}


@dataclass(frozen=True, slots=True)
class ExplainedColumn:
    """A column upstream, and its type in the sink.

    Attributes:
        name: the column's name.
        upstream: the column's MySQL type.
        sink: the column's type in the sink.
        lossy: what the sink's type does not keep; None if it keeps everything.
    """

    name: str
    upstream: str
    sink: str
    lossy: str | None


@dataclass(frozen=True, slots=True)
class ExplainedTable:
    """A table that a run would write.

    Attributes:
        table: `database.table`.
        path: location of the table in the sink.
        keys: names of the handle key's columns; empty without one.
        apply: how changes are applied: merged by key, or appended.
        write_mode: `copy-on-write` or `merge-on-read`; None for a table without a handle key.
        partitions: the fields by which its rows are divided; empty without partitions.
        sort_order: the fields by which the rows of its data files are sorted; empty without an order.
        types_from: `DDL`, or `rows` if the records contain no CREATE TABLE.
        columns: the columns, in upstream order.
        name: name of the table in the catalog; None if it has none, or the definition names no catalog.
    """

    table: str
    path: str
    keys: tuple[str, ...]
    apply: str
    write_mode: str | None
    partitions: tuple[str, ...]
    sort_order: tuple[str, ...]
    types_from: str
    columns: tuple[ExplainedColumn, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a run: its guarantees, and what each table becomes.

    Attributes:
        pipeline: the pipeline's name.
        protocol: the protocol of the source's records; for a source of changes, its title.
        records, rows, dead_letters: number of records that were read, and of row changes and dead letters in them.
        barrier: a sentence about how far tables move together.
        schema_changes: a sentence about how schema changes are applied.
        guarantee: a sentence about how often a change is applied.
        tables: the tables that a run would start with, and those that the pipeline has already.
        not_captured: tables that are known by their DDL alone, and left out: no row and no topic shows that they are captured.
        lag: a sentence about how far the tables are behind, as `status` has it; empty if nothing is known.
        notes: sentences to read before running the pipeline.
    """

    pipeline: str
    protocol: str
    records: int
    rows: int
    dead_letters: int
    barrier: str
    schema_changes: str
    guarantee: str
    tables: tuple[ExplainedTable, ...]
    notes: tuple[str, ...]
    not_captured: tuple[str, ...] = ()
    lag: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed explain --json`."""
        return msgspec.json.decode(msgspec.json.encode(self))  # type: ignore[no-any-return]


def explain(definition: Definition, limit: int = 10_000) -> Explanation:
    """Reads the first records of the source, and returns what a run would do with them.

    Args:
        definition: the pipeline.
        limit: maximum number of records of the source to read.

    Raises:
        ConfigError: the source does not exist, a table of another program is in the way, or a file system would let two runs
            overwrite each other's files.
        SourceError: the source cannot be read.
        SinkError: the catalog that the definition names does not answer.
        ProtocolError: a record cannot be decoded, and a run would stop there.
        UnsupportedError, SchemaError: a run would stop at a schema change, a table or a row that it cannot apply.
    """
    check_file_systems(definition)
    opened, target = source(definition.source), open_tables(definition)
    missing = opened.missing()
    if missing is not None:
        raise ConfigError(str(missing))
    rehearsal = rehearse(definition, opened, opened.sample_chunks(limit))
    behaviour, seen = definition.pipeline, rehearsal.state.counts
    latest = read_ledger(definition).latest()
    paths = {name: table.path for name, table in rehearsal.tables.items()}
    if files_there := occupied(definition, paths):
        raise ConfigError(
            f"the sink contains files, but no table, at {', '.join(files_there)}: give the pipeline another sink.path, or "
            "move them away"
        )
    if others := strangers(definition, paths):
        raise ConfigError(
            f"the sink has tables that this pipeline has not written: {', '.join(others)}. Give the pipeline another "
            "sink.path, move them away, or name them in sink.adopt to go on with their rows"
        )
    # what a run has reached counts more than how the source begins
    tables = {**rehearsal.tables, **(latest.state.tables if latest else {})}
    notes = list(rehearsal.notes)
    keyless = sorted(name for name, table in tables.items() if not table.table.keys)
    if keyless and opened.capabilities.cuts != "transactions" and behaviour.keyless != "refuse":
        notes.append(_doubt(keyless, behaviour.consistency))
    if lacks_ends(definition, opened.capabilities.cuts, rehearsal):
        what, remedy = ENDS[opened.capabilities.cuts]
        notes.append(
            f"no {what.partition(' ')[2]} in the first {seen.records} records: with consistency `transaction` nothing is applied "
            f"without ({remedy})"
        )
    if seen.records < limit and rehearsal.state.incomplete is not None:
        notes.append(rehearsal.state.incomplete.waits)
    held_by: tuple[Holder, ...] = ()
    if latest is not None:
        held_by = held_by_of(definition, latest.state)
    elif seen.records < limit:
        held_by = holders(definition, opened.capabilities, rehearsal.state, ())
    if held := held_text(holder for holder in held_by if holder.way_out):
        notes.append(held)
    retired_paths = latest.state.left if latest else ()
    catalog = outlook(definition, {name: table.path for name, table in tables.items()}, retired_paths)
    names = catalog.names if catalog else {}
    notes += catalog.sentences if catalog else ()
    return Explanation(
        pipeline=behaviour.name,
        protocol=choice.name if (choice := protocol_of(definition.source)) else opened.title,
        records=seen.records,
        rows=seen.rows,
        dead_letters=seen.dead,
        barrier=_barrier(behaviour.consistency, opened.capabilities),
        schema_changes=_SCHEMA[behaviour.schema_change_behavior],
        guarantee=f"{opened.title} sends at least once; "
        + ("what it sends again is applied again" if behaviour.consistency == "key" else "each change is applied once"),
        tables=tuple(_table(definition, target, n, table, names.get(n)) for n, table in sorted(tables.items())),
        notes=tuple(notes),
        not_captured=tuple(name for name in rehearsal.left_out if name not in tables),
        lag=_lag(definition, opened, latest.state if latest else State()),
    )


def _lag(definition: Definition, opened: Source, state: State) -> str:
    """The lag of the tables, and what is left to read, in the words of `status`."""
    try:
        backlog = opened.backlog(state.source)
    except (ConfigError, SourceError):
        backlog = None
    return lag_text(lag_of(state, backlog, binlog=has_binlog(definition)), datetime.now(UTC))


def _barrier(consistency: str, can: Capabilities) -> str:
    if consistency != "key":
        return _BARRIERS[can.cuts]
    return _BY_KEY + _BY_KEY_WAITS["some" if not can.broadcast else "first" if can.ddl_in_first else "all"]


def _types_from(state: TableState) -> str:
    names = [c.name for c in state.table.columns if c.name in state.undeclared]
    if not names:
        return "DDL"
    return "rows" if len(names) == len(state.table.columns) else f"DDL; rows for {', '.join(names)}"


def _doubt(keyless: list[str], consistency: str) -> str:
    """A sentence on rows of tables without a handle key that the producer sends again."""
    unless = (
        ""
        if consistency == "key"
        else (" unless a change of a table with a key, or a resolved event, comes again behind them in their partition")
    )
    return (
        f"{', '.join(keyless)}: no handle key, so rows that the producer sends again after a restart are appended again{unless}; "
        "a primary key avoids it"
    )


def _table(
    definition: Definition, target: TableSink, name: str, state: TableState, entry: str | None
) -> ExplainedTable:
    columns = []
    for column in state.table.columns:
        downstream = target.types.sink_type(column.type)
        columns.append(ExplainedColumn(column.name, str(column.type), downstream.sql, downstream.lossy))
    keyed = "merge by key" if state.table.keys else "append only: no handle key"
    if not state.table.keys and definition.pipeline.keyless == "refuse":
        keyed = "refused: no handle key"
    slower, mode = target.fallback(state.path), target.write_mode(state.path) if state.table.keys else ""
    apply = f"{keyed} in SQL ({slower})" if slower else keyed
    partitions = target.partitions(state.path, state.table)
    return ExplainedTable(
        table=name,
        path=target.location(state.path),
        keys=state.table.keys,
        apply=f"{apply}, {mode}" if mode not in ("", "copy-on-write") else apply,
        write_mode=mode or None,
        partitions=partitions,
        sort_order=target.sort_order(state.path, state.table),
        types_from=_types_from(state),
        columns=tuple(columns),
        name=entry,
    )
