"""The metadata of commits: its place, and its times, whatever properties the table has and whatever the clock shows."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from changefeed.sinks.iceberg.tags import tag
from changefeed.sinks.writes import Load, Touch, Upsert
from tests.sinks.contract import Row
from tests.sinks.iceberg.tables import PATH, Tables

ONE: Row = {"id": 1, "note": "one"}
TWO: Row = {"id": 2, "note": "two"}
MINUTE = 60_000  # milliseconds by which Iceberg's own implementation lets a table's time go back


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def metadata_file(tables: Tables) -> Path:
    with tables.opened() as table:
        return Path(table.metadata_location.removeprefix("file://"))


def change_metadata(tables: Tables, **members: object) -> None:
    """Changes members of the newest metadata file, as a program that wrote it would have; properties are added."""
    file = metadata_file(tables)
    metadata = json.loads(file.read_text())
    members["properties"] = {**metadata["properties"], **dict(members.pop("properties", {}))}  # type: ignore[call-overload]
    file.write_text(json.dumps({**metadata, **members}))


@pytest.mark.parametrize(
    "properties",
    [
        {"write.py-location-provider.impl": "nowhere.Class"},  # a class that PyIceberg would import
        {"write.metadata.path": "file:///other"},
        {"write.avro.compression-codec": "uncompressed"},
        {"write.avro.compression-codec": "zstd"},
        {"write.avro.compression-codec": "lz4"},  # PyIceberg has none
        {"write.metadata.compression-codec": "gzip"},
    ],
)
def test_properties_of_the_table_choose_no_place_and_stop_no_commit(tables: Tables, properties: dict[str, str]) -> None:
    tables.write(tables.sink(), Load, ONE)
    change_metadata(tables, properties=properties)
    sink = tables.sink()
    tables.write(sink, Upsert, TWO)
    tables.write(sink, Touch)
    assert tables.rows() == [ONE, TWO]
    assert metadata_file(tables).parent == tables.root / PATH / "metadata"


def test_the_times_of_a_table_do_not_go_back(tables: Tables) -> None:
    """Another program's clock was an hour ahead. Iceberg's own implementation would not open the table again."""
    tables.write(tables.sink(), Load, ONE)
    file = metadata_file(tables)
    metadata = json.loads(file.read_text())
    later = metadata["last-updated-ms"] + 60 * MINUTE
    metadata["snapshots"][-1]["timestamp-ms"] = metadata["snapshot-log"][-1]["timestamp-ms"] = later
    file.write_text(json.dumps({**metadata, "last-updated-ms": later}))
    sink = tables.sink()
    tables.write(sink, Upsert, TWO)
    opened = sink.open(PATH)
    assert opened is not None
    tag(sink.catalog, opened, "cut-1", opened.version, 1)
    tables.write(tables.sink(), Touch)
    with tables.opened() as table:
        metadata_now = table.metadata
        snapshots = [entry.timestamp_ms for entry in metadata_now.snapshot_log]
        files = [entry.timestamp_ms for entry in metadata_now.metadata_log]
    for times in ([*snapshots, metadata_now.last_updated_ms], [*files, metadata_now.last_updated_ms]):
        assert all(after >= before for before, after in pairwise(times)), times
    assert snapshots == sorted(set(snapshots)), "each has a time of its own"
