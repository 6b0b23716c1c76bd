"""Judges a history: its events through the product's own flow in memory, in several ways, and the tables against the server's.

at once     `consistency: transaction`, all records in one batch
in parts    the same, in batches by chance, over several partitions
by key      `consistency: key`, in batches by chance
bare        at once, the JSON without schemas

A history without an engine, of which the log was read, is judged as each producer sends it (`sending.py`): its ways are
`ticdc-open, in parts` and so on.

Converted columns are computed by Spark where there is a `Compute`, otherwise in Arrow, as Delta's native writes do it.
"""

from __future__ import annotations

import json
import random
import tempfile
import traceback
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from changefeed.errors import ChangefeedError, ResourceError, SinkError, UnsupportedError
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.frontier import strategy
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.planning.rules import rules_of
from changefeed.protocols import protocol
from changefeed.stages.changes import Redefinition
from tests.live.comparing import Difference, differences, without_zero_dates
from tests.live.history import History
from tests.live.recording import payload_of
from tests.live.schema import MARKER
from tests.live.sending import OPTIONS, Sent, lost_value, sent_as
from tests.pipeline.kit.faithful import Compute, FaithfulSink
from tests.pipeline.kit.in_memory import MemoryLetters, RecordingStore, Storage, decoded_chunks, memory_definition
from tests.services.debezium import PREFIX, Event

Record = dict[str, Any]
Partition = tuple[str, int]
WAYS = ("at once", "in parts", "by key", "bare")
WAYS_OF_LOGS = tuple(f"{name}, {way}" for name in OPTIONS for way in WAYS[:3])
_ZONE = "+00:00"  # of the sessions of `tests.services.database`


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a way.

    Attributes:
        verdict: `LOST`, `RIGHT`, `DRIFT`, `KEPT`, `STOP`, `WRONG` or `CRASH`; see `verdicts.py`.
        text: the reason, or the differences.
        notes: notes of the run.
        different: the differences, without those of which a note has the reason.
    """

    verdict: str
    text: str = ""
    notes: tuple[str, ...] = ()
    different: tuple[Difference, ...] = ()


def judge(history: History, way: str, compute: Compute | None = None, seed: int = 0) -> Outcome:
    """Runs the history's events in one way, and compares the tables."""
    chance = random.Random(f"{history.name} {way} {seed}")
    name, _, way = way.rpartition(", ")
    notes: list[str] = []
    storage, letters = Storage(), MemoryLetters("stop")
    if value := lost_value(name, history.log):
        return Outcome("LOST", value)
    try:
        with tempfile.TemporaryDirectory() as folder:
            try:
                sent = _sent(name, history, way, Path(folder), chance)
            except UnsupportedError as error:  # as the producer does
                return Outcome("LOST", str(error))
            _run(sent, way, storage, letters, compute, chance, notes.append)
    except (SinkError, ResourceError):
        return Outcome("CRASH", traceback.format_exc(), tuple(notes))
    except ChangefeedError as error:
        reasons = [str(letter["payload"])[:600] for letter in letters.letters[:2]]
        return Outcome("STOP", " ".join([str(error), *reasons]), tuple(notes))
    except Exception:  # a defect, whatever it is
        return Outcome("CRASH", traceback.format_exc(), tuple(notes))
    return _compared(history, way, storage, notes)


def _compared(history: History, way: str, storage: Storage, notes: list[str]) -> Outcome:
    published = storage.published()
    if not published:  # nothing was recorded
        return Outcome("WRONG", "no step was published", tuple(notes))
    state = published[-1]
    actual = {
        f"{t.table.database}.{t.table.name}": (
            t.table,
            storage.tables.rows(t.path) if t.path in storage.tables.tables else [],
        )
        for t in state.tables.values()
        if t.table.name != MARKER
    }
    for one in state.uncaptured.values():  # an empty table without a topic, whose definition is followed
        if one.table is not None:
            name = f"{one.table.table.database}.{one.table.table.name}"
            actual |= {name: (one.table.table, [])} if name in history.tables else {}
    right = history.tables
    if history.log:
        right = {table: without_zero_dates(content) for table, content in right.items()}
    if history.log and history.lower_case:  # statements may spell them otherwise
        actual = {table.lower(): content for table, content in actual.items()}
    different = differences(actual, right, history.server)
    # without ends of transactions, the last row, a marker's, waits for a later one
    if state.counts.pending != int(state.incomplete is not None and not state.incomplete.name):
        return Outcome(
            "WRONG", f"{state.counts.pending} changes are still pending; {'; '.join(map(str, different))}", tuple(notes)
        )
    if not different:
        return Outcome("RIGHT", "", tuple(notes))
    unexplained = tuple(d for d in different if not _is_kept(d, history, way, notes))
    is_drift = all(d.what == "types" for d in different)
    verdict = "DRIFT" if is_drift else "WRONG" if unexplained else "KEPT"
    return Outcome(verdict, "; ".join(map(str, different))[:3000], tuple(notes), unexplained)


def _is_kept(difference: Difference, history: History, way: str, notes: list[str]) -> bool:
    """Whether a note has the reason why the rows are not the server's; by key, there is none on what a snapshot lacks."""
    if history.lower_case and any(f"but {difference.table} differs by case alone" in note for note in notes):
        return True
    if difference.what == "rows" and difference.actual == "None":
        start = f"{difference.table}: column {difference.column}: a zero date stays NULL"
        return any(note.startswith(start) for note in notes)
    reason = {"rows": "of which no row was read", "tables": "does not have it"}.get(difference.what)
    if difference.what == "tables" and way == "by key":
        return difference.table not in history.tables and _is_lacking(difference.table, history)
    start = f"{difference.table} keeps its rows: "
    return reason is not None and any(note.startswith(start) and reason in note for note in notes)


def _is_lacking(table: str, history: History) -> bool:
    """Whether the engine's last snapshot does not have a table that earlier records have."""
    place, since, before = ("", 0), set[str](), set[str]()
    for event in history.events:
        payload: dict[str, Any] = payload_of(event)
        source = payload.get("source") or {}
        changes = payload.get("tableChanges") or ()
        if any(change["type"] == "DROP" for change in changes) or not source.get("table"):
            continue
        if source.get("snapshot") and changes and (source["file"], source["pos"]) != place:
            place, since, before = (source["file"], source["pos"]), set(), before | since
        since.add(f"{source['db']}.{source['table']}")
    return table in before and table not in since


def _sent(name: str, history: History, way: str, folder: Path, chance: random.Random) -> Sent:
    """The records of a history; `name`: a protocol's, if its log is sent; empty if an engine has sent it."""
    most = 3 if way in ("in parts", "by key") else 1
    if name:
        return sent_as(name, history, folder, chance, most=most, keyed=way == "by key")
    return Sent("debezium-mysql", {}, sent(history.events, chance, most=most, schemas=way != "bare"))


def _run(
    sent: Sent, way: str, storage: Storage, letters: MemoryLetters, compute: Compute | None, chance: random.Random,
    note: Callable[[str], None],
) -> None:  # fmt: skip
    consistency = "key" if way == "by key" else "transaction"
    definition = memory_definition(consistency=consistency, keyless="append", **{"session-time-zone": _ZONE})
    capabilities = protocol(sent.protocol).capabilities
    redefinition = Redefinition(sent.protocol, sent.options)
    rules = rules_of(definition, capabilities, redefinition)
    ledger, sink = RecordingStore(storage), FaithfulSink(storage.tables, compute=compute)
    options = RowOptions(definition.sink.irregular, False, redefinition)
    executor = Executor(definition, ledger, storage.pending, sink, options)
    frontier = strategy(definition.pipeline.consistency, capabilities, rules)
    flow = Flow(definition, rules, frontier, ledger, storage.pending, letters, executor, report=note)
    flow.begin()
    partitions = {(record["topic"], record["partition"]) for record in sent.records}
    if way in ("in parts", "by key"):
        _follow(flow, sent, partitions, chance)
    else:
        flow.take(Batch(_chunks(sent, sent.records), "", partitions, caught_up=True))
    flow.step(flow.ledger.state, partitions, idle=True)


def _chunks(sent: Sent, records: list[Record]) -> Callable[..., Any]:
    return partial(decoded_chunks, sent.protocol, sent.options, records)


def _follow(flow: Flow, sent: Sent, partitions: set[Partition], chance: random.Random) -> None:
    """Takes a stretch of each partition at a time, while the producer sends more."""
    records = sent.records
    logs: dict[Partition, list[Record]] = {at: [] for at in sorted(partitions)}
    read = dict.fromkeys(logs, 0)
    produced, largest = 0, chance.choices([3, 10, 40, 150], [1, 2, 3, 3])[0]

    def produce(count: int) -> None:
        nonlocal produced
        for record in records[produced : produced + count]:
            logs[record["topic"], record["partition"]].append(record)
        produced = min(produced + count, len(records))

    while sum(read.values()) < len(records):
        produce(chance.randint(0, 2 * largest))
        batch = list[Record]()
        for at, log in logs.items():
            stretch = log[read[at] :][: chance.choice([0, largest // 3, largest])]
            read[at] += len(stretch)
            batch += stretch
        caught_up = sum(read.values()) == produced
        produce(chance.choice([0, 0, largest]))
        ended = {at for at, log in logs.items() if len(log) == read[at]}
        if batch:
            flow.take(Batch(_chunks(sent, batch), "", partitions, caught_up, ended))
        elif caught_up:
            flow.step(flow.ledger.state, partitions, idle=True)


def sent(events: Iterable[Event], chance: random.Random, *, most: int, schemas: bool = True) -> list[Record]:
    """The events as records of Kafka; each topic has up to `most` partitions, and a key is always in the same one."""
    counts: dict[str, int] = {}
    offsets: dict[Partition, int] = {}
    records = []
    for event in events:
        topic, key, value = event["topic"], event["key"], event["value"]
        single = topic == f"{PREFIX}.transaction" or (topic == PREFIX and chance.random() < 0.5)
        count = counts.setdefault(topic, 1 if single else chance.randint(1, most))
        at = topic, zlib.crc32((key or "").encode()) % count
        offsets[at] = offsets.get(at, -1) + 1
        if value is not None and not schemas:
            value = _bare(value)
        encoded = [None if text is None else text.encode() for text in (key, value)]
        records.append(
            {"topic": topic, "partition": at[1], "offset": offsets[at], "key": encoded[0], "value": encoded[1]}
        )
    return records


def _bare(value: str) -> str:
    """A value as the converter writes it with `schemas.enable=false`."""
    start = value.index('"payload":') if value.startswith('{"schema":') else None
    decoded = json.loads(value)
    if start is None or "payload" not in decoded:
        return value
    return json.dumps(decoded["payload"], ensure_ascii=False, separators=(",", ":"))
