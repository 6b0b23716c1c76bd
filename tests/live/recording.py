"""A round: many histories on one server under one engine, recorded and taken apart by their databases.

An engine takes seconds to start, and a history a second to execute. So one engine follows all histories of a round, one
history after the other, in phases; between two phases it is stopped or killed and started again, by the round's mode.

    mode          the engine
    streamed      starts in front of the first statement (`no_data`: a snapshot of nothing)
    never         the same without a snapshot, from the beginning of the binlog
    initial       starts after the first phase, and takes a snapshot of its tables and rows
    no_data       the same without rows; the first phase has none
    when_needed   as `initial`; between two phases the binlogs are purged, so that it takes another snapshot
    recovery      as `streamed`; between two phases it loses its schema history
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.live.columns import Dialect
from tests.live.history import History, Statement
from tests.live.schema import MARKER, quoted, tables
from tests.live.session import Session
from tests.live.writing import PHASES, Drawing, Repeating
from tests.services.database import Database
from tests.services.debezium import PREFIX, Debezium, Event

MODES = {"streamed": 8, "never": 2, "initial": 5, "no_data": 1, "when_needed": 1, "recovery": 1}
_OWNER = re.compile(r"\b(h\d+)[abc]\b")
_MARK_SECONDS = 1  # between two marks
_FOLLOW_SECONDS = 900
_PURGE_SECONDS = 30
_LAST = "last"
_REASON = re.compile(
    r"^(?:Caused by: )?[a-z.A-Z]*(?:DebeziumException|ParsingException|DataException|IllegalArgumentException): (.*)",
    re.MULTILINE,
)
_UNREADABLE = re.compile(r"Ignoring unparseable DDL statement '(CREATE TABLE .*?)'\nio\.debezium", re.DOTALL)
_PLACE = re.compile(r"Last offset stored = \{.*?file=([^,]+), pos=(\d+)")
_LEFT_OUT = re.compile(r"Error while processing event at offset \{.*?file=([^,]+), pos=(\d+)")
_UNCONVERTED = re.compile(r"Failed to properly convert data value for '(h\d+)[abc]\.")
_AFTER_FIRST_PHASE = ("initial", "no_data", "when_needed")
_SETTINGS = {
    "skipped.operations": "none",
    # a statement that the engine cannot parse spoils its own history only
    "schema.history.internal.skip.unparseable.ddl": "true",
    "event.processing.failure.handling.mode": "warn",
    "inconsistent.schema.handling.mode": "warn",
    "snapshot.locking.mode": "none",
    "enable.time.adjuster": "false",  # else the year 1 becomes 2001
}


@dataclass(frozen=True, slots=True)
class Job:
    """A history to record: drawn from its number, or these statements, whose databases begin with `prefix`."""

    number: int
    statements: Sequence[Statement] | None = None
    prefix: str = ""

    @property
    def name(self) -> str:
        """Prefix of the names of its databases."""
        return f"h{self.number}"


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of the engine of a round.

    Attributes:
        restarts: for each pause between two phases: `none`, `stop` or `kill`.
        transactions: whether the engine sends the beginnings and ends of transactions.
        lazy: whether it stores its offsets rarely, so that a killed engine sends much again.
    """

    mode: str
    restarts: tuple[str, ...]
    transactions: bool
    lazy: bool

    def __str__(self) -> str:
        words = [self.mode, *self.restarts, "transactions" if self.transactions else "no transactions"]
        return ", ".join([*words, *(["lazy offsets"] if self.lazy else [])])


def draw_modes(random: Random, server: str, mode: str | None = None) -> Modes:
    """The modes of a round; the engine for MySQL is of a version that has no `never`."""
    restarts = tuple(random.choice(["none", "none", "stop", "kill", "kill"]) for _ in range(PHASES - 1))
    weights = MODES if server == "mariadb" else MODES | {"never": 0}
    mode = mode or random.choices(list(weights), list(weights.values()))[0]
    return Modes(mode, restarts, random.random() < 0.8, random.random() < 0.5)


class Round:
    """A round; see the head of this file."""

    def __init__(
        self, database: Database, modes: Modes, folder: Path, *, lower_case: bool = False,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.database, self.modes, self.folder, self.progress = database, modes, folder, progress
        self.dialect = Dialect(database.connector == "mariadb", lower_case)
        self.lower_case = lower_case
        self._engine: Debezium | None = None
        self._marks, self._log_before = 0, 0
        self.dead: dict[str, str] = {}  # histories that the engine has died of -> its reason
        self._events = _Events(folder / "events.jsonl")

    def record(self, jobs: Sequence[Job]) -> list[History]:
        """Executes and records the histories."""
        self.folder.mkdir(parents=True)
        with Session(self.database) as session:
            session.execute("RESET MASTER")
            session.execute("DROP DATABASE IF EXISTS zz")
            writers = [self._writer(session, job) for job in jobs]
            try:
                self._write(session, writers)
                for writer in writers:
                    writer.end()
                self.dead = _left_out(session, self.folder / "engine.log") | self.dead
            finally:
                self._stop()
                for writer in writers:
                    writer.drop()
        histories = [writer.history for writer in writers]
        split(self._events.all, histories)
        for history in histories:
            history.died = self.dead.get(history.name)
        return histories

    def _writer(self, session: Session, job: Job) -> Drawing | Repeating:
        history = History(job.name, self.database.connector, str(self.modes), self.lower_case)
        if job.statements is not None:
            return Repeating(session, history, job.statements, job.prefix)
        rows_before = self.modes.mode != "no_data"
        return Drawing(session, history, job.number, self.dialect, rows_before=rows_before)

    def _write(self, session: Session, writers: Sequence[Drawing | Repeating]) -> None:
        if self.modes.mode not in _AFTER_FIRST_PHASE:
            self._start()
            self._follow(session)
        for phase in range(PHASES):
            for number, writer in enumerate(writers):
                self.progress(f"phase {phase + 1} of {PHASES}, history {number + 1} of {len(writers)}")
                writer.write(phase)
                writer.mark(phase)
            if self._engine is None:
                self.progress("the engine takes a snapshot")
                self._start()
                for writer in writers:
                    writer.mark(phase + PHASES)
            self.progress("the engine catches up")
            self._follow(session)
            if (
                self.modes.mode in _AFTER_FIRST_PHASE
            ):  # else a snapshot may have everything, and its end is in one history
                for writer in writers:
                    writer.mark(phase + 2 * PHASES)
                self._follow(session)
            if phase < PHASES - 1:
                self._restart(session, self.modes.restarts[phase])

    def _restart(self, session: Session, how: str) -> None:
        """Ends the engine and starts it again."""
        mode = self.modes.mode
        if how == "none" and mode not in ("when_needed", "recovery"):
            return
        assert self._engine is not None
        if how == "kill" and mode != "recovery" and (self.folder / "offsets").exists():
            self._engine.kill()
        self._stop()
        self._events.end_line()
        if mode == "when_needed" and how != "none":
            _purge(session)
        if mode == "recovery":
            (self.folder / "history").unlink()
        self._start(recovers=mode == "recovery")
        if mode == "recovery":  # it reads the definitions of now, which fit no row from before a schema change
            self._follow(session)

    def _follow(self, session: Session) -> None:
        """Waits until the engine follows the binlog and has sent everything: a row that is written again and again arrives."""
        assert self._engine is not None
        session.execute("CREATE DATABASE IF NOT EXISTS zz")
        session.execute(f"CREATE TABLE IF NOT EXISTS zz.{MARKER} (name VARCHAR(40) PRIMARY KEY)")
        begin, last = self._marks, 0.0
        deadline = time.monotonic() + _FOLLOW_SECONDS

        while time.monotonic() < deadline:
            if time.monotonic() - last > _MARK_SECONDS:
                self._marks += 1
                session.execute(f"INSERT INTO zz.{MARKER} VALUES ('{self._marks}')")
                last = time.monotonic()
            marks = [event["key"] for event in self._events.new() if event["topic"] == f"{PREFIX}.zz.{MARKER}"]
            if any(int(json.loads(key)["name"]) > begin for key in marks):
                return
            if self._engine.has_ended():
                self._go_on_without(session)
            time.sleep(0.1)
        raise RuntimeError(f"the engine has not followed for {_FOLLOW_SECONDS} s: {self.folder}/engine.log")

    def _go_on_without(self, session: Session) -> None:
        """The engine has died of a row or a statement: starts it again without the history that these belong to."""
        log = self._log()
        owners = (_unconverted(log), _died_at(session, log), self._not_read(session, log), _last_named(log))
        dead = next((owner for owner in owners if owner is not None and owner not in self.dead), None)
        reason = reason_of(log)
        if dead is None:
            raise RuntimeError(f"the engine has died, and it is not known of what: {self.folder}/engine.log: {reason}")
        if self.modes.mode == "recovery":  # what it recovers then has the definitions of later statements
            raise RuntimeError(f"the engine has died of {dead} in mode recovery: {self.folder}/engine.log: {reason}")
        self.dead[dead] = reason
        self.progress(f"the engine has died of {dead}: {reason}")
        self._stop()
        self._events.end_line()
        self._start()

    def _log(self) -> str:
        """The log of the engine since it was started last."""
        with (self.folder / "engine.log").open("rb") as file:
            file.seek(self._log_before)
            return file.read().decode(errors="replace")

    def _not_read(self, session: Session, log: str) -> str | None:
        """A history with a table whose definition the engine could not parse in a snapshot."""
        unreadable = set(_UNREADABLE.findall(log))
        databases = [row[0] for row in session.query("SHOW DATABASES") if _OWNER.fullmatch(row[0])]
        for database, table in sorted(tables(session, databases)) if unreadable else ():
            name = f"{quoted(database)}.{quoted(table)}"
            if session.query(f"SHOW CREATE TABLE {name}")[0][1] in unreadable and database[:-1] not in self.dead:
                return database[:-1]
        return None

    def _start(self, *, recovers: bool = False) -> None:
        mode = {"streamed": "no_data", "when_needed": "when_needed"}.get(self.modes.mode, self.modes.mode)
        if self.modes.mode == "recovery":
            mode = "recovery" if recovers else "no_data"
        log = self.folder / "engine.log"
        self._log_before = log.stat().st_size if log.exists() else 0
        self._engine = Debezium(self.database, self.folder, self._settings() | {"snapshot.mode": mode})
        self._engine.__enter__()

    def _settings(self) -> dict[str, str]:
        """The engine's properties, without the mode of a snapshot."""
        return _SETTINGS | {
            "database.include.list": "".join(f"(?!{name}[abc])" for name in self.dead) + "h[0-9]+[abc],zz",
            "provide.transaction.metadata": str(self.modes.transactions).lower(),
            "offset.flush.interval.ms": "2000" if self.modes.lazy else "0",
        }

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.__exit__(None, None, None)
            self._engine = None


class _Events:
    """The engine's file of events, of which each part is read once."""

    def __init__(self, path: Path) -> None:
        self.path, self.all = path, list[Event]()
        self._read, self._rest = 0, b""

    def new(self) -> list[Event]:
        """The events that were not read yet."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        events = [json.loads(line) for line in lines]
        self.all += events
        return events

    def end_line(self) -> None:
        """A killed engine may have left half a line, behind which the next one begins: the half is taken away."""
        self.new()
        if self._rest:
            with self.path.open("r+b") as file:
                file.truncate(self._read - len(self._rest))
            self._read -= len(self._rest)
            self._rest = b""


def _purge(session: Session) -> None:
    """Removes all binlogs but a new one; the server keeps one that a killed engine seems to read."""
    session.execute("FLUSH BINARY LOGS")
    deadline = time.monotonic() + _PURGE_SECONDS
    while len(logs := session.query("SHOW BINARY LOGS")) > 1:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server still has the binlogs {logs}")
        for reader in session.query("SHOW PROCESSLIST"):
            if reader[4] == "Binlog Dump":
                session.execute(f"KILL {reader[0]}")
        session.execute(f"PURGE BINARY LOGS TO '{logs[-1][0]}'")


def reason_of(log: str) -> str:
    """The innermost of the last exceptions in an engine's log; empty if it has none."""
    reasons = _REASON.findall(log)
    return reasons[-1] if reasons else ""


def _unconverted(log: str) -> str | None:
    """The history with the value that the engine could not convert, and has died of."""
    names = _UNCONVERTED.findall(log)
    return names[-1] if names and "Conversion error" in log else None


def _last_named(log: str) -> str | None:
    """The history that the log has named last: a snapshot names each table that it begins."""
    names = _OWNER.findall(log)
    return names[-1] if names else None


def _died_at(session: Session, log: str) -> str | None:
    """The history whose rows or statement the binlog has at the place of the engine's last error."""
    places = _PLACE.findall(log)
    return _written_at(session, *places[-1]) if places else None


def _written_at(session: Session, file: str, position: str) -> str | None:
    """The history whose rows or statement the binlog has at this place, or next behind it; None if the log is gone."""
    if file not in {row[0] for row in session.query("SHOW BINARY LOGS")}:
        return None
    for event in session.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {position} LIMIT 20"):
        if (owner := _OWNER.search(event[5])) is not None:
            return owner[1]
    return None


def _left_out(session: Session, log: Path) -> dict[str, str]:
    """The histories of which the engine has left out an event that it could not convert, with the place."""
    places = dict.fromkeys(_LEFT_OUT.findall(log.read_text(errors="replace"))) if log.exists() else {}
    owners = {place: _written_at(session, *place) for place in places}
    return {owner: f"left out the event at {':'.join(place)}" for place, owner in owners.items() if owner is not None}


def split(events: Sequence[Event], histories: Sequence[History]) -> None:
    """Gives each history the events of its databases; what names none belongs with the event before it.

    The mark of a snapshot without rows is on the schema change of one history, and counts for those of all.
    """
    by_name = {history.name: history for history in histories}
    transactions: dict[str, str] = {}
    owners: list[str | None] = []
    payloads = [payload_of(event) for event in events]
    for event, payload in zip(events, payloads, strict=True):
        owner = _owner(event, payload)
        transaction: Any = payload.get("transaction") or {}
        identity = transaction.get("id") or (payload.get("id") if "status" in payload else None)
        if identity is not None and owner is not None:
            transactions[str(identity)] = owner
        owners.append(owner)
    last: str | None = None
    for event, payload, owner in zip(events, payloads, owners, strict=True):
        if owner is None and "status" in payload:
            owner = transactions.get(str(payload.get("id")))
        last = owner or last
        if last in by_name:
            by_name[last].events.append(event)
    places = {_snapshot_place(payload) for payload in payloads if _mark(payload) == _LAST}
    for history in histories if places else ():
        newest = {_snapshot_place(payload_of(event)): i for i, event in enumerate(history.events)}
        for place in places & newest.keys() - {None}:
            history.events[newest[place]] = _marked(history.events[newest[place]])


def _snapshot_place(payload: dict[str, Any]) -> tuple[str, int] | None:
    """The place of the snapshot that a schema change belongs to; None for everything else."""
    source = payload.get("source") or {}
    if "ddl" not in payload or _mark(payload) not in ("true", _LAST):
        return None
    return source["file"], source["pos"]


def _mark(payload: dict[str, Any]) -> str | None:
    mark: str | None = (payload.get("source") or {}).get("snapshot") if "ddl" in payload else None
    return mark


def _marked(event: Event) -> Event:
    """The schema change as the last one of a snapshot without rows."""
    value: Any = json.loads(event["value"])
    (value["payload"] if "schema" in value else value)["source"]["snapshot"] = _LAST
    return {**event, "value": json.dumps(value, ensure_ascii=False)}


def payload_of(event: Event) -> dict[str, Any]:
    """The value of a record without its schema; empty for a tombstone."""
    if event["value"] is None:
        return {}
    value = json.loads(event["value"])
    payload: dict[str, Any] = value.get("payload", value) if "schema" in value else value
    return payload


def _owner(event: Event, payload: dict[str, Any]) -> str | None:
    parts = event["topic"].split(".")
    match = _OWNER.search(parts[1]) if len(parts) > 2 else None
    if match is None and "ddl" in payload:
        match = _OWNER.search(str(payload.get("databaseName") or "")) or _OWNER.search(str(payload.get("ddl")))
    if match is None and payload.get("data_collections"):
        match = _OWNER.search(json.dumps(payload["data_collections"]))
    return match[1] if match else None


__all__ = ["MARKER", "Job", "Modes", "Round", "draw_modes", "payload_of", "reason_of", "split"]
