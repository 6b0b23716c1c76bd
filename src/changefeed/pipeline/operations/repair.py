"""Repairs a pipeline that has stopped because a table, its ledger or its pending store was changed or damaged.

Rule 1. A repair takes the next epoch, as a run does, so a run in progress stops.
Rule 2. One table: its rows become those of the ledger's version (`restore`), stay as they are (`accept`), or are read again
from the source up to the barrier (`rebuild`). The ledger publishes the table's new version in a cut of its own. A begun step is
finished afterwards, as usual: until then, the write id of the repair's commit shows the guard that the table is as in the ledger.
Rule 3. All tables: the ledger's state becomes that of a pipeline that has read nothing, which may replace whatever it wrote
before. The next run reads the source from its beginning.
Rule 4. A table is not rebuilt from a source that has lost records: up to the barrier, the source must have as many row changes as
the pipeline has read. Those of held tables count too, because another table may be held at another point when it is read again. A
table that is held itself is not rebuilt. Nor is one that was adopted, because the source has no record of its first rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from changefeed.errors import ConfigError, SinkError, SourceError, unknown_name
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.edge import as_ours
from changefeed.pipeline.flow import Flow
from changefeed.pipeline.guard import REPAIRED
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.counting import rows_within
from changefeed.pipeline.rebuilds import delete_rebuilds, rebuild_folder
from changefeed.pipeline.run import open_flow, run
from changefeed.pipeline.state import LastWrite, State, TableState
from changefeed.sinks.base import TableSink, WriteRequest, write_alone
from changefeed.sinks.ways_out import TABLE_CHANGED
from changefeed.sinks.writes import Import, Restore, Touch, Write, WriteId
from changefeed.sources import source
from changefeed.sources.copies import CopyingSource
from changefeed.stages.changes import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

How = Literal["restore", "accept", "rebuild"]
_NOTE = "changefeed repair"


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair: the tables by `database.table`, and whether the next run reads the source from its start."""

    tables: tuple[str, ...]
    starts_over: bool


def _again(definition: Definition, tables: Sequence[str]) -> str:
    """The way out for tables whose earlier records the source no longer has."""
    if not isinstance(source(definition.source), CopyingSource):
        return "Take a new snapshot upstream, and rebuild all tables from it"
    return (
        "A copy has the newest rows alone: take the tables as they are (--accept) or restore them (--restore), and copy them "
        f"again (changefeed snapshot … {' '.join(tables)}); or rebuild all tables (--rebuild --all)"
    )


def repair(definition: Definition, spark: SparkSession, tables: Sequence[str], how: How) -> Repaired:
    """Changes tables to match the ledger, or the ledger to match the tables.

    Args:
        definition: the pipeline.
        spark: a session with Delta.
        tables: names as `database.table`.
        how: `restore`, `accept` or `rebuild`: see rule 2.

    Raises:
        ConfigError: the ledger does not have a table, or the table cannot be repaired this way.
        SinkError: the ledger is damaged; use `start_over`.
        SourceError: the source has lost records that the rebuild needs.
    """
    with as_ours():
        flow = open_flow(definition, spark)
        flow.claim()
        table_states = flow.ledger.state.tables
        for name in tables:
            if name not in table_states:
                raise unknown_name("table", name, table_states)
        if how == "rebuild":
            check_rebuild(definition, flow.ledger.state, tables, flow.executor.sink)
            _rebuild(flow, spark, tables)
        for name in tables if how != "rebuild" else ():
            (_restore if how == "restore" else _accept)(flow, table_states[name])
        if flow.ledger.unfinished is None:
            _record(flow, tables)
    return Repaired(tuple(tables), starts_over=False)


def start_over(definition: Definition, spark: SparkSession) -> Repaired:
    """Resets the pipeline: the next run reads the source from its start, and may replace every table of the pipeline.

    Raises:
        ConfigError: the ledger belongs to another pipeline, or a table would lose rows from before the pipeline.
        SinkError: the ledger is damaged; its folder must be deleted first.
    """
    with as_ours():
        flow = open_flow(definition, spark)
        flow.claim()
        before = flow.ledger.state
        written, sink = _written_by(flow), flow.executor.sink
        tables = {table.path: (name, table) for name, table in before.tables.items()}
        for path in written:
            name, table = tables.get(path, (path.replace("/", "."), None))
            _check_first_rows(definition, table, name, sink.location(path))
        paths = {*before.last_writes(), *written}
        flow.ledger.finish(State(left={path: LastWrite(-1, 0, 0, 0) for path in sorted(paths)}))
        flow.pending.delete_all_but((), flow.ledger.epoch)
    return Repaired(tuple(sorted(paths)), starts_over=True)


def _record(flow: Flow, tables: Sequence[str]) -> None:
    """Publishes a cut with the versions of repaired tables."""
    state, sink, table_states = flow.ledger.state, flow.executor.sink, dict[str, TableState]()
    for name in tables:
        table = state.tables[name]
        snapshot = sink.snapshot(table.path)
        by = None if snapshot is None else snapshot.write_id
        if snapshot is None or by is None:
            raise SinkError(
                f"{sink.location(table.path)}: the table was deleted after it was repaired. {TABLE_CHANGED}"
            )
        table_states[name] = replace(table, written=LastWrite.of(snapshot.revision, by))
    flow.sync(table.path for table in table_states.values())
    flow.ledger.finish(replace(state, tables={**state.tables, **table_states}))


def _apply(flow: Flow, write: Write) -> None:
    write_id = WriteId(flow.ledger.epoch, flow.ledger.step, REPAIRED)
    write_alone(flow.executor.sink, WriteRequest(write, None, write_id, _NOTE))


def _restore(flow: Flow, table: TableState) -> None:
    if table.written is None:
        location = flow.executor.sink.location(table.path)
        raise ConfigError(f"{location}: the ledger has no version of it yet: there is nothing to restore")
    _apply(flow, Restore(path=table.path, number=REPAIRED, table=table.table, revision=table.written.revision))


def _accept(flow: Flow, table: TableState) -> None:
    sink = flow.executor.sink
    location, snapshot = sink.location(table.path), sink.snapshot(table.path)
    if snapshot is None:
        raise ConfigError(f"{location}: there is no table to accept: rebuild it")
    columns = [*(column.name for column in table.table.columns), *sink.metadata_columns]
    if sorted(snapshot.columns) != sorted(columns):
        raise ConfigError(
            f"{location}: the table has the columns {', '.join(snapshot.columns)}, upstream it has {', '.join(columns)}: "
            "restore or rebuild it"
        )
    if damaged := sink.damaged_files(table.path, snapshot.revision):
        raise ConfigError(
            f"{location}: data files are gone or damaged ({len(damaged)}, the first is {damaged[0]}): rebuild it"
        )
    _apply(flow, Touch(path=table.path, number=REPAIRED, table=table.table))


def check_rebuild(definition: Definition, state: State, tables: Sequence[str], sink: TableSink) -> None:
    """Checks that the source has all rows of these tables up to the barrier: see Rule 4.

    Raises:
        ConfigError: the source may lack some of the rows; the message names the table and what to do instead.
    """
    if state.barrier is None:
        raise ConfigError(
            "with consistency `key` there is no point up to which a single table could be rebuilt: rebuild all tables"
        )
    for name in tables:
        if name in state.held:
            raise ConfigError(
                f"{name} is held, so a rebuild would not end where the table does: restore it, and replay its dead letters if it "
                "is quarantined (changefeed dlq replay)"
            )
        table = state.tables[name]
        if sink.snapshot(table.path) is not None:
            _check_first_rows(definition, table, name, sink.location(table.path))


def _check_first_rows(definition: Definition, table: TableState | None, name: str, location: str) -> None:
    """Checks that a table has no rows from before the pipeline, as far as the ledger or sink.adopt shows."""
    if table is not None and table.adopted:
        raise ConfigError(
            f"{name} was adopted (sink.adopt): a rebuild would lose the rows that it had before this pipeline, so restore it "
            f"(changefeed repair --restore), or move {location} away to rebuild it without them"
        )
    if definition.sink.adopts(name):
        raise ConfigError(
            f"{name} is in sink.adopt: a rebuild would lose the rows that it may have from before this pipeline, so restore it "
            "(changefeed repair --restore), or take it out of sink.adopt if it has none"
        )


def _rebuild(flow: Flow, spark: SparkSession, tables: Sequence[str]) -> None:
    """Runs the pipeline into a folder beside, up to the barrier, and takes the tables from there.

    That run has a ledger of its own in the folder, also if the pipeline's is in a module of the user.
    """
    definition, state = flow.definition, flow.ledger.state
    epoch = flow.ledger.epoch
    folder = rebuild_folder(definition, epoch)
    sink = definition.sink.beside(folder)
    pipeline = definition.pipeline.model_copy(update={"folder": None})
    beside = definition.model_copy(update={"sink": sink, "pipeline": pipeline, "ledger": None})
    try:
        delete_rebuilds(definition, spark, epoch)
        built = run(beside, spark, once=True, until=state.barrier).state
        rebuilt = open_flow(beside, spark)
        rows_before, rows_rebuilt = _rows_read(flow, state), _rows_read(rebuilt, built)
        if built.barrier != state.barrier or rows_rebuilt + built.counts.repeated < rows_before:
            raise SourceError(
                f"the source no longer has all records: it has {rows_rebuilt:,} row changes up to {built.barrier}, but "
                f"{rows_before:,} were read up to {state.barrier}. {_again(definition, tables)}"
            )
        if held := [name for name in tables if name in built.held]:
            raise ConfigError(
                f"{held[0]} has dead letters in the source that have been replayed: a rebuild would stop at the first of them. "
                "Restore the table (changefeed repair --restore), or rebuild all tables, and replay the dead letters again"
            )
        for name in tables:
            place, target = rebuilt.executor.sink.location(built.tables[name].path), state.tables[name]
            _apply(flow, Import(path=target.path, number=REPAIRED, table=target.table, source=place))
    finally:
        delete_rebuilds(definition, spark, epoch)


def _rows_read(flow: Flow, state: State) -> int:
    """Number of row changes up to the barrier that were read: the applied ones, and those of held tables."""

    def held(chunk: ChunkInfo) -> list[Window]:
        hold = state.held.get(chunk.name)
        return [Window(hold.after, state.barrier)] if hold else []

    chunks = flow.pending.index(state.pending, state.sums)
    return state.counts.applied + rows_within(flow.pending, chunks, held=held)["held"]


def _written_by(flow: Flow) -> list[str]:
    """Returns the paths in the sink where a pipeline of this name has written a table, also with another ledger."""
    prefix, sink = f"changefeed:{flow.ledger.pipeline}:", flow.executor.sink
    snapshots = ((path, sink.snapshot(path)) for path in sink.tables())
    return [path for path, table in snapshots if table and any(owner.startswith(prefix) for owner in table.owners)]
