"""The ledger of `sqlite_store.py` keeps the contract of `changefeed.pipeline.store.base`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from changefeed.errors import SinkError
from changefeed.pipeline.store.base import Keep
from tests.pipeline.store.conformance import Clock, Conformance, Kind, claimed, go
from tests.toys import sqlite_store
from tests.toys.sqlite_store import SqliteStore


class Sqlite(Kind):
    """A file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger.sqlite"

    def store(self, pipeline: str = "shop", keep: Keep | None = None, now: Clock | None = None) -> SqliteStore:
        return SqliteStore(self.file, pipeline, keep, **({"now": now} if now else {}))

    def reading(self, pipeline: str = "shop") -> SqliteStore:
        return SqliteStore(self.file, pipeline)

    def make_newer(self) -> str:
        self.change("UPDATE store SET format = 99, version = '7.0.0'")
        return str(self.file)

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.file)) as database, database:
            database.execute(statement)


@pytest.fixture
def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sqlite:
    monkeypatch.setattr(sqlite_store, "SYNCHRONOUS", "OFF")  # no test loses power
    return Sqlite(tmp_path)


class TestSqlite(Conformance):
    @pytest.fixture
    def kind(self, sqlite: Sqlite) -> Kind:
        return sqlite

    def another(self, folders: pytest.TempPathFactory) -> Kind:
        return Sqlite(folders.mktemp("another"))


@pytest.mark.parametrize(
    "statement, why",
    [
        ("DELETE FROM cuts WHERE step = 2", "of the cuts from 1 to 3 some are missing"),
        ("UPDATE cuts SET body = replace(body, '20', '21') WHERE step = 2", "a row has changed since it was written"),
        ("UPDATE store SET body = replace(body, '30', '31')", "a row has changed since it was written"),
    ],
)
def test_damage_is_an_error(sqlite: Sqlite, statement: str, why: str) -> None:
    go(claimed(sqlite), 3)
    sqlite.change(statement)
    with pytest.raises(SinkError, match=f"ledger.sqlite: the ledger is damaged: {why}"):
        list(sqlite.reading().history())
