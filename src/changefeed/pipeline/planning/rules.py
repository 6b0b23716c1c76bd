"""The options of a definition that planning needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from changefeed.pipeline.config.definition import Definition
from changefeed.protocols.base import Capabilities


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for applying rows and schema changes.

    Attributes:
        keyless: tables without a handle key: `append`, `inserts` or `refuse`.
        excluded: whether a table, by `database.table`, is skipped with its schema changes (`include`, `exclude`).
        behavior: how a schema change is applied, as in Flink CDC; new tables are created in every case:
            `evolve`      it is applied; one that cannot be stops the pipeline
            `try_evolve`  it is applied; one that cannot be is noted, and the table follows its rows from there
            `lenient`     as `try_evolve`, and nothing is lost: drops and truncations are noted, columns dropped stay
            `ignore`      it is noted, and tables follow their rows
            `exception`   it stops the pipeline
        irregular: the sink's policy for values that a column cannot hold: `null`, `fail` or `keep`.
        restored_ddl: TiDB wrote the DDL, see `mysql.ddl.parse`; rows of a transaction are final states, see `stages.latest`.
    """

    keyless: str = "append"
    behavior: str = "evolve"
    irregular: str = "null"
    restored_ddl: bool = False
    excluded: Callable[[str], bool] = lambda name: False


def rules_of(definition: Definition, capabilities: Capabilities) -> Rules:
    """The rules of a definition, for a source with these capabilities."""
    behaviour = definition.pipeline
    return Rules(
        behaviour.keyless,
        behaviour.schema_change_behavior,
        definition.sink.irregular,
        capabilities.restored_ddl,
        behaviour.excludes,
    )
