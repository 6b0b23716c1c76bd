"""The files of a ledger, as bytes: the envelope of each, entries of the log, and tables' definitions beside them.

    {"format": 1, "version": "0.1.0", "sum": "<SHA-256 of format, version and body>", "body": …}

Every file is one such line. The envelope stays the same in all formats, so that damage is distinguished from a newer format.

A table's definition is long and rarely changes. So a state and a plan name it by its place in a file of definitions, which
is written before the first entry that names it, and again only when a step needs a definition that it lacks.
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
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.state import State, TableState, WrittenVersion
from changefeed.pipeline.store.base import FORMAT, Cut, cut_of, damaged, too_new

_T = TypeVar("_T")
Status = Literal["created", "epoch", "begun", "done"]


_NONE = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct, frozen=True):
    format: int
    version: str
    sum: str
    body: msgspec.Raw


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """Another entry: its number and its checksum."""

    number: int
    sum: str


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log.

    Attributes:
        number: its place in the log, which its name has too.
        status: `created` alone begins a log, `epoch` is a claim, `begun` has a plan, `done` a state.
        step: that is begun or done; of the others the last one done.
        token: random, of the run that wrote it.
        before: the checksum of the entry before it; empty of the first.
        base: entries up to this one are packed into pages, or count no more.
        packed: the last step in a page.
        first: the first step that is kept.
        page: the checksum of the newest page.
        done: the newest entry with a state, before this one.
        begun: the entry with the plan that is not done, before this one.
        definitions: the file of the definitions that `state` or `plan` names.
        wrote: of a state, see `Cut`.
    """

    number: int
    status: Status
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
    """The file with this body, which is JSON."""
    envelope = _Envelope(FORMAT, __version__, _sum(FORMAT, __version__, body), msgspec.Raw(body))
    return msgspec.json.encode(envelope) + b"\n"


def opened(data: bytes, ledger: str, name: str) -> tuple[bytes, str]:
    """The body of a file, and its checksum.

    Raises:
        ConfigError: it is in a newer format.
        SinkError: it is damaged.
    """
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(ledger, f"{name} cannot be read: {error}") from error
    body = bytes(envelope.body)
    if envelope.sum != _sum(envelope.format, envelope.version, body) or data != msgspec.json.encode(envelope) + b"\n":
        raise damaged(ledger, f"{name} has changed since it was written")
    if envelope.format > FORMAT:
        raise too_new(ledger, envelope.format, envelope.version, __version__)
    return body, envelope.sum


def decoded(body: bytes | msgspec.Raw, type: type[_T], ledger: str, name: str) -> _T:
    """The value in a body.

    Raises:
        SinkError: it is another one.
    """
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(ledger, f"{name} cannot be read: {error}") from error


def _sum(format: int, version: str, body: bytes) -> str:
    digest = hashlib.sha256(f"{format} {version} ".encode())
    digest.update(body)
    return digest.hexdigest()


# Tables' definitions.


class TableJson:
    """The JSON of tables. A table that is the very same as in the step before is not written again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Table, bytes]] = {}

    def __call__(self, table: Table) -> bytes:
        """The JSON of a table."""
        known = self._known.get(id(table))
        if known is None:
            known = self._known[id(table)] = (table, msgspec.json.encode(table))
        return known[1]

    def of(self, state: State, plan: Plan | None = None) -> list[bytes]:
        """The JSON of every table that a state and a plan name; others are forgotten."""
        tables = [table.table for table in state.tables.values()]
        tables += [action.write.table for action in plan.actions] if plan else []
        named = {id(table) for table in tables}
        self._known = {id: known for id, known in self._known.items() if id in named}
        return [self(table) for table in tables]


@dataclass(frozen=True, slots=True)
class DefinitionFile:
    """A file of definitions: the JSON of each table -> its place."""

    name: str
    places: dict[bytes, int]

    def covers(self, texts: Iterable[bytes]) -> bool:
        """Whether it has all of these."""
        return all(text in self.places for text in texts)

    def body(self) -> bytes:
        """The content of the file."""
        return b"[" + b",".join(self.places) + b"]"


def definitions_of(epoch: int, texts: Iterable[bytes]) -> DefinitionFile:
    """The definitions with these texts, in a file of this epoch.

    A run deletes only files of its own epoch and of earlier ones, so never one that a newer run has just written.
    """
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    definitions = DefinitionFile("", places)
    return DefinitionFile(f"{epoch:08d}-{hashlib.sha256(definitions.body()).hexdigest()[:32]}.json", places)


# States and plans.


class _Written(msgspec.Struct, frozen=True, array_like=True):
    version: int
    epoch: int
    step: int
    action: int


class _PackedTable(msgspec.Struct, frozen=True, array_like=True):
    definition: int
    path: str
    declared: bool
    written: _Written | None


class PackedState(msgspec.Struct, frozen=True):
    """A state whose tables name their definitions by their places."""

    state: State
    tables: dict[str, _PackedTable]


class _PackedPlan(msgspec.Struct, frozen=True):
    plan: dict[str, Any]
    state: PackedState


def pack_state(state: State, place: Callable[[Table], int]) -> PackedState:
    """The state for an entry."""
    tables = {
        name: _PackedTable(place(t.table), t.path, t.declared, _packed(t.written)) for name, t in state.tables.items()
    }
    return PackedState(dataclasses.replace(state, tables={}), tables)


def _packed(written: WrittenVersion | None) -> _Written | None:
    return _Written(written.version, written.epoch, written.step, written.action) if written else None


def pack_plan(plan: Plan, place: Callable[[Table], int]) -> bytes:
    """The plan for an entry, as JSON."""
    replace = msgspec.structs.replace
    actions = [replace(a, write=replace(a.write, table=place(a.write.table))) for a in plan.actions]
    rest = msgspec.structs.replace(plan, actions=actions, state=State())
    return msgspec.json.encode({"plan": rest, "state": pack_state(plan.state, place)})


def unpack_state(packed: PackedState, tables: list[Table]) -> State:
    """The state that `pack_state` packed.

    Raises:
        IndexError: it names a definition that is not there.
    """
    unpacked = [
        TableState(tables[t.definition], t.path, t.declared, _unpacked(t.written)) for t in packed.tables.values()
    ]
    # an earlier version wrote names with dots another way, see `model.names`
    return dataclasses.replace(packed.state, tables={table.table.full_name: table for table in unpacked})


def _unpacked(written: _Written | None) -> WrittenVersion | None:
    return WrittenVersion(written.version, written.epoch, written.step, written.action) if written else None


def unpack_plan(data: bytes | msgspec.Raw, tables: list[Table], ledger: str, name: str) -> Plan:
    """The plan that `pack_plan` packed.

    Raises:
        IndexError: it names a definition that is not there.
        SinkError: it is not a plan.
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


def cut_in(entry: LedgerEntry, ledger: str, name: str) -> Cut:
    """The cut of an entry with a state."""
    packed = decoded(entry.state, PackedState, ledger, name)
    none = Table("", "", ())
    tables = {n: TableState(none, t.path, t.declared, _unpacked(t.written)) for n, t in packed.tables.items()}
    return cut_of(entry.epoch, entry.step, entry.at, dataclasses.replace(packed.state, tables=tables), entry.wrote)
