"""The event sink of `sqlite_events.py` keeps the contract of `changefeed.sinks.events`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from changefeed.sinks.events import EventSink
from tests.sinks.event_conformance import Conformance
from tests.sinks.event_contract import Hook, Make, Once, Row
from tests.toys.sqlite_events import SqliteEvents, read


@dataclass
class Sqlite:
    """A file; hooks are called around `_commit`."""

    file: Path
    patch: pytest.MonkeyPatch
    once: Once = field(default_factory=Once)

    def __post_init__(self) -> None:
        commit = SqliteEvents._commit

        def hooked(sink: SqliteEvents, *arguments: Any) -> None:
            self.once("before")
            commit(sink, *arguments)
            self.once("after")

        self.patch.setattr(SqliteEvents, "_commit", hooked)

    def topic(self, partitions: int = 1) -> str:
        return f"topic-{uuid.uuid4().hex[:8]}"

    def sink(self, encoder: Make, owner: str = "changefeed:test:1") -> EventSink:
        return SqliteEvents(self.file, encoder, owner)

    def records(self) -> list[Row]:
        return read(self.file)

    def at(self, place: str, hook: Hook) -> None:
        self.once.hooks[place] = hook


class TestSqlite(Conformance):
    schedule = (12, 2)  # each append is on disk before it returns

    @pytest.fixture
    def harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sqlite:
        return Sqlite(tmp_path / "records.sqlite", monkeypatch)


class NotAtomic(Sqlite):
    """A sink that promises less."""

    def sink(self, encoder: Make, owner: str = "changefeed:test:1") -> EventSink:
        return SqliteEvents(self.file, encoder, owner, atomic=False)


class NotAtomicSuite(Conformance):
    atomic = False


def test_the_suite_takes_a_sink_for_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suite, harness in ((Conformance(), Sqlite), (NotAtomicSuite(), NotAtomic)):
        suite.test_nothing_is_there_before_the_first_append(harness(tmp_path / "records.sqlite", monkeypatch))
    for suite, harness in ((Conformance(), NotAtomic), (NotAtomicSuite(), Sqlite)):
        with pytest.raises(AssertionError):
            suite.test_nothing_is_there_before_the_first_append(harness(tmp_path / "records.sqlite", monkeypatch))
