"""The options of a definition that planning needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.planning.column_rules import ALL_AS_THEY_ARE, ColumnRules
from changefeed.protocols.base import Capabilities
from changefeed.sources.section import SourceSection
from changefeed.stages.changes import Redefinition


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for applying rows and schema changes.

    Attributes:
        keyless: tables without a handle key: `append`, `inserts` or `refuse`.
        excluded: whether a table, by `database.table`, is skipped with its schema changes (`include`, `exclude`, or because the
            source leaves it out): these are followed only for copies that take the place of other tables.
        behavior: how a schema change is applied, as in Flink CDC; new tables are created in every case:
            `evolve`      it is applied; one that cannot be stops the pipeline
            `try_evolve`  it is applied; one that cannot be is noted, and applied as far as possible
            `lenient`     as `try_evolve`, and nothing is lost: drops and truncations are noted, columns dropped stay
            `ignore`      it is noted, and tables follow their rows
            `exception`   it stops the pipeline
        irregular: the sink's policy for values that a column cannot hold: `null`, `fail` or `keep`.
        adopts: whether the sink may have rows of a table, by `database.table`, that another program has written.
        restored_ddl: TiDB wrote the DDL, see `mysql.ddl.parse`; rows of a transaction are final states, see `stages.latest`.
        session_database: see `protocols.base.Capabilities`.
        typed_rows: values of rows have the types that the upstream declares; otherwise the record may lack them.
        session_time_zone: time zone of the sessions that execute DDL; empty if unknown.
        escapes: the sink has column names escaped: see `model.escaped_names`.
        applies_incomplete: transactions are applied without the events that the source does not have.
        has_all_rows: see `sources.section.ChangesSection`.
        uncaptured_ddl: there may be DDL of tables that are not captured, see `captured.py`.
        copies_again: the source can copy a table again on request.
        columns: those that are excluded or masked, see `column_rules.py`.
        from_records: changes come as records; a source that reads the server itself checks what the log lacks.
    """

    keyless: str = "append"
    behavior: str = "evolve"
    irregular: str = "null"
    restored_ddl: bool = False
    typed_rows: bool = True
    excluded: Callable[[str], bool] = lambda name: False
    adopts: Callable[[str], bool] = lambda name: False
    uncaptured_ddl: bool = False
    applies_incomplete: bool = False
    escapes: bool = False
    session_time_zone: str = ""
    session_database: bool = False
    has_all_rows: bool = False
    copies_again: bool = False
    columns: ColumnRules = ALL_AS_THEY_ARE
    from_records: bool = False


def rules_of(definition: Definition, capabilities: Capabilities, redefinition: Redefinition | None = None) -> Rules:
    """The rules of a definition, for a source with these capabilities and this conversion of its values."""
    behaviour = definition.pipeline
    return Rules(
        behaviour.keyless,
        behaviour.schema_change_behavior,
        definition.sink.irregular,
        capabilities.restored_ddl,
        redefinition is None or redefinition.redefine() is None,
        lambda name: behaviour.excludes(name) or definition.source.leaves_out(name),
        definition.sink.adopts,
        capabilities.uncaptured_ddl,
        behaviour.incomplete_transactions == "apply",
        definition.sink.column_names == "escaped",
        behaviour.session_time_zone or "",
        capabilities.session_database,
        definition.source.has_all_rows,
        capabilities.copies_again,
        ColumnRules(definition.source.excludes_column, definition.source.column_mask),
        isinstance(definition.source, SourceSection),
    )
