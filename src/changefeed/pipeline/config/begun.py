"""Checks of options that must not change once a pipeline has begun.

Metadata columns are fixed by the first write of a table: changing them later would make MERGE fail, or leave NULLs.
The consistency is fixed by the first change: after `key` there is no commit_ts up to which everything is applied, so there could
be no cut; after `transaction`, pending changes may be partly applied, and a table without a key would get them twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.state import State, TableState
from changefeed.sinks.writes import METADATA_COLUMNS

_WAY_OUT = "put that back, or start a new pipeline in an empty folder"


def check_consistency(definition: Definition, state: State) -> None:
    """Refuses another consistency than that of `state`; before the first change any is allowed.

    Raises:
        ConfigError: the consistency has changed.
    """
    if state.barrier is None and not state.counts.applied:
        return
    begun = "key" if state.barrier is None else "transaction"
    if begun != definition.pipeline.consistency:
        raise ConfigError(f"pipeline.consistency: changes have been applied with `{begun}`: {_WAY_OUT}")


def check_columns(table: TableState, columns: Sequence[str], metadata_columns: Sequence[str]) -> None:
    """Refuses metadata columns that differ from those among the `columns` of an existing table.

    Raises:
        ConfigError: `metadata-columns` or `irregular` has changed; the message has both values.
    """
    upstream = {column.name for column in table.table.columns}
    begun = [name for name in METADATA_COLUMNS if name in columns and name not in upstream]
    metadata_columns = [name for name in METADATA_COLUMNS if name in metadata_columns]
    if begun != metadata_columns:
        raise ConfigError(
            f"sink.metadata-columns and sink.irregular: the tables were created with {', '.join(begun) or 'none'}, "
            f"and would now have {', '.join(metadata_columns) or 'none'}: {_WAY_OUT}"
        )
