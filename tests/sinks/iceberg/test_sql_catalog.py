"""A catalog in a database: metadata is read once, and the files that are written are those that PyIceberg would write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.serializers import FromInputFile, ToOutputFile

from changefeed.sinks.iceberg import sql
from changefeed.sinks.iceberg.tags import tag
from changefeed.sinks.writes import Load, Upsert
from tests.sinks.contract import Row
from tests.sinks.iceberg.tables import PATH, Tables

ONE: Row = {"id": 1, "note": "one"}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The metadata files that are read from now on."""
    read, names = FromInputFile.table_metadata, list[str]()

    def noted(file: Any, *arguments: Any) -> Any:
        names.append(file.location)
        return read(file, *arguments)

    monkeypatch.setattr(FromInputFile, "table_metadata", noted)
    return names


def note(number: int) -> Row:
    return {"id": number % 3, "note": str(number)}


def test_a_table_that_one_sink_writes_is_read_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.write(tables.sink(), Load, ONE)
    names, sink = reads(monkeypatch), tables.sink()
    for number in range(5):
        tables.write(sink, Upsert, note(number))
    assert len(names) == 1
    with tables.opened() as table:  # another program commits: its metadata is read once, too
        table.append(table.scan().to_arrow().slice(0, 0))
    before = len(names)
    for number in range(5):
        tables.write(sink, Upsert, note(number))
    assert len(names) == before + 1


def test_metadata_files_are_those_of_pyiceberg(tables: Tables) -> None:
    """With old snapshots from a file and from memory, a rollback by others in the log, and tags."""
    for sink in (tables.sink(), tables.sink()):
        for number in range(4):
            tables.write(sink, Load if number == 0 else Upsert, note(number))
            opened = sink.open(PATH)
            assert opened is not None
            tag(sink.catalog, opened, f"cut-{number}", opened.version, 2)
    with tables.opened() as table:
        table.manage_snapshots().set_current_snapshot(snapshot_id=table.snapshots()[-2].snapshot_id).commit()
    tables.write(sink, Upsert, note(9))
    with tables.opened() as table:
        file = Path(table.metadata_location.removeprefix("file://"))
        again = file.with_name("again.metadata.json")
        ToOutputFile.table_metadata(table.metadata, table.io.new_output(str(again)))
        assert json.loads(file.read_text()) == json.loads(again.read_text())
        assert len(table.metadata.snapshots) == 9
        assert len(table.metadata.snapshot_log) == 10
        assert len({snapshot.snapshot_id for snapshot in table.metadata.snapshots}) == 9
        assert sorted(table.metadata.refs) == ["cut-2", "cut-3", "main"]


def test_the_oldest_tables_are_forgotten_when_there_are_many_snapshots(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_MOST_SNAPSHOTS", 4)
    sink = tables.sink()
    for path in ("shop/a", "shop/b"):
        for number in range(3):
            tables.write(sink, Load if number == 0 else Upsert, note(number), path=path)
    names = reads(monkeypatch)
    sink.snapshot("shop/b")
    assert names == []
    sink.snapshot("shop/a")
    assert len(names) == 1
