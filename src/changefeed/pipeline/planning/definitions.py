"""Merges the definitions of a table after a schema change: the producer's, the statement's, and that of its rows.

Debezium's and TiCDC's schema changes carry the table after the statement, as the server has it. Three definitions meet:

    from                       what is taken from it
    the producer's             which columns there are, their order, types, and whether they allow NULL
    the statement              which column was another one before, the values of existing rows, defaults, unique keys; details
                               that the producer does not send: fraction digits, lengths, members
    the table in the sink      the types of its values, where they cannot be converted; columns that stay although they are gone

Rule 1. A type of the producer without length, scale or members takes them from the statement if both name the same type. Any
        other difference is noted, and the producer's type counts: rows come with it.
Rule 2. A column that the statement adds and the producer lacks is kept: its existing rows have the right values. One that the
        statement renames or drops stays if the producer still has it: its engine has not read the statement, and rows come
        with the old columns. One that only the producer has is added. Each is noted.
Rule 3. A statement that cannot be read, or does not fit the table, is settled by the difference between the table and the
        producer's definition, if only one explanation is possible: columns that are gone were dropped, new ones that allow NULL
        and have no default are NULL, and types have changed. If columns are gone and others are new, one may have been renamed:
        then it is refused.
Rule 4. A refused part concerns its column. A new column is NULL in existing rows, which is a gap. A column whose values cannot
        be converted gets a type that holds old and new values; if there is none, the old values are gaps. Its rows are read
        by the declared type in either case.
Rule 5. A row key without values in existing rows is refused always: no later change could find these rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from changefeed.errors import SchemaError
from changefeed.frames.reshape import family
from changefeed.frames.types import widen
from changefeed.model.definition import PRIMARY, Table, UniqueKey
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl.apply import Altered, Projection
from changefeed.mysql.ddl.defaults import NULL, UNKNOWN_EXECUTION, Default, Execution, existing_rows
from changefeed.mysql.ddl.statements import AddColumn, AlterTable, ModifyColumn
from changefeed.pipeline.planning.evolution import Rewriting, altered, irregular_defaults, rewritten, underivable
from changefeed.pipeline.state import TableState
from changefeed.sinks.base import TypeMap

Columns = tuple[Column, ...]
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
    """The kind of a statement that cannot be read; None if its effect does not show in the table's columns alone: see Rule 3."""
    words = _COMMENT.sub(" ", text)
    if _CREATE.match(words):
        return "create_table"
    is_alter = _ALTER.match(words) and not _DOUBTFUL.search(_QUOTED.sub(" ", words))
    return "alter_table" if is_alter else None


# New tables.


def created(own: Table, stated: Columns | None, *, carries_virtual: bool) -> tuple[Table, tuple[str, ...]]:
    """The definition of a new table, and notes on differences.

    Args:
        own: the definition by the statement; without columns if it does not have them.
        stated: the columns by the producer; None if it sends none.
        carries_virtual: whether rows have virtual generated columns.
    """
    if stated is None:
        return own, ()
    if not own.columns:
        keys = _stated_keys(stated)
        return Table.define(own.database, own.name, _plain(stated), keys), ()
    unchanged = Altered(own, tuple(Projection(c, None) for c in own.columns))
    merged = _Merger(own, unchanged, stated, carries_virtual=carries_virtual)
    return merged.table(), tuple(merged.notes())


def _stated_keys(stated: Columns) -> tuple[UniqueKey, ...]:
    """The primary key by the producer, which may be any unique index: it identifies rows if no column allows NULL."""
    keys = tuple(c.name for c in stated if c.key)
    usable = keys and all(c.nullable is False for c in stated if c.key)
    return (UniqueKey(PRIMARY, keys),) if usable else ()


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

    Raises:
        SchemaError: existing rows get a default that is irregular, and `irregular` is `fail`.
    """
    change, why = _by_statement(current, statement, execution, lenient=lenient)
    touched = _touched(statement, change) if why is None else None
    refusals, notes = [] if why is None else [why], list[str]()
    gaps = _unexplained(statement, change)
    if stated is not None:
        merger = _Merger(
            current.table, change, stated, certain=why is None, lenient=lenient, sent=current.sent,
            carries_virtual=carries_virtual,
        )  # fmt: skip
        change, gaps = merger.altered(), gaps | merger.gaps | merger.computed
        notes += merger.notes()
        if merger.computed and not current.empty:
            notes.append(f"existing rows are NULL in {', '.join(sorted(merger.computed))}, which the upstream computes")
        if merger.doubt is not None:
            refusals = [f"{why}; {merger.doubt}"]
        elif why is not None:
            refusals, notes = [], [f"settled by the producer's definition ({why})", *notes]
    partial = why is not None and stated is None
    applicable = _Applicable(current, change, types, stated is not None, refusals, touched, gaps, notes)
    state = applicable.state()
    if current.empty:
        return Outcome(state, None, tuple(applicable.refusals), None, tuple(notes), partial)
    lost = next((key for key in state.table.keys if key in state.gaps), None)
    rewriting = rewritten(current.table, applicable.change, types, irregular, applicable.widening)
    if irregular == "null":
        texts = irregular_defaults(applicable.change)
        notes += [f"NULL for {text!r} in the rows of the new column {c}" for c, text in texts]
    return Outcome(state, rewriting, tuple(applicable.refusals), lost, tuple(notes), partial)


def _by_statement(
    current: TableState, statement: AlterTable | Unread, execution: Execution, *, lenient: bool
) -> tuple[Altered, str | None]:
    """The table by the statement alone, as far as it applies, and why not all of it does."""
    table = current.table
    if isinstance(statement, Unread):
        return _unchanged(table), statement.reason
    try:
        return altered(table, statement, declared=current.declared, lenient=lenient, execution=execution), None
    except SchemaError as error:
        why = str(error)
    try:
        return altered(table, statement, declared=False, lenient=lenient, execution=execution), why
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


def extended(current: TableState, columns: Columns, types: TypeMap, *, carries_virtual: bool = True) -> Outcome:
    """The table after a definition without a statement: it gets new columns, and keeps all rows and all columns."""
    merger = _Merger(
        current.table, _unchanged(current.table), columns, lenient=True, sent=current.sent,
        carries_virtual=carries_virtual,
    )  # fmt: skip
    gaps = merger.gaps | {p.column.name for p in merger.altered().rows if p.source is None}
    rows = tuple(replace(p, default=NULL) for p in merger.altered().rows)
    notes = merger.notes()
    applicable = _Applicable(
        current, Altered(merger.table(), rows), types, True, [], frozenset(), gaps, notes, keeps=True
    )
    state = applicable.state()
    rewriting = (
        None if current.empty else rewritten(current.table, applicable.change, types, "null", applicable.widening)
    )
    return Outcome(state, rewriting, notes=tuple(notes))


@dataclass(slots=True)
class _Merger:
    """Merges the producer's columns into a change: see Rules 1 to 3.

    Attributes:
        before: the table before the change.
        own: the change by the statement, as far as it applies.
        certain: the statement was read and applies; otherwise what differs from `before` explains it.
        sent: as in `TableState`: no note is due on these columns.
        doubt: why the difference has more than one explanation; None if it has one.
        gaps: new columns that have values upstream, but none in existing rows.
        computed: virtual columns that rows carry from here on.
    """

    before: Table
    own: Altered
    stated: Columns
    certain: bool = True
    lenient: bool = False
    sent: Mapping[str, ColumnType | None] = field(default_factory=dict)
    carries_virtual: bool = True
    doubt: str | None = None
    gaps: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    _differences: list[str] = field(default_factory=list)
    _columns: list[Projection] = field(default_factory=list)

    def __post_init__(self) -> None:
        virtual = {v.name.lower(): v.column for v in self.own.table.virtual}
        stated = [s for s in self.stated if self.carries_virtual or s.name.lower() not in virtual]
        hidden = {s.name.lower() for s in stated} & virtual.keys()
        self.computed = {virtual[name].name for name in hidden}
        mine = {name: Projection(virtual[name], None) for name in hidden}
        mine |= {p.column.name.lower(): p for p in self.own.rows}
        names = {s.name.lower() for s in stated}
        self._columns = [
            self._merged(mine[s.name.lower()], s) if s.name.lower() in mine else self._only_stated(s) for s in stated
        ]
        taken = {id(p.source) for p in self._columns if p.source is not None}
        extra = [p for p in self.own.rows if p.column.name.lower() not in names and id(p.source) not in taken]
        gone = [p for p in extra if p.source is not None and p.column.name not in self.sent]
        came = [p.column.name for p in self._columns if p.source is None and p.column.name.lower() not in mine]
        if not self.certain and gone and came:
            self.doubt = (
                f"the producer's definition lacks {', '.join(p.column.name for p in gone)} and has "
                f"{', '.join(came)}, which may be a new name"
            )
            self.gaps.update(came)
        for p in extra:
            self._only_own(p, dropped=not self.certain and self.doubt is None and p in gone)

    def altered(self) -> Altered:
        """The change with the producer's columns."""
        return Altered(self.table(), tuple(self._columns))

    def table(self) -> Table:
        """The table after the change."""
        own = self.own.table
        names = {p.source.name.lower(): p.column.name for p in self.own.rows if p.source is not None}
        now = {p.column.name.lower(): p.column.name for p in self._columns}
        now |= {
            names[p.source.name.lower()].lower(): p.column.name
            for p in self._columns
            if p.source and p.source.name.lower() in names
        }
        uniques = tuple(
            replace(key, columns=tuple(now[c.lower()] for c in key.columns))
            for key in own.uniques
            if all(c.lower() in now for c in key.columns)
        )
        columns = tuple(p.column for p in self._columns)
        virtual = tuple(v for v in own.virtual if v.name.lower() not in now)
        if own.uniques or not own.keys:
            return Table.define(own.database, own.name, columns, uniques, virtual, own.indexes, own.charset)
        keys = tuple(now[k.lower()] for k in own.keys if k.lower() in now)
        columns = tuple(replace(c, key=c.name in keys) for c in columns)
        return replace(own, columns=columns, keys=keys, virtual=virtual)

    def notes(self) -> list[str]:
        """One note on all differences; none if there are none."""
        return [f"the producer's definition differs: {'; '.join(self._differences)}"] if self._differences else []

    def _merged(self, p: Projection, stated: Column) -> Projection:
        """A column that both have."""
        own = p.column
        merged = _detailed(stated.type, own.type)
        undeclared = own.name in self.sent and self.sent[own.name] is None
        is_known = self.certain and not undeclared and own.type.name != "null"
        if is_known and merged not in (own.type, self.sent.get(own.name)) and not _same_values(merged, own.type):
            self._differences.append(f"{own.name} is {merged}, not {own.type}")
        # a connector may take a column that allows NULL for one that does not; for TIMESTAMP, a setting of the server decides
        from_own = stated.nullable is None or (own.type.name != "timestamp" and not undeclared)
        nullable = own.nullable if from_own else stated.nullable
        column = replace(own, type=merged, nullable=nullable)
        if p.source is not None or p.unknown or p.default == NULL:
            known = p.source is not None or p.unknown is not None or nullable is not False or own.nullable is False
            unknown = Default(unknown=_only_upstream(own.name))
            return replace(p, column=column, default=p.default if known else unknown)
        return replace(p, column=column, default=p.default if merged == own.type else existing_rows(column))

    def _only_stated(self, stated: Column) -> Projection:
        """A column that only the producer has."""
        column = replace(stated, key=None)
        source = self.before.column(stated.name)
        if source is not None:  # the statement has renamed or dropped it
            self._differences.append(f"it still has {stated.name}")
            return Projection(replace(column, name=source.name, type=_detailed(column.type, source.type)), source)
        if stated.nullable and stated.default is None:
            if self.certain:
                self._differences.append(f"{stated.name} is not in the statement")
            return Projection(column, None)
        return Projection(column, None, Default(unknown=_only_upstream(stated.name)))

    def _only_own(self, p: Projection, *, dropped: bool) -> None:
        """A column that only the statement or the table has: it stays behind the one before it."""
        if dropped and not self.lenient:
            return
        if self.certain and not self.lenient and p.column.name not in self.sent:
            self._differences.append(f"it lacks {p.column.name}")
        order = list(self.own.rows)
        before = {id(q) for q in order[: order.index(p)]}
        names = {q.column.name.lower() for q in order if id(q) in before}
        at = max((i + 1 for i, q in enumerate(self._columns) if q.column.name.lower() in names), default=0)
        self._columns.insert(at, p)


def _only_upstream(name: str) -> str:
    return f"column {name}: only the upstream has the values of existing rows"


def _detailed(stated: ColumnType, own: ColumnType) -> ColumnType:
    """The producer's type, with the details of the statement's that it lacks: see Rule 1."""
    if stated.name != own.name:
        return stated
    length, scale = stated.length, stated.scale
    if length is None and scale is None and stated.name != "tinyint":
        length, scale = own.length, own.scale
    return replace(
        stated, length=length, scale=scale, members=own.members if stated.members is None else stated.members
    )


def _same_values(a: ColumnType, b: ColumnType) -> bool:
    """Whether types differ only by the display width that makes a TINYINT a boolean."""
    return replace(a, length=None) == replace(b, length=None) and a.name == "tinyint"


@dataclass(slots=True)
class _Applicable:
    """A change as far as the sink can apply it: see Rule 4.

    Attributes:
        complete: the producer's definition is known: the table is declared from here on.
        refusals: why parts cannot be applied.
        touched: names of the columns that the statement defines; None if it cannot be read, or applies in part.
        gaps: see `TableState`.
        notes: for people.
        keeps: no value of existing rows may change.
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
        conversion = self.types.conversion(source.type, declared)
        if conversion == "none" or (conversion and not self.keeps):
            return p
        return self._refused(p, source)

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
        conversion = self.types.conversion(source.type, declared)
        wraps = declared.name == "bigint" and declared.unsigned and not source.type.unsigned
        same_kind = family(source.type) == family(declared) and not (wraps or self.keeps)
        if conversion == "none" or (conversion and (touched or same_kind)):
            return p
        if touched and self.touched is not None:
            return self._refused(p, source)
        self._sent[p.column.name] = None
        return replace(p, column=replace(p.column, type=source.type))

    def _refused(self, p: Projection, source: Column) -> Projection:
        """A column whose values cannot be converted: see Rule 4."""
        name, declared = p.column.name, p.column.type
        if self._is_touched(name):
            self.refusals.append(underivable(source, p.column))
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
