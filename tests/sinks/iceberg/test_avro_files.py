"""The Avro files of metadata: PyIceberg and fastavro read what is written, in one block or many, and damaged files are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, MapType, NestedField, StringType

from changefeed.sinks.iceberg.avro_files import BlockFile, CompiledSchema, RowFile, RowKind
from changefeed.sinks.iceberg.file_io import FOLDER, LOCATION, FolderIO
from changefeed.storage.local import LocalFolder

SCHEMA = Schema(
    NestedField(1, "number", LongType(), required=True),
    NestedField(2, "text", StringType()),
    NestedField(3, "sizes", MapType(4, IntegerType(), 5, LongType(), value_required=True)),
)
KIND = RowKind(SCHEMA, {}, {})
NUMBERS = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31), 2**63 - 1, -(2**63)]


@pytest.fixture
def io(tmp_path: Path) -> FolderIO:
    return FolderIO({FOLDER: LocalFolder(str(tmp_path)), LOCATION: f"file://{tmp_path}"})


def write(io: FolderIO, location: str, rows: list[Record], codec: str) -> None:
    compiled, metadata = CompiledSchema.of(SCHEMA, SCHEMA, "row"), {"mark": "x", "avro.codec": codec}
    with BlockFile[Record](io.new_output(location), compiled, metadata) as file:
        for row in rows:
            file.write_block([row])


@pytest.mark.parametrize("codec", ["gzip", "null"])
@pytest.mark.parametrize("count, blocks", [(0, 0), (13, 1), (3000, 2)])
def test_others_read_the_rows(io: FolderIO, tmp_path: Path, codec: str, count: int, blocks: int) -> None:
    values = [(NUMBERS[i % 13], None if i % 3 else f"row {i} {'x' * 30}", {7: i, 2**20: 2**40}) for i in range(count)]
    location = f"file://{tmp_path}/rows.avro"
    write(io, location, [Record(*value) for value in values], codec)
    with AvroFile[Record](io.new_input(location), SCHEMA) as file:
        assert [(row[0], row[1], dict(row[2])) for row in file] == values
    with RowFile[Record](io.new_input(location), KIND) as rows:
        assert [(row[0], row[1], dict(row[2])) for row in rows] == values
    with (tmp_path / "rows.avro").open("rb") as stream:
        read: list[Any] = list(fastavro.reader(stream))
    assert [(row["number"], row["text"]) for row in read] == [value[:2] for value in values]
    with (tmp_path / "rows.avro").open("rb") as stream:
        reader: Any = fastavro.block_reader(stream)
        assert reader.metadata["mark"] == "x"
        assert min(len(list(reader)), 2) == blocks


def test_rows_of_files_that_lack_a_field_have_none_there(io: FolderIO, tmp_path: Path) -> None:
    location = f"file://{tmp_path}/rows.avro"
    fewer = Schema(*SCHEMA.fields[:1])
    with BlockFile[Record](io.new_output(location), CompiledSchema.of(fewer, SCHEMA, "row"), {}) as file:
        file.write_block([Record(1, "not stored", None), Record(2, None, None)])
    with RowFile[Record](io.new_input(location), KIND) as rows:
        assert [(row[0], row[1]) for row in rows] == [(1, None), (2, None)]


def test_a_file_without_a_schema_is_refused(io: FolderIO, tmp_path: Path) -> None:
    location = f"file://{tmp_path}/rows.avro"
    write(io, location, [Record(1, None, None)], "null")
    path = tmp_path / "rows.avro"
    path.write_bytes(path.read_bytes().replace(b"avro.schema", b"avro.nothing"[:11]))
    with pytest.raises(ValueError, match="Expecting value"), RowFile[Record](io.new_input(location), KIND):
        pass
