"""What a pipeline would do, before anything runs: `changefeed explain`.

The first records of the source are decoded and planned, as a run would, but nothing is written. So it shows the tables
that a run would start with, not those whose first change comes later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from changefeed.errors import SourceError
from changefeed.frames.chunks import pack
from changefeed.frames.types import sink_type
from changefeed.pipeline.barrier import absorbed
from changefeed.pipeline.compose import rules_of
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.ledger import cuts
from changefeed.pipeline.paths import own_folder, tables_folder
from changefeed.pipeline.pending import ChunkInfo, chunk_info
from changefeed.pipeline.plan import make
from changefeed.pipeline.state import State, TableState
from changefeed.protocols import protocol
from changefeed.sources import source
from changefeed.stages.decode import reader

_BARRIERS = {
    "transaction": "all tables move together to the smallest resolved mark over all partitions; what is above it waits",
    "key": "each batch is applied at once, ordered per key; tables may be ahead of each other",
}
_SCHEMA = {
    "evolve": "schema changes are applied; one that cannot be stops the pipeline",
    "try_evolve": "schema changes are applied; one that cannot be is noted and passed over",
    "lenient": "as try_evolve, and nothing is dropped or truncated",
    "ignore": "new tables are created; other schema changes are ignored, and tables follow their rows",
    "exception": "new tables are created; any other schema change stops the pipeline",
}


def explain(definition: Definition, limit: int = 10_000) -> dict[str, Any]:
    """Tables with keys and type map, policies, and what would be lossy, as JSON values.

    Args:
        limit: how many records of the source are looked at.

    Raises:
        SourceError: the source cannot be read.
        UnsupportedError: a schema change in them cannot be applied.
    """
    chunks = list(_chunks(definition, limit))
    behaviour = definition.pipeline
    found = cuts(f"{own_folder(definition)}/ledger")
    state = found[-1].state if found else State()
    planned = make(State(), chunks, None, None, rules_of(definition))
    tables = planned.tables | state.tables  # what a run has reached counts more than how the source begins
    notes = list(planned.notes)
    seen = absorbed(State(), chunks, "", "", 0, quarantine=False)
    resolved = bool(seen.resolved)
    if behaviour.consistency == "transaction" and seen.counts.records and not resolved:
        notes.append(
            f"no resolved mark in the first {seen.counts.records} records: with consistency `transaction` nothing is applied "
            "until every partition has one"
        )
    return {
        "pipeline": behaviour.name,
        "protocol": definition.source.protocol.name,
        "records": seen.counts.records,
        "rows": seen.counts.rows,
        "dead_letters": seen.counts.dead,
        "barrier": _BARRIERS[behaviour.consistency],
        "schema_changes": _SCHEMA[behaviour.schema_change_behavior],
        "guarantee": protocol(definition.source.protocol.name).title
        + " sends at least once; each change is applied once",
        "tables": [_table(definition, name, here) for name, here in sorted(tables.items())],
        "notes": notes,
    }


def _chunks(definition: Definition, limit: int) -> Iterator[ChunkInfo]:
    choice = definition.source.protocol
    decode = reader(choice.name, choice.options)
    found = source(definition.source)
    missing = found.missing()
    if missing is not None:
        raise SourceError(str(missing))
    for records in found.sample(limit):
        for row in pack(decode(records), records).to_pylist():
            yield chunk_info("", row)


def _table(definition: Definition, name: str, here: TableState) -> dict[str, Any]:
    columns = []
    for column in here.table.columns:
        sink = sink_type(column.type)
        columns.append({"name": column.name, "upstream": str(column.type), "sink": sink.sql, "lossy": sink.lossy})
    keyed = "merge by key" if here.table.keys else "append only: no handle key"
    if not here.table.keys and definition.pipeline.keyless == "refuse":
        keyed = "refused: no handle key"
    return {
        "table": name,
        "path": f"{tables_folder(definition)}/{here.path}",
        "keys": list(here.table.keys),
        "apply": keyed,
        "types_from": "DDL" if here.declared else "rows",
        "columns": columns,
    }
