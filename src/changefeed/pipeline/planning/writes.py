"""Planner state: the tables at the current point in commit order, and the writes planned so far.

The planner processes schema changes in commit order. Before it alters a table it flushes that table's pending rows, so that
every write has the columns that the table has at that point.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.frames.payloads import read_shape
from changefeed.model.adjusted_names import adjusted, table_of, tables_sent_as
from changefeed.model.definition import Table
from changefeed.model.escaped_names import escaped
from changefeed.model.names import full_name, names_of
from changefeed.model.table import TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.actions import Action, PlannedWrite, Selection, touched
from changefeed.pipeline.planning.captured import LeftOut
from changefeed.pipeline.planning.column_rules import created
from changefeed.pipeline.planning.evolution import Rewriting, columns_added, inferred, widened
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.table_path import table_path
from changefeed.pipeline.state import Hold, TableState
from changefeed.protocols.origin import finds_no_row, is_tombstone
from changefeed.sinks.base import TableSink
from changefeed.sinks.writes import AddColumns, Append, Copy, Create, Rewrite, Upsert
from changefeed.stages.changes import NO_READS, Window

if TYPE_CHECKING:
    from changefeed.pipeline.frontier.by_key import TableFrontier

# The last sentence of errors about rows that no later change can find.
NEW_SNAPSHOT = (
    "Only a new snapshot of the table has the values: name it in pipeline.exclude and run again; after the snapshot, remove "
    "it from there"
)
_log = logging.getLogger(__name__)

# chunks and a window that they span -> the shapes, as text, of those that have a row in it
ShapesInside = Callable[[list[ChunkInfo], Window], Collection[str]]


@dataclass(slots=True)
class Writes:
    """The tables of a step in (after, upto], and the writes planned so far.

    Attributes:
        sink: its types, and the column names that it refuses.
        shapes_inside: see `pending.counting`.
        table_frontier: the frontier of each table, with `consistency: key`.
        includes_after: rows at `after` itself are applied, too: of tables with keys, and of unknown tables.
        flushed: table -> commit_ts up to which its rows are in the planned writes, or no longer matter; also by the name that
            its rows carry, under which they would be those of an unknown table once this one is gone.
        unknown: tables that were not known before their last rows came.
        left_out: the tables that are known by their DDL alone, see `captured.py`: nothing is written for them.
        creation_ts: `database.table` -> commit_ts of the schema change that created or emptied it in this step; None if its rows
            did.
        creations: path -> index of the `Create` in `actions` after which no write has touched the path.
    """

    tables: dict[str, TableState]
    held: dict[str, Hold]
    after: int | None
    upto: int | None
    chunks: dict[str, list[ChunkInfo]]
    rules: Rules
    sink: TableSink
    shapes_inside: ShapesInside
    table_frontier: TableFrontier | None = None
    includes_after: bool = False
    left_out: LeftOut = field(default_factory=lambda: LeftOut(may_come=False))
    actions: list[Action] = field(default_factory=list)
    flushed: dict[str, int | None] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    creation_ts: dict[str, int | None] = field(default_factory=dict)
    numbers: Counter[str] = field(default_factory=Counter)
    creations: dict[str, int] = field(default_factory=dict)

    def is_held(self, name: str) -> bool:
        """Whether the table is held and stays held."""
        return name in self.held and not self.held[name].released

    def start(self, name: str) -> int | None:
        """The commit_ts after which a table's changes belong to this step: the barrier, or where the table was held."""
        return self.held[name].after if name in self.held else self.after

    def _first(self, name: str) -> int | None:
        """The commit_ts after which a table's rows belong to this step."""
        after, table = self.start(name), self.tables.get(name)
        has_none = table is None or name in self.left_out
        if (
            self.includes_after
            and after is not None
            and after == self.after
            and (has_none or (table and table.table.keys))
        ):
            return after - 1
        return after

    def _reads(self, name: str) -> int | None:
        """The commit_ts that rows of a snapshot may have: a table that has them already must not get them twice."""
        if self.tables[name].table.keys:
            return None
        if name in self.creation_ts:
            creation_ts = self.creation_ts[name]
        elif self.table_frontier is not None:
            creation_ts = self.table_frontier.creation_ts(name)
        else:
            return NO_READS
        return None if creation_ts is None else creation_ts + 1

    def is_unplaced(self, name: str) -> bool:
        """Whether the table has rows without commit_ts, in this step or before."""
        table = self.tables.get(name)
        return (table is not None and table.unplaced) or any(
            chunk.min_ts is None for chunk in self.chunks.get(name, ())
        )

    def names(self) -> set[tuple[str, str]]:
        """Database and name of every table that is known, or has rows or a hold in this step."""
        known_names = {(t.table.database, t.table.name) for t in self.tables.values()}
        known_names |= {(str(c[0].database), str(c[0].table)) for c in self.chunks.values()}
        return known_names | {names_of(name) for name in self.held}

    def has_rows_only_after(self, name: str, ts: int | None) -> bool:
        """Whether the table has rows in this step, all of them after a commit_ts."""
        chunks = self.chunks.get(name, ())
        return ts is not None and bool(chunks) and all(c.min_ts is not None and c.min_ts > ts for c in chunks)

    def flush_all(self) -> None:
        """Plans all remaining rows."""
        adjusted_names = [name for name in self.tables if tables_sent_as(name)]
        for name in list(self.chunks):
            self.flush(*names_of(name if name in self.tables else table_of(name, adjusted_names)), self.upto)

    def _sent_as(self, name: str) -> str:
        """The name that a table has in its rows: its own, or one that was adjusted (`model.adjusted_names`)."""
        if name in self.chunks:
            return name
        others = (other for other in tables_sent_as(name) if other in self.chunks and other not in self.tables)
        return next((other for other in others if table_of(other, self.tables) == name), name)

    def _named(self, name: str, shapes: list[TableShape]) -> list[TableShape]:
        """The shapes with the names that the table's columns have."""
        current = self.tables.get(name)
        return shapes if current is None else [adjusted(shape, current.table.columns) for shape in shapes]

    def flush(self, database: str, table: str, upto: int | None) -> None:
        """Plans the rows of a table up to this point, with the columns that it has here."""
        name = full_name(database, table)
        if self.is_held(name) or self.rules.excluded(name):
            return
        after = self.flushed.get(name, self._first(name))
        self.pass_over(name, upto)
        if self.table_frontier is None:
            self._flush(database, table, after, upto, ())
            return
        sent = self._sent_as(name)
        (self.unknown.discard if name in self.tables else self.unknown.add)(sent)
        for part in self.table_frontier.parts(sent, after, upto, is_known=name in self.tables):
            self._flush(database, table, *part)

    def pass_over(self, name: str, upto: int | None) -> None:
        """Leaves the table's rows up to this point out of later writes."""
        self.flushed[name] = self.flushed[self._sent_as(name)] = upto

    def _flush(self, database: str, table: str, after: int | None, upto: int | None, folders: tuple[str, ...]) -> None:
        name = full_name(database, table)
        sent = self._sent_as(name)
        rows = [
            c for c in self.chunks.get(sent, ()) if overlaps(c, after, upto) and (not folders or c.folder in folders)
        ]
        if not rows:
            return
        inside = self._named(name, self._shapes_inside(name, rows, Window(after, upto)))
        inside = [shape for shape in inside if not is_tombstone(shape)]
        if inside and name in self.left_out and name not in self.tables:  # its CREATE TABLE was refused
            self.left_out.admit(name, self.rules.behavior)
        self.extend(name, inside)
        if name not in self.tables:
            return
        self.admit(name)
        if any(chunk.min_ts is None for chunk in rows):
            self.tables[name] = replace(self.tables[name], unplaced=True)
        current, all_shapes = self.tables[name], self._named(name, self._shapes(rows))
        shapes = [shape for shape in all_shapes if not is_tombstone(shape)]
        for shape in all_shapes:
            if finds_no_row(shape, current.table):
                _log.warning(
                    "%s: tombstones whose deletes are not in the topic are skipped: their key (%s) is not the table's (%s)",
                    name,
                    ", ".join(c.name for c in shape.columns),
                    ", ".join(current.table.keys) or "none",
                )
        if not current.table.keys and self.rules.keyless == "refuse":
            raise UnsupportedError(
                f"{name} has no handle key and `keyless: refuse` is set: give it a primary key upstream, name it in "
                "pipeline.exclude, or set `keyless` to `append` or `inserts`"
            )
        columns = {c.name.lower() for c in current.table.columns}
        partial = any(columns - {c.name.lower() for c in s.after_columns} for s in shapes)
        changes = Selection(
            source=names_of(sent), after=after, through=upto, folders=folders, partial=partial and bool(current.table.keys),
            declared=len(current.undeclared) < len(columns), sent=current.sent, reads=self._reads(name),
            final_states=self.rules.restored_ddl,
        )  # fmt: skip
        kind = Upsert if current.table.keys else Append
        self.tables[name] = replace(current, empty=False)
        self.add(kind(path=current.path, number=0, table=current.table), changes)

    def _shapes_inside(self, name: str, rows: list[ChunkInfo], window: Window) -> list[TableShape]:
        """The shapes that the table's rows in the window have, as far as they can change its columns.

        A chunk that spans the window may have no row inside: then its columns may be those of an earlier or a later table.
        """
        spanning = [c for c in rows if _spans(c, window)]
        certain = self._shapes(c for c in rows if not _spans(c, window))
        current = self.tables.get(name)
        if not spanning:
            return certain
        if current is not None and _inferred(current, self._shapes(rows)) == _inferred(current, certain):
            return certain
        inside = self.shapes_inside(spanning, window)
        return self._shapes(c for c in rows if not _spans(c, window) or c.shape in inside)

    def _shapes(self, rows: Iterable[ChunkInfo]) -> list[TableShape]:
        """The shapes of chunks, with the names of columns that the sink has."""
        shapes = [read_shape(text) for text in dict.fromkeys(c.shape for c in rows if c.shape)]
        return [_escaped(shape) for shape in shapes] if self.rules.escapes else shapes

    def extend(self, name: str, shapes: list[TableShape]) -> None:
        """Extends the table for rows of these shapes: creates it, adds columns, or widens them."""
        if not shapes:
            return
        current = self.tables.get(name)
        if current is None:
            table = inferred(None, shapes)
            self.create(table, declared=False, sent=dict.fromkeys(c.name for c in table.columns))
            return
        table = _inferred(current, shapes)
        if table == current.table:
            return
        old_names = {c.name for c in current.table.columns}
        declared = {v.name for v in current.table.virtual if v.type.name != "null"}
        new = [c.name for c in table.columns if c.name not in old_names]
        gaps = current.gaps if current.empty else (*current.gaps, *new)
        excluded = {v.name for v in current.table.virtual if v.excluded}
        shown = [] if current.empty else [column for column in new if column in excluded]
        if shown and self.rules.behavior in ("evolve", "exception"):
            raise UnsupportedError(
                f"{name}: column {shown[0]} was excluded under an earlier name of the table, and is not under this one, so "
                "that the rows that are there lack its values. Set schema.change.behavior to `try_evolve` for one run, which "
                f"leaves them NULL; then copy the table again (`changefeed snapshot … {name}`)"
            )
        if lost := next((key for key in table.keys if key in gaps), None):
            raise UnsupportedError(
                f"{name}: column {lost} is in the key of its rows, and the rows that are there have no value in it, so that they "
                f"cannot be found again. {NEW_SNAPSHOT}"
            )
        try:
            expressions = None if current.empty else widened(current.table, table, self.sink.types)
        except SchemaError as error:
            raise UnsupportedError(
                f"{name}: {error}. The records read so far lack its DDL: start from a snapshot, or from a log that has it"
            ) from error
        after = replace(
            current, table=table, sent=current.sent | {n: None for n in new if n not in declared}, gaps=gaps
        )
        self.change(name, after, None if expressions is None else (expressions, None))

    def change(self, name: str, after: TableState, rewriting: Rewriting | None) -> None:
        """Changes a table; `rewriting` has the new values of existing rows, None if they stay as they are.

        A table without rows is created again with the new definition.
        """
        current, table = self.tables[name], after.table
        self._check(table, exists=not current.empty)
        self.tables[name] = after
        if current.empty:
            if table != current.table:
                self._create(current.path, table)
        elif rewriting is not None:
            expressions, texts = rewriting
            self.add(Rewrite(path=current.path, number=0, table=table, expressions=expressions, texts=texts))
        elif columns_added(current.table, table):
            self.add(AddColumns(path=current.path, number=0, table=table))

    def follow_rows(self, name: str) -> None:
        """Lets the columns of a table, whose DDL could not be applied, have the types of its rows, if those are declared."""
        current = self.tables.get(name)
        if current is not None and self.rules.typed_rows:
            self.tables[name] = replace(current, sent=dict.fromkeys(c.name for c in current.table.columns))

    def create(
        self,
        table: Table,
        *,
        declared: bool,
        sent: dict[str, ColumnType | None] | None = None,
        commit_ts: int | None = None,
    ) -> None:
        """Plans a new, empty table in place of an existing one of its name; `commit_ts` is that of its DDL.

        `declared` and `sent` are those of `TableState`.

        Raises:
            SchemaError: the definition excludes a column that identifies rows.
        """
        table = created(table, self.rules.columns)
        path = table_path(table.database, table.name)
        self.left_out.created(table.full_name, by_ddl=commit_ts is not None)
        self._check(table)
        empty = not self.rules.adopts(table.full_name)  # an adopted table keeps its rows
        self.tables[table.full_name] = TableState(table, path, declared, empty=empty, sent=sent or {})
        self.creation_ts[table.full_name] = commit_ts
        self.add(Create(path=path, number=0, table=table))

    def _create(self, path: str, table: Table) -> None:
        """Plans an empty table at a path; one that is planned there already gets this definition."""
        index = None if table.full_name in self.left_out else self.creations.get(path)
        if index is None:
            self.add(Create(path=path, number=0, table=table))
            return
        write = msgspec.structs.replace(self.actions[index].write, table=table)
        self.actions[index] = Action(write=write)

    def admit(self, name: str) -> None:
        """Plans a table that was left out, because it is captured after all; all rows that a snapshot has of it are new."""
        if name not in self.left_out:
            return
        if not self.left_out.admit(name, self.rules.behavior):
            self.follow_rows(name)
        current = self.tables[name]
        self._check(current.table)
        self.creation_ts[name] = None
        self._create(current.path, current.table)

    def _check(self, table: Table, *, exists: bool = False) -> None:
        why = None if table.full_name in self.left_out else self.sink.refusal(table, exists=exists)
        if why is not None:
            raise UnsupportedError(f"{table.full_name}: {why}")

    def empty(self, name: str, commit_ts: int) -> None:
        """Plans the removal of all rows at a commit_ts."""
        current = self.tables[name]
        self.creation_ts[name] = commit_ts
        self.tables[name] = replace(current, empty=True, gaps=())
        self.add(Create(path=current.path, number=0, table=current.table))

    def move(self, name: str, database: str, table: str) -> None:
        """Plans the new name of a table, if the table is known."""
        old, new = self.tables.pop(name, None), full_name(database, table)
        self.left_out.moved(name, new, exists=old is not None)
        if old is None:
            self.tables.pop(new, None)
            return
        moved = replace(old.table, database=database, name=table)
        path = table_path(database, table)
        self.tables[new] = replace(old, table=moved, path=path, written=None)
        self.creation_ts.pop(new, None)
        if name in self.creation_ts:
            self.creation_ts[new] = self.creation_ts.pop(name)
        self.add(Copy(path=path, number=0, table=moved, source=old.path))

    def add(self, write: PlannedWrite, changes: Selection | None = None) -> None:
        """Adds one write to the plan, unless its table is left out."""
        if write.table.full_name in self.left_out:
            return
        self.numbers[write.path] += 1
        action = Action(write=msgspec.structs.replace(write, number=self.numbers[write.path]), changes=changes)
        for path in touched(action):
            self.creations.pop(path, None)
        if isinstance(write, Create):
            self.creations[write.path] = len(self.actions)
        self.actions.append(action)


def _inferred(current: TableState, shapes: Iterable[TableShape]) -> Table:
    return inferred(current.table, shapes, current.undeclared, key_known=current.declared or current.keyless)


def _escaped(shape: TableShape) -> TableShape:
    columns = tuple(replace(column, name=escaped(column.name)) for column in shape.columns)
    before, after = (None if names is None else tuple(map(escaped, names)) for names in (shape.before, shape.after))
    return replace(shape, columns=columns, before=before, after=after)


def by_table(chunks: Iterable[ChunkInfo]) -> dict[str, list[ChunkInfo]]:
    """Groups the `rows` chunks by table."""
    chunks_by_name: defaultdict[str, list[ChunkInfo]] = defaultdict(list)
    for chunk in chunks:
        if chunk.kind == "rows":
            chunks_by_name[chunk.name].append(chunk)
    return dict(chunks_by_name)


def overlaps(chunk: ChunkInfo, after: int | None, upto: int | None) -> bool:
    """Whether the chunk may have changes in (after, upto]."""
    low, high = chunk.min_ts, chunk.max_ts
    if low is None or high is None:
        return after is None and upto is None
    return (after is None or high > after) and (upto is None or low <= upto)


def _spans(chunk: ChunkInfo, window: Window) -> bool:
    """Whether the chunk begins before the window and ends after it."""
    low, high, after, upto = chunk.min_ts, chunk.max_ts, window.after, window.upto
    return None not in (after, upto, low, high) and low <= after and high > upto  # type: ignore[operator]
