"""Reduces a change of a table to what the sink can apply to its existing rows.

Rule 1. A refused part concerns its column. A new column is NULL in existing rows, which is a gap.
Rule 2. A column whose values cannot be converted gets a type that holds old and new values; if there is none, the old values
        are gaps. Its rows are read by the declared type in either case.
Rule 3. A column whose type came from rows gets the declared one if its values are the same in it, or of the same kind.
        Otherwise it keeps its type, and goes on to take values as the rows show them.
Rule 4. A table without rows has nothing to convert.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from changefeed.frames.reshape import family
from changefeed.frames.retype import UNKNOWN, Details
from changefeed.frames.types import widen
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl.apply import Altered, Projection
from changefeed.mysql.ddl.defaults import NULL
from changefeed.pipeline.planning.evolution import underivable
from changefeed.pipeline.planning.values import conversion, default_for_null, numbered
from changefeed.pipeline.state import TableState
from changefeed.sinks.base import TypeMap


@dataclass(slots=True)
class Applicable:
    """A change as far as the sink can apply it.

    Attributes:
        complete: the producer's definition is known: the table is declared from here on.
        refusals: why parts cannot be applied.
        touched: names of the columns that the statement defines; None if it cannot be read, or applies in part.
        gaps: see `TableState`.
        notes: for people.
        keeps: no value of existing rows may change.
        session: the facts about the session that executed the statement, see `values.session_of`.
        change: the change with types and values that the sink can have.
        widening: names of the columns that get a type for old and new values.
    """

    current: TableState
    change: Altered
    types: TypeMap
    complete: bool
    refusals: list[str]
    touched: frozenset[str] | None
    gaps: set[str]
    notes: list[str]
    keeps: bool = False
    session: Details = UNKNOWN
    widening: set[str] = field(default_factory=set)
    _sent: dict[str, ColumnType | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = tuple(self._empty(p) if self.current.empty else self._settled(p) for p in self.change.rows)
        self.change = Altered(replace(self.change.table, columns=tuple(p.column for p in rows)), rows)

    def state(self) -> TableState:
        """The table after the change."""
        current, table = self.current, self.change.table
        return replace(
            current, table=table, declared=current.declared or self.complete, sent=self._sent, gaps=self._gaps(),
            keyless=not table.keys and (current.keyless or bool(current.table.keys)),
        )  # fmt: skip

    def _gaps(self) -> tuple[str, ...]:
        return (
            () if self.current.empty else tuple(p.column.name for p in self.change.rows if p.column.name in self.gaps)
        )

    def _is_touched(self, name: str) -> bool:
        return self.touched is None or name in self.touched

    def _empty(self, p: Projection) -> Projection:
        """A column of a table without rows: it has the type that is declared for it, if one is."""
        if p.source is None or self.complete or self._is_touched(p.column.name):
            return p
        declared = self.current.sent.get(p.source.name, p.column.type)
        if declared is None:
            self._sent[p.column.name] = None
            return p
        return replace(p, column=replace(p.column, type=declared))

    def _settled(self, p: Projection) -> Projection:
        name, source, declared = p.column.name, p.source, p.column.type
        if source is None:
            return self._new(p)
        if source.name in self.current.gaps:
            self.gaps.add(name)
        sent = self.current.sent.get(source.name)
        if source.name in self.current.undeclared:
            return self._undeclared(p, source)
        if sent is not None and (declared == sent or not self._is_touched(name)):  # refused before
            self._sent[name] = sent
            return replace(p, column=replace(p.column, type=source.type))
        effect = conversion(self.types, source, p.column, self.session)
        if effect == "none" or (effect and not self.keeps):
            return self._without_null(p)
        return self._refused(p, source)

    def _without_null(self, p: Projection) -> Projection:
        """A column that allows no NULL any more keeps those that it has, if their new values are unknown."""
        unknown = NULL if self.keeps else default_for_null(p, self.session.server)
        if not unknown.unknown:
            return p
        self.refusals.append(unknown.unknown)
        if p.column.name in self.change.table.keys and numbered(p):  # rows with NULL in it cannot be found again
            self.gaps.add(p.column.name)
        return replace(p, column=replace(p.column, nullable=True))

    def _new(self, p: Projection) -> Projection:
        if p.unknown:
            self.refusals.append(p.unknown)
            self.gaps.add(p.column.name)
            return replace(p, default=NULL)
        if p.default == NULL and p.column.nullable is False:
            self.gaps.add(p.column.name)
        return p

    def _undeclared(self, p: Projection, source: Column) -> Projection:
        """A column whose type came from rows: declared if its values are the same, or of the same kind, in the new type."""
        declared = p.column.type
        if source.type.name == "null":
            return replace(p, source=None)
        touched = self._is_touched(p.column.name)
        if not (self.complete or touched):
            self._sent[p.column.name] = None
            return p
        effect = conversion(self.types, source, p.column, self.session)
        wraps = declared.name == "bigint" and declared.unsigned and not source.type.unsigned
        same_kind = family(source.type) == family(declared) and not (wraps or self.keeps)
        if effect == "none" or (effect and (touched or same_kind)):
            return self._without_null(p)
        if touched and self.touched is not None:
            return self._refused(p, source)
        self._sent[p.column.name] = None
        return replace(p, column=replace(p.column, type=source.type))

    def _refused(self, p: Projection, source: Column) -> Projection:
        """A column whose values cannot be converted: see Rule 2."""
        name, declared = p.column.name, p.column.type
        if self._is_touched(name):
            self.refusals.append(underivable(source, p.column, self.session))
        wider = widen(source.type, declared)
        if self.types.conversion(source.type, wider, widening=True) is None:
            if self.keeps:
                self._sent[name] = declared
                return replace(p, column=replace(p.column, type=source.type))
            self.gaps.add(name)
            self.notes.append(f"existing rows are NULL in {name}; earlier versions of the table have the values")
            return replace(p, source=None)
        self.widening.add(name)
        if wider != declared:
            self._sent[name] = declared
        return replace(p, column=replace(p.column, type=wider))
