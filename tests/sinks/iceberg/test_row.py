"""Rows by key at old snapshots: keys of every type, columns that were renamed, rows in many files."""

from __future__ import annotations

from pathlib import Path

import pytest

from changefeed.errors import ConfigError, SinkError
from changefeed.pipeline.config.load import read
from changefeed.sinks import key_reader
from changefeed.sinks.rows_by_key import KeyReader
from changefeed.sinks.writes import Load, Upsert
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import table
from tests.sinks.iceberg.tables import COLUMNS, KEYS, PATH, Tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def reader(tables: Tables, key: dict[str, str], *, defined: bool = True) -> KeyReader:
    section = read(
        {
            "source": {"type": "files", "path": "x", "protocol": "ticdc-open"},
            "sink": {"type": "iceberg", "path": str(tables.root), "catalog-properties": {"type": "sql", "uri": tables.uri}},
            "pipeline": {"name": "test"},
        }
    ).sink.model_copy(update={"catalog": "test"})  # fmt: skip
    return key_reader(section if defined else None, LocalFolder(str(tables.root)), PATH, key)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_every_type_finds_its_row(tables: Tables, key: str) -> None:
    of = table(*[f"*{name}" if name == key else name for name in COLUMNS])
    low, high = ({name.split(" ")[0]: pair[i] for name, pair in COLUMNS.items()} for i in (0, 1))
    sink, name = tables.sink(), key.split(" ")[0]
    tables.write(sink, Load, low, of=of)
    tables.write(sink, Upsert, high, of=of)
    there = sink.snapshot(PATH)
    assert there is not None
    for row in (low, high):
        value = row[name]
        text = (
            f"0x{value.hex()}"
            if isinstance(value, bytes)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        (read,) = reader(tables, {name: text}).at(there.revision)
        assert read[name] == row[name]


@pytest.mark.parametrize("defined", [True, False])
def test_versions_have_their_own_values(tables: Tables, defined: bool) -> None:
    """Also if only the folder is known."""
    sink, versions = tables.sink(), list[int]()
    for note in ("a", "b"):
        tables.write(sink, Load if note == "a" else Upsert, {"id": 7, "note": note})
        there = sink.snapshot(PATH)
        assert there is not None
        versions.append(there.revision)
    seven = reader(tables, {"id": "7"}, defined=defined)
    assert [seven.at(version) for version in versions] == [[{"id": 7, "note": "a"}], [{"id": 7, "note": "b"}]]
    assert reader(tables, {"id": "8"}, defined=defined).at(versions[1]) == []
    with pytest.raises(SinkError, match="snapshot 5 was expired"):
        seven.at(5)
    for key, message in (({"id": "x"}, "'x' is not a value of the column id"), ({"no": "1"}, "have no column no")):
        with pytest.raises(ConfigError, match=message):
            reader(tables, key, defined=defined).at(versions[1])


def test_a_folder_without_a_table_of_any_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rows are shown of delta and iceberg tables alone"):
        key_reader(None, LocalFolder(str(tmp_path)), PATH, {"id": "1"})
