"""What a definition must leave as it was once its pipeline has begun.

Metadata columns: tables have those of their first write, and a MERGE that knows of others fails or leaves them behind.
The consistency: with `key` nobody knows up to where everything was applied, so no cut could follow; with `transaction`
what waits was partly applied already, and a table without a key would get it twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.state import State, TableState
from changefeed.sinks.base import METADATA_COLUMNS

_WAY_OUT = "put that back, or start a new pipeline in an empty folder"


def check_consistency(definition: Definition, state: State) -> None:
    """Refuses another consistency than the one by which `state` was reached; before the first change any will do.

    Raises:
        ConfigError: it is another one.
    """
    if state.barrier is None and not state.counts.applied:
        return
    begun = "key" if state.barrier is None else "transaction"
    if begun != definition.pipeline.consistency:
        raise ConfigError(f"pipeline.consistency: changes have been applied with `{begun}`: {_WAY_OUT}")


def check_columns(here: TableState, columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses other metadata columns than those among the `columns` of a table that is there.

    Raises:
        ConfigError: `metadata-columns` or `irregular` is another one; the message has both.
    """
    upstream = {column.name for column in here.table.columns}
    begun = [name for name in METADATA_COLUMNS if name in columns and name not in upstream]
    wanted = [name for name in METADATA_COLUMNS if name in wanted]
    if begun != wanted:
        raise ConfigError(
            f"sink.metadata-columns and sink.irregular: the tables were created with {', '.join(begun) or 'none'}, "
            f"and would now have {', '.join(wanted) or 'none'}: {_WAY_OUT}"
        )
