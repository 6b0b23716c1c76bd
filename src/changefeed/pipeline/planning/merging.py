"""Merges the producer's definition of a table into a change by its statement.

Rule 1. A type of the producer without length, scale or members takes them from the statement if both name the same type. Any
        other difference is noted, and the producer's type counts: rows come with it.
Rule 2. A column that the statement adds and the producer lacks is kept: its existing rows have the right values. One that only
        the producer has is added. Each is noted.
Rule 3. Debezium's engine cannot read every statement that the server executes. If the producer still has the columns from before,
        they stay, under their old names, because rows come with them. If it lacks any other column, or gives a renamed
        column the type of the one that had its name, its engine has misunderstood the statement (two columns that swap
        names by RENAME COLUMN): then its definition does not count.
Rule 4. A statement that cannot be read, or does not fit the table, is settled by the difference between the table and the
        producer's definition, if only one explanation is possible: columns that are gone were dropped, new ones that allow NULL
        and have no default are NULL, and types have changed. If columns are gone and others are new, one may have been renamed.
        TiCDC sends no defaults: there, only the upstream has the values of new columns.
Rule 5. Debezium's engine passes over a table's default character set where ALTER TABLE or a collation has set it. It decodes
        new columns by another one, so that their text is not the server's: the statement is refused.
Rule 6. A snapshot of Debezium reads ENUM and SET of the character set `binary` as bytes, and sends NULL for every value. Changes
        from the binary log have the values. So the CREATE of such a table in a snapshot with rows is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from changefeed.model.definition import PRIMARY, Table, UniqueKey
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, TEXTS, ColumnType
from changefeed.mysql import charsets
from changefeed.mysql.ddl.apply import Altered, Projection, computed
from changefeed.mysql.ddl.defaults import NULL, UNKNOWN_EXECUTION, Default, Execution, existing_rows

Columns: TypeAlias = tuple[Column, ...]


@dataclass(slots=True)
class Merger:
    """Merges the producer's columns into a change: see Rules 1 to 4.

    Attributes:
        before: the table before the change.
        effect: the effect of the statement, as far as it applies.
        certain: the statement was read and applies; otherwise what differs from `before` explains it.
        sent: as in `TableState`: no note is due on these columns.
        carries_virtual, execution: as in `definitions.changed`.
        states_defaults: whether the producer's columns have their defaults.
        doubt: why the difference has more than one explanation; None if it has one.
        gaps: new columns that have values upstream, but none in existing rows.
        computed: old virtual columns that rows carry from here on.
        counts: the producer's definition counts, see Rule 3.
    """

    before: Table
    effect: Altered
    stated: Columns
    certain: bool = True
    lenient: bool = False
    sent: Mapping[str, ColumnType | None] = field(default_factory=dict)
    carries_virtual: bool = True
    execution: Execution = UNKNOWN_EXECUTION
    states_defaults: bool = True
    doubt: str | None = None
    gaps: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    counts: bool = True
    _differences: list[str] = field(default_factory=list)
    _columns: list[Projection] = field(default_factory=list)

    def __post_init__(self) -> None:
        virtual = {v.name.lower(): v.column for v in self.effect.table.virtual}
        stated = [s for s in self.stated if self.carries_virtual or s.name.lower() not in virtual]
        hidden = {s.name.lower() for s in stated} & virtual.keys()
        old = {v.name.lower() for v in self.before.virtual}
        new = hidden - old
        projections = {n: Projection(virtual[n], None, computed(virtual[n]) if n in new else NULL) for n in hidden}
        self.computed = {virtual[name].name for name in hidden & old}
        projections |= {p.column.name.lower(): p for p in self.effect.rows}
        names = {s.name.lower() for s in stated}
        if self.certain and (wrong := self._lost(names - hidden) or self._confused()):
            self.counts, self.computed, self._columns = False, set(), list(self.effect.rows)
            self._differences.append(f"{wrong}, and does not count")
            return
        self._columns = [
            self._merged(projections[s.name.lower()], s) if s.name.lower() in projections else self._only_stated(s)
            for s in stated
        ]
        taken = {id(p.source) for p in self._columns if p.source is not None}
        extra = [p for p in self.effect.rows if p.column.name.lower() not in names and id(p.source) not in taken]
        gone = [p for p in extra if p.source is not None and p.column.name not in self.sent]
        came = [p.column.name for p in self._columns if p.source is None and p.column.name.lower() not in projections]
        if not self.certain and gone and came:
            self.doubt = (
                f"the producer's definition lacks {', '.join(p.column.name for p in gone)} and has "
                f"{', '.join(came)}, which may be a new name"
            )
            self.gaps.update(came)
        for p in extra:
            self._only_own(p, dropped=not self.certain and self.doubt is None and p in gone)

    def _lost(self, names: set[str]) -> str:
        """A phrase: the old columns that a definition with these names lacks, if it is not the one before: see Rule 3."""
        if names == {c.name.lower() for c in self.before.columns}:
            return ""
        lost = [
            p.column.name
            for p in self.effect.rows
            if p.source is not None
            and p.column.name.lower() not in names
            and p.column.name not in self.sent
            and not (self.lenient and p.column.name == p.source.name)
        ]
        return f"it lacks {', '.join(lost)}" if lost else ""

    def _confused(self) -> str:
        """A phrase: the renamed columns that have the type of the column which had their name before, see Rule 3."""
        stated = {s.name.lower(): s.type.name for s in self.stated}
        confused = [
            p.column.name
            for p in self.effect.rows
            if p.source is not None
            and (old := self.before.column(p.column.name)) is not None
            and old.name != p.source.name
            and stated.get(p.column.name.lower(), p.column.type.name) == old.type.name != p.column.type.name
        ]
        return f"it takes {', '.join(confused)} for the column of that name before" if confused else ""

    def altered(self) -> Altered:
        """The change with the producer's columns."""
        return Altered(self.table(), tuple(self._columns))

    def table(self) -> Table:
        """The table after the change."""
        table = self.effect.table
        names = {p.source.name.lower(): p.column.name for p in self.effect.rows if p.source is not None}
        now = {p.column.name.lower(): p.column.name for p in self._columns}
        now |= {
            names[p.source.name.lower()].lower(): p.column.name
            for p in self._columns
            if p.source and p.source.name.lower() in names
        }
        uniques = tuple(
            replace(key, columns=tuple(now[c.lower()] for c in key.columns))
            for key in table.uniques
            if all(c.lower() in now for c in key.columns)
        )
        if not self.certain and self.doubt is None and table.keys:
            stated = stated_keys(self.stated)
            if {c.lower() for key in stated for c in key.columns} != {c.lower() for c in table.keys}:
                uniques, table = stated, replace(table, keys=())
        columns = tuple(p.column for p in self._columns)
        virtual = tuple(v for v in table.virtual if v.name.lower() not in now)
        if table.uniques or not table.keys:
            return Table.define(table.database, table.name, columns, uniques, virtual, table.indexes, table.charset)
        keys = tuple(now[k.lower()] for k in table.keys if k.lower() in now)
        columns = tuple(replace(c, key=c.name in keys) for c in columns)
        return replace(table, columns=columns, keys=keys, virtual=virtual)

    def notes(self) -> list[str]:
        """One note on all differences; none if there are none."""
        return [f"the producer's definition differs: {'; '.join(self._differences)}"] if self._differences else []

    def _merged(self, p: Projection, stated: Column) -> Projection:
        """A column that both have."""
        own_column = p.column
        merged = _detailed(stated.type, own_column.type)
        undeclared = own_column.name in self.sent and self.sent[own_column.name] is None
        is_known = self.certain and not undeclared and own_column.type.name != "null"
        if (
            is_known
            and merged not in (own_column.type, self.sent.get(own_column.name))
            and not _same_values(merged, own_column.type)
        ):
            self._differences.append(f"{own_column.name} is {merged}, not {own_column.type}")
        if is_known and own_column.nullable and stated.nullable is False and own_column.type.name != "timestamp":
            self._differences.append(f"{own_column.name} is NOT NULL: rows may have another value for NULL")
        # a connector may take a column that allows NULL for one that does not; for TIMESTAMP, a setting of the server decides
        in_key = (
            self.certain and own_column.name in self.effect.table.keys
        )  # so it is NOT NULL, whatever a statement has
        from_own = stated.nullable is None or in_key or (own_column.type.name != "timestamp" and not undeclared)
        nullable = own_column.nullable if from_own else stated.nullable
        # of bytes, it shows that the producer sends them as text
        charset = stated.charset if merged.name in BINARIES else stated.charset or own_column.charset
        column = replace(own_column, type=merged, nullable=nullable, charset=charset)
        if p.source is not None or p.unknown or merged == own_column.type:
            return replace(p, column=column)
        return replace(p, column=column, default=existing_rows(column, self.execution))

    def _only_stated(self, stated: Column) -> Projection:
        """A column that only the producer has."""
        column = replace(stated, key=None)
        source = self.before.column(stated.name)
        if source is not None:  # the statement has renamed or dropped it
            self._differences.append(f"it still has {stated.name}")
            return Projection(replace(column, name=source.name, type=_detailed(column.type, source.type)), source)
        if self.certain and stated.nullable and stated.default is None:
            self._differences.append(f"{stated.name} is not in the statement")
            return Projection(column, None)
        if self.states_defaults and stated.nullable and stated.default is None:
            return Projection(column, None)
        return Projection(column, None, Default(unknown=_only_upstream(stated.name)))

    def _only_own(self, p: Projection, *, dropped: bool) -> None:
        """A column that only the statement or the table has: it stays behind the one before it."""
        if dropped and not self.lenient:
            return
        if self.certain and not self.lenient and p.column.name not in self.sent:
            self._differences.append(f"it lacks {p.column.name}")
        order = list(self.effect.rows)
        before = {id(q) for q in order[: order.index(p)]}
        names = {q.column.name.lower() for q in order if id(q) in before}
        index = max((i + 1 for i, q in enumerate(self._columns) if q.column.name.lower() in names), default=0)
        self._columns.insert(index, p)


def misread(columns: Columns, stated: Columns, names: Collection[str] | None = None) -> list[str]:
    """Sentences about columns whose text the producer reads in another character set than the server's: see Rule 5.

    Args:
        columns: the columns by the statement.
        stated: the columns by the producer.
        names: the columns that the statement defines, in lower case; None for all.
    """
    by_producer = {c.name.lower(): c for c in stated}
    sentences = []
    for column in columns:
        other = by_producer.get(column.name.lower())
        if other is None or (names is not None and column.name.lower() not in names):
            continue
        server, producer = _charset_of(column), _charset_of(other)
        if server and producer and not charsets.reads(server, producer):
            sentences.append(
                f"column {column.name}: the server stores it in the character set {server}, but the producer reads it as "
                f"{producer}, so that rows do not contain the server's text"
            )
    return sentences


def lost_in_snapshots(columns: Columns) -> list[str]:
    """Sentences about columns whose values a snapshot of Debezium does not have: see Rule 6."""
    return [
        f"column {column.name}: a snapshot of Debezium has NULL for every value of {column.type.name.upper()} in the "
        "character set binary. Give the column another character set"
        for column in columns
        if column.type.name in ("enum", "set") and column.charset == charsets.BINARY
    ]


def _charset_of(column: Column) -> str | None:
    """The character set of a column's text, `binary` for bytes; None if it is unknown, and for other types."""
    if column.type.name in BINARIES:
        return charsets.BINARY
    return column.charset if column.type.name in TEXTS else None


def _only_upstream(name: str) -> str:
    return f"column {name}: only the upstream has the values of existing rows"


def _detailed(stated: ColumnType, own_type: ColumnType) -> ColumnType:
    """The producer's type, with the details of the statement's that it lacks: see Rule 1."""
    if stated.name != own_type.name:
        return stated
    length, scale = stated.length, stated.scale
    if length is None and scale is None and stated.name != "tinyint":
        length, scale = own_type.length, own_type.scale
    members = own_type.members if stated.members is None else stated.members
    unsigned = stated.unsigned or (stated.name == "decimal" and own_type.unsigned)  # which TiCDC does not send
    return replace(stated, unsigned=unsigned, length=length, scale=scale, members=members)


def _same_values(a: ColumnType, b: ColumnType) -> bool:
    """Whether types differ only by the display width that makes a TINYINT a boolean."""
    return replace(a, length=None) == replace(b, length=None) and a.name == "tinyint"


def stated_keys(stated: Columns) -> tuple[UniqueKey, ...]:
    """The primary key by the producer, which may be any unique index: it identifies rows if no column allows NULL."""
    keys = tuple(c.name for c in stated if c.key)
    usable = keys and all(c.nullable is False for c in stated if c.key)
    return (UniqueKey(PRIMARY, keys),) if usable else ()
