"""The content of a ledger's files: their envelope, the entries of the log, and files of table definitions.

    {"format": 1, "version": "0.1.0", "sum": "<SHA-256 of format, version and body>", "body": …}

Every file is one such line. The envelope is the same in all formats, so that damage can be distinguished from a newer format.

A table's definition is long and rarely changes. So states and plans refer to it by its place in a file of definitions. The
file is written before the first entry that refers to it; a new one is written only when a step needs other definitions.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

import msgspec

from changefeed import __version__
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.pipeline.decoders import decoder_of
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.state import Counts, LastWrite, State, TableState
from changefeed.pipeline.store.base import FORMAT, Cut, Pinned, damaged, too_new

_T = TypeVar("_T")
EntryStatus = Literal["created", "epoch", "begun", "done"]


_NONE = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct, frozen=True):
    format: int
    version: str
    sum: str
    body: msgspec.Raw


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A reference to an entry: its number and its checksum."""

    number: int
    sum: str


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the ledger's log: one file.

    Attributes:
        number: its place in the log, which is also in the file's name.
        status: `created` (only the first entry), `epoch` (a claim), `begun` (has a plan) or `done` (has a state).
        step: the step that is begun or done; in other entries, the last step that is done.
        token: random token of the run that wrote the entry.
        before: checksum of the entry before; empty in the first entry.
        base: entries up to this number are packed into pages, or no longer count.
        packed: the last step in a page.
        first: the first step that is kept.
        page: checksum of the newest page.
        done: the newest earlier entry with a state.
        begun: the earlier entry with a plan that is not done.
        definitions: the file of the definitions to which `state` or `plan` refers.
        wrote: for an entry with a state: see `Cut`.
    """

    number: int
    status: EntryStatus
    epoch: int
    step: int
    at: datetime
    token: str  # prose: a random text, stored under this name
    before: str
    pipeline: str
    id: str
    base: int = 0
    packed: int = 0
    first: int = 1
    page: str = ""
    done: Ref | None = None
    begun: Ref | None = None
    definitions: str | None = None
    state: msgspec.Raw = _NONE
    plan: msgspec.Raw = _NONE
    wrote: tuple[str, ...] = ()


def sealed(body: bytes) -> bytes:
    """Returns the content of the file with this body, which is JSON."""
    envelope = _Envelope(FORMAT, __version__, _sum(FORMAT, __version__, body), msgspec.Raw(body))
    return msgspec.json.encode(envelope) + b"\n"


def opened(data: bytes, ledger: str, name: str) -> tuple[bytes, str]:
    """Checks a file; returns its body and its checksum.

    Raises:
        ConfigError: the file is in a newer format.
        SinkError: the file is damaged.
    """
    try:
        envelope = decoder_of(_Envelope).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(ledger, f"{name} cannot be read: {error}") from error
    body = bytes(envelope.body)
    if envelope.sum != _sum(envelope.format, envelope.version, body) or data != msgspec.json.encode(envelope) + b"\n":
        raise damaged(ledger, f"{name} has changed since it was written")
    if envelope.format > FORMAT:
        raise too_new(ledger, envelope.format, envelope.version, __version__)
    return body, envelope.sum


def decoded(body: bytes | msgspec.Raw, type: type[_T], ledger: str, name: str) -> _T:
    """Decodes a body.

    Raises:
        SinkError: the body is not a value of the type.
    """
    try:
        return decoder_of(type).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(ledger, f"{name} cannot be read: {error}") from error


def _sum(format: int, version: str, body: bytes) -> str:
    digest = hashlib.sha256(f"{format} {version} ".encode())
    digest.update(body)
    return digest.hexdigest()


# Tables' definitions.


class TableJson:
    """Converts tables to JSON; caches the JSON of tables that are the same objects as in the step before."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[Table, bytes]] = {}

    def __call__(self, table: Table) -> bytes:
        """Returns the JSON of a table."""
        cached = self._cache.get(id(table))
        if cached is None:
            cached = self._cache[id(table)] = (table, msgspec.json.encode(table))
        return cached[1]

    def of(self, state: State, plan: Plan | None = None) -> list[bytes]:
        """Returns the JSON of every table in a state and a plan; drops all others from the cache."""
        tables = [table.table for table in state.tables.values()]
        tables += [action.write.table for action in plan.actions] if plan else []
        named = {id(table) for table in tables}
        self._cache = {id: cached for id, cached in self._cache.items() if id in named}
        return [self(table) for table in tables]


@dataclass(frozen=True, slots=True)
class DefinitionFile:
    """A file of table definitions: the JSON of each table -> its place in the file."""

    name: str
    places: dict[bytes, int]

    def covers(self, texts: Iterable[bytes]) -> bool:
        """Whether the file has all of these definitions."""
        return all(text in self.places for text in texts)

    def body(self) -> bytes:
        """The content of the file."""
        return b"[" + b",".join(self.places) + b"]"


def definitions_of(epoch: int, texts: Iterable[bytes]) -> DefinitionFile:
    """Creates a file of these definitions, with the epoch in its name.

    A run deletes only files of its own and earlier epochs, so never a file that a newer run has just written.
    """
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    definitions = DefinitionFile("", places)
    return DefinitionFile(f"{epoch:08d}-{hashlib.sha256(definitions.body()).hexdigest()[:32]}.json", places)


# States and plans.


class _Written(msgspec.Struct, frozen=True, array_like=True):
    revision: int
    epoch: int
    step: int
    number: int


class _PackedTable(msgspec.Struct, frozen=True, array_like=True):
    definition: int
    path: str
    declared: bool
    written: _Written | None
    adopted: bool = False
    empty: bool = False
    sent: dict[str, ColumnType | None] | None = None
    gaps: tuple[str, ...] = ()
    keyless: bool = False
    unplaced: bool = False


class PackedState(msgspec.Struct, frozen=True):
    """A state whose tables refer to their definitions by place."""

    state: State
    tables: dict[str, _PackedTable]


class _PackedPlan(msgspec.Struct, frozen=True):
    plan: dict[str, Any]
    state: PackedState


def pack_state(state: State, place: Callable[[Table], int]) -> PackedState:
    """Converts a state to the form that an entry stores."""
    tables = {
        name: _PackedTable(
            place(t.table),
            t.path,
            t.declared,
            _packed(t.written),
            t.adopted,
            t.empty,
            t.sent,
            t.gaps,
            t.keyless,
            t.unplaced,
        )
        for name, t in state.tables.items()
    }
    return PackedState(dataclasses.replace(state, tables={}), tables)


def _packed(written: LastWrite | None) -> _Written | None:
    return _Written(written.revision, written.epoch, written.step, written.number) if written else None


def pack_plan(plan: Plan, place: Callable[[Table], int]) -> bytes:
    """Converts a plan to the JSON that an entry stores."""
    replace = msgspec.structs.replace
    actions = [replace(a, write=replace(a.write, table=place(a.write.table))) for a in plan.actions]
    rest = msgspec.structs.replace(plan, actions=actions, state=State())
    return msgspec.json.encode({"plan": rest, "state": pack_state(plan.state, place)})


def unpack_state(packed: PackedState, tables: list[Table]) -> State:
    """Restores a state from the result of `pack_state`.

    Raises:
        IndexError: the state refers to a definition that the file lacks.
    """
    unpacked = [_table_state(t, tables[t.definition]) for t in packed.tables.values()]
    # an earlier version wrote names with dots another way, see `model.names`
    return dataclasses.replace(packed.state, tables={table.table.full_name: table for table in unpacked})


def _table_state(t: _PackedTable, table: Table) -> TableState:
    sent = t.sent
    if sent is None:  # an earlier version did not distinguish the columns of a table
        sent = {} if t.declared else dict.fromkeys(column.name for column in table.columns)
    written = _unpacked(t.written)
    return TableState(table, t.path, t.declared, written, t.adopted, t.empty, sent, t.gaps, t.keyless, t.unplaced)


def _unpacked(written: _Written | None) -> LastWrite | None:
    return LastWrite(written.revision, written.epoch, written.step, written.number) if written else None


def unpack_plan(data: bytes | msgspec.Raw, tables: list[Table], ledger: str, name: str) -> Plan:
    """Restores a plan from the result of `pack_plan`.

    Raises:
        IndexError: the plan refers to a definition that the file lacks.
        SinkError: the JSON is not a plan.
    """
    packed = decoded(data, _PackedPlan, ledger, name)
    try:
        actions = [
            {**action, "write": {**action["write"], "table": tables[action["write"]["table"]]}}
            for action in packed.plan["actions"]
        ]
        plan = msgspec.convert({**packed.plan, "actions": actions}, Plan, str_keys=True)
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise damaged(ledger, f"{name} cannot be read: {error}") from error
    return msgspec.structs.replace(plan, state=unpack_state(packed.state, tables))


class _CutTable(msgspec.Struct, frozen=True, array_like=True):
    """The members of `_PackedTable` that a cut has; the others are skipped."""

    definition: int
    path: str
    declared: bool
    written: _Written | None


class _CutState(msgspec.Struct, frozen=True):
    barrier: int | None = None
    mark: str | None = None
    held: dict[str, msgspec.Raw] = {}
    counts: Counts = Counts()
    time: int | None = None


class _PackedCut(msgspec.Struct, frozen=True):
    state: _CutState
    tables: dict[str, _CutTable]


def cut_in(entry: LedgerEntry, ledger: str, name: str) -> Cut:
    """Returns the cut of an entry with a state; reads no more of the state."""
    packed = decoded(entry.state, _PackedCut, ledger, name)
    state = packed.state
    tables = {
        name: Pinned(table.path, table.written.revision if table.written else None, name in state.held)
        for name, table in packed.tables.items()
    }
    return Cut(
        entry.epoch, entry.step, entry.at, state.barrier, state.mark, tables, state.counts, entry.wrote, state.time
    )
