"""Merges the definitions of a table after a schema change: the producer's, the statement's, and that of its rows.

Debezium's and TiCDC's schema changes carry the table after the statement, as the server has it. Three definitions meet:

    from                       what is taken from it
    the producer's             which columns there are, their order, types, and whether they allow NULL
    the statement              which column was another one before, the values of existing rows, defaults, unique keys; details
                               that the producer does not send: fraction digits, lengths, members
    the table in the sink      the types of its values, where they cannot be converted; columns that stay although they are gone

`merging.py` has the rules by which the first two are merged, `applicable.py` those for the third.

Rule 1. A difference between the producer's and the statement's definition is noted once for each statement, with both.
Rule 2. A row key without values in existing rows is refused always: no later change could find these rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from changefeed.errors import SchemaError
from changefeed.frames.retype import UNKNOWN, Details
from changefeed.model.definition import Table
from changefeed.mysql.ddl.apply import Altered, Projection, changed_members, computed, deleted_by_ignore
from changefeed.mysql.ddl.defaults import NULL, UNKNOWN_EXECUTION, Execution
from changefeed.mysql.ddl.statements import AddColumn, AlterTable, ModifyColumn, SetCharset
from changefeed.pipeline.planning import column_rules
from changefeed.pipeline.planning.applicable import Applicable
from changefeed.pipeline.planning.column_rules import ALL_AS_THEY_ARE, ColumnRules
from changefeed.pipeline.planning.evolution import (
    Rewriting,
    altered,
    converted_without,
    irregular_defaults,
    rewritten,
)
from changefeed.pipeline.planning.merging import Columns, Merger, misread, stated_keys
from changefeed.pipeline.planning.values import numbered
from changefeed.pipeline.state import TableState
from changefeed.sinks.base import TypeMap

_COMMENT = re.compile(r"/\*(?!M?!).*?\*/|(?:--\s|#)[^\n]*", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^'\\]|''|\\.)*'|\"[^\"]*\"|`[^`]*`", re.DOTALL)
_CREATE = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\s+(?!IF\b)", re.IGNORECASE)
_ALTER = re.compile(r"\s*(?:ALTER|CREATE\s+(?:\w+\s+)?INDEX)\b", re.IGNORECASE)
# Words of a statement that cannot be read, with which it may do more than its columns show: to rows, values or names.
_DOUBTFUL = re.compile(
    r"\b(?:PARTITION\w*|TRUNCATE|EXCHANGE|DISCARD|IMPORT|IGNORE|GENERATED|AS|SELECT|RENAME\s+(?!COLUMN\b|INDEX\b|KEY\b))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A table after a schema change, and what becomes of its rows.

    Attributes:
        state: the table.
        rewriting: the new values of existing rows; None if they stay as they are.
        refusals: sentences: why parts cannot be applied; `state` has the rest.
        lost_key: a key column that has no values in existing rows; None if there is none.
        notes: differences between definitions, for people.
        partial: the statement applies only in part, and the producer sends no definition.
    """

    state: TableState
    rewriting: Rewriting | None = None
    refusals: tuple[str, ...] = ()
    lost_key: str | None = None
    notes: tuple[str, ...] = ()
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement that cannot be read, about a table that the producer defines.

    Attributes:
        reason: why it cannot be read.
        kind: what it does to the table.
    """

    database: str
    table: str
    reason: str
    kind: Literal["create_table", "alter_table"]


def unread_kind(text: str) -> Literal["create_table", "alter_table"] | None:
    """The kind of a statement that cannot be read; None if its effect does not show in the table's columns alone."""
    words = _COMMENT.sub(" ", text)
    if _CREATE.match(words):
        return "create_table"
    is_alter = _ALTER.match(words) and not _DOUBTFUL.search(_QUOTED.sub(" ", words))
    return "alter_table" if is_alter else None


# New tables.


def created(definition: Table, stated: Columns | None, *, carries_virtual: bool) -> tuple[Table, tuple[str, ...]]:
    """The definition of a new table, and notes on differences.

    Args:
        definition: the definition by the statement; without columns if it does not have them.
        stated: the columns by the producer; None if it sends none.
        carries_virtual: whether rows have virtual generated columns.
    """
    if stated is None:
        return definition, ()
    if not definition.columns:
        keys = stated_keys(stated)
        return Table.define(definition.database, definition.name, _plain(stated), keys), ()
    unchanged = Altered(definition, tuple(Projection(c, None) for c in definition.columns))
    merged = Merger(definition, unchanged, stated, carries_virtual=carries_virtual)
    return merged.table(), tuple(merged.notes())


def _plain(columns: Columns) -> Columns:
    return tuple(replace(c, key=None) for c in columns)


# Changed tables.


def changed(
    current: TableState,
    statement: AlterTable | Unread,
    stated: Columns | None,
    types: TypeMap,
    *,
    lenient: bool = False,
    irregular: str = "null",
    carries_virtual: bool = True,
    execution: Execution = UNKNOWN_EXECUTION,
    session: Details = UNKNOWN,
    columns: ColumnRules = ALL_AS_THEY_ARE,
) -> Outcome:
    """The table after ALTER TABLE.

    Args:
        current: the table before it, with all of its rows.
        statement: the change.
        stated: the columns after it by the producer; None if it sends none.
        types: those of the sink.
        lenient: dropped columns stay.
        irregular: the sink's policy for values that a column cannot hold.
        carries_virtual: whether rows have virtual generated columns.
        execution: of the statement, for the values of new columns.
        session: the facts about the session that executed the statement, see `values.session_of`.
        columns: those that the definition excludes or masks.

    Raises:
        SchemaError: existing rows get a default that is irregular, and `irregular` is `fail`.
    """
    change, why = _by_statement(current, statement, execution, columns, lenient=lenient)
    touched = _touched(statement, change) if why is None else None
    refusals, notes = [] if why is None else [why], list[str]()
    gaps, complete = _unexplained(statement, change), stated is not None
    if stated is not None:
        if why is None:
            refusals += misread(change.table.columns, stated, _recoded(statement))
        merger = Merger(
            current.table, change, stated, certain=why is None, lenient=lenient, sent=current.sent,
            carries_virtual=carries_virtual, execution=execution, states_defaults=session.server != "tidb",
        )  # fmt: skip
        complete = merger.counts
        change, gaps = merger.altered(), gaps | merger.gaps | merger.computed
        notes += merger.notes()
        if merger.computed and not current.empty:
            notes.append(f"existing rows are NULL in {', '.join(sorted(merger.computed))}, which the upstream computes")
        if merger.doubt is not None:
            refusals = [f"{why}; {merger.doubt}"]
        elif why is not None:
            refusals, notes = [], [f"settled by the producer's definition ({why})", *notes]
    if isinstance(statement, AlterTable):
        refusals += changed_members(statement, change)
    if isinstance(statement, AlterTable) and statement.ignores and not current.empty:
        refusals += [why for why in [deleted_by_ignore(current.table, change)] if why is not None]
    if stated is None and carries_virtual and not current.empty:
        old = {v.name.lower() for v in current.table.virtual}
        new = [v.column for v in change.table.virtual if not (v.excluded or v.name.lower() in old)]
        refusals += [why for column in new if (why := computed(column).unknown)]
    partial = why is not None and stated is None
    applicable = Applicable(current, change, types, complete, refusals, touched, gaps, notes, session=session)
    state = applicable.state()
    if current.empty:
        return Outcome(state, None, tuple(applicable.refusals), None, tuple(notes), partial)
    lost = next((key for key in state.table.keys if key in state.gaps), None)
    rewriting = rewritten(current.table, applicable.change, types, irregular, applicable.widening, session)
    notes += [
        f"column {p.column.name} becomes AUTO_INCREMENT: a row with 0 in it keeps 0, and has got a number upstream, unless the "
        "session had NO_AUTO_VALUE_ON_ZERO"
        for p in applicable.change.rows
        if numbered(p)
    ]
    if irregular == "null":
        texts = irregular_defaults(applicable.change)
        notes += [f"NULL for {text!r} in the rows of the new column {c}" for c, text in texts]
    if irregular != "fail":
        notes += [
            f"column {c}: a zero date stays NULL, and the server has converted it from {old} to {new}"
            for c, old, new in converted_without(applicable.change)
        ]
    return Outcome(state, rewriting, tuple(applicable.refusals), lost, tuple(notes), partial)


def _by_statement(
    current: TableState, statement: AlterTable | Unread, execution: Execution, columns: ColumnRules, *, lenient: bool
) -> tuple[Altered, str | None]:
    """The table by the statement alone, as far as it applies, and why not all of it does."""
    table = current.table
    if isinstance(statement, Unread):
        return _unchanged(table), statement.reason

    def applied(*, declared: bool) -> Altered:
        shown = column_rules.shown(table)
        change = altered(shown, statement, declared=declared, lenient=lenient, execution=execution)
        return column_rules.altered(table, change, columns)

    try:
        return applied(declared=current.declared), None
    except SchemaError as error:
        why = str(error)
    try:
        return applied(declared=False), why
    except SchemaError:
        return _unchanged(table), why


def _unchanged(table: Table) -> Altered:
    return Altered(table, tuple(Projection(c, c) for c in table.columns))


def following(current: TableState, statement: AlterTable | Unread) -> TableState:
    """The table after a statement that is ignored: the columns that it modifies have the types of their rows."""
    names = _defined(statement, (ModifyColumn,))
    return replace(
        current, sent=current.sent | {c.name: None for c in current.table.columns if c.name.lower() in names}
    )


def _defined(statement: AlterTable | Unread, parts: tuple[type[AddColumn | ModifyColumn], ...]) -> set[str]:
    """The names of the columns that such parts of the statement define, in lower case."""
    changes = () if isinstance(statement, Unread) else statement.changes
    return {p.column.name.lower() for p in changes if isinstance(p, parts)}


def _recoded(statement: AlterTable | Unread) -> set[str] | None:
    """The names of the columns whose character set the statement may set, in lower case; None for all."""
    changes = () if isinstance(statement, Unread) else statement.changes
    if any(isinstance(part, SetCharset) and part.converts for part in changes):
        return None
    return _defined(statement, (AddColumn, ModifyColumn))


def _unexplained(statement: AlterTable | Unread, change: Altered) -> set[str]:
    """The names of the columns that the statement modifies, but that the table did not have before."""
    names = _defined(statement, (ModifyColumn,))
    return {p.column.name for p in change.rows if p.source is None and p.column.name.lower() in names}


def _touched(statement: AlterTable | Unread, change: Altered) -> frozenset[str]:
    """The names of the columns that the statement defines, or converts."""
    names = _defined(statement, (AddColumn, ModifyColumn))
    return frozenset(
        p.column.name
        for p in change.rows
        if p.column.name.lower() in names or (p.source is not None and p.source.type != p.column.type)
    )


def renamed(before: Table, current: TableState, types: TypeMap, irregular: str, columns: ColumnRules) -> Outcome | None:
    """The table after it got another name; None if no column is excluded or masked in another way under it.

    Raises:
        SchemaError: a column that identifies rows would be excluded.
    """
    change = column_rules.renamed(before, current.table, columns)
    if change is None:
        return None
    refusals, notes = list[str](), list[str]()
    applicable = Applicable(current, change, types, False, refusals, frozenset(), set(current.gaps), notes)
    rewriting = (
        None if current.empty else rewritten(current.table, applicable.change, types, irregular, applicable.widening)
    )
    return Outcome(applicable.state(), rewriting, tuple(refusals), notes=tuple(notes))


def extended(current: TableState, columns: Columns, types: TypeMap, *, carries_virtual: bool = True) -> Outcome:
    """The table after a definition without a statement: it gets new columns, and keeps all rows and all columns."""
    merger = Merger(
        current.table, _unchanged(current.table), columns, lenient=True, sent=current.sent,
        carries_virtual=carries_virtual,
    )  # fmt: skip
    gaps = merger.gaps | {p.column.name for p in merger.altered().rows if p.source is None}
    rows = tuple(replace(p, default=NULL) for p in merger.altered().rows)
    notes = merger.notes()
    applicable = Applicable(current, Altered(merger.table(), rows), types, True, [], None, gaps, notes, keeps=True)
    state = applicable.state()
    rewriting = (
        None if current.empty else rewritten(current.table, applicable.change, types, "null", applicable.widening)
    )
    return Outcome(state, rewriting, notes=tuple(notes))
