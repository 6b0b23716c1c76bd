"""The bytes of delete files: which rows of data files are no longer part of a table.

Format version 2, position deletes: a Parquet file with a row for each deleted row. Those that changefeed writes belong to one
data file; other programs write some for all data files of a partition.

    file_path (string)                       pos (long)
    s3://lake/shop/orders/data/00000-….…     7

Format version 3, deletion vectors: Puffin files with a blob for each data file; `bitmaps.py` makes its vector. The manifest has
offset and size of the blob, so readers need nothing else of the file.

    ┌──────┬─────────────────┬────────┬──────────────┬───┬──────┬────────┬────────────┬───────────┬──────┐
    │ PFA1 │ size of the     │ vector │ CRC-32 of    │ … │ PFA1 │ footer │ size of    │ flags, 0, │ PFA1 │
    │      │ vector, int32   │        │ the vector   │   │      │ (JSON) │ the footer │ int32     │      │
    └──────┴─────────────────┴────────┴──────────────┴───┴──────┴────────┴────────────┴───────────┴──────┘
            ▲ blob: big-endian                                    footer: little-endian

Tasks import this module: it needs Arrow alone.

Source:
    https://iceberg.apache.org/spec/#position-delete-files, https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changefeed.errors import SinkError
from changefeed.sinks.apply.bitmaps import decoded
from changefeed.sinks.apply.layout import RowNumbers
from changefeed.sinks.ways_out import TABLE_DAMAGED
from changefeed.storage import Folder

PATH_ID, POSITION_ID = 2147483546, 2147483545  # field ids
_PUFFIN = b"PFA1"
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)


class VectorPlace(msgspec.Struct, frozen=True):
    """The place of a deletion vector.

    Attributes:
        name: the Puffin file, in the table's folder.
        offset, size: place of the blob in the file, in bytes.
        count: number of rows that the vector marks.
    """

    name: str
    offset: int
    size: int
    count: int


class Deletes(msgspec.Struct, frozen=True):
    """The deletes of one data file.

    Attributes:
        location: location of the data file, as position deletes name it.
        vector: its deletion vector; then there are no position deletes.
        positions: names of the files with position deletes that may belong to it, in the table's folder.
    """

    location: str
    vector: VectorPlace | None = None
    positions: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Returns the text for `vector` in `Item.files`."""
        return msgspec.json.encode(self).decode()


def deleted_rows(folder: Folder, text: str) -> RowNumbers:
    """Returns the numbers of a data file's rows that are deleted, ascending.

    Args:
        folder: the table's folder.
        text: see `Deletes.to_text`.

    Raises:
        SinkError: a delete file cannot be read.
    """
    deletes = msgspec.json.decode(text, type=Deletes)
    if deletes.vector is not None:
        return _in_vector(folder, deletes.vector)
    rows = [_positions(folder, name, deletes.location) for name in deletes.positions]
    return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def _in_vector(folder: Folder, place: VectorPlace) -> RowNumbers:
    try:
        blob = folder.read_range(place.name, place.offset, place.size)
        vector = blob[4:-4]
        if struct.unpack(">i", blob[:4])[0] != len(vector):
            raise ValueError(f"no vector of {len(vector)} bytes begins at byte {place.offset}")
        if zlib.crc32(vector) != struct.unpack(">I", blob[-4:])[0]:
            raise ValueError(f"the checksum of the vector at byte {place.offset} is wrong")
        rows = decoded(vector)
        if len(rows) != place.count:
            raise ValueError(f"holds {len(rows)} rows, not {place.count}")
    except (OSError, ValueError, struct.error, SinkError) as error:
        raise _unreadable(folder, place.name, "deletion vector", error) from error
    return rows


def _positions(folder: Folder, name: str, location: str) -> RowNumbers:
    try:
        data = folder.read(name)
        if data is None:
            raise FileNotFoundError("the file does not exist")
        table = pq.read_table(pa.BufferReader(data), columns=["file_path", "pos"], page_checksum_verification=True)
        rows: RowNumbers = table.filter(pc.equal(table.column("file_path"), location)).column("pos").to_numpy()
    except (OSError, pa.ArrowException, SinkError) as error:
        raise _unreadable(folder, name, "file of position deletes", error) from error
    return rows


def _unreadable(folder: Folder, name: str, kind: str, error: Exception) -> SinkError:
    return SinkError(
        f"{folder.path}/{name}: a {kind} of the table cannot be read: {error}. {TABLE_DAMAGED}",
        transient=isinstance(error, SinkError) and error.transient,
    )


def position_deletes(location: str, rows: RowNumbers) -> bytes:
    """Builds a file with the position deletes of one data file.

    Args:
        location: location of the data file.
        rows: numbers of the deleted rows, ascending.
    """
    table = pa.table(
        [pa.array([location]).take(pa.array(np.zeros(len(rows), np.int64))), pa.array(rows)], schema=_POSITIONS
    )
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="zstd", use_dictionary=["file_path"], store_schema=False, write_page_checksum=True,
        column_encoding={"pos": "DELTA_BINARY_PACKED"},
    )  # fmt: skip
    data: bytes = sink.getvalue().to_pybytes()
    return data


def puffin(vectors: Sequence[tuple[str, bytes, int]]) -> tuple[bytes, list[tuple[int, int]]]:
    """Builds a Puffin file of deletion vectors.

    Args:
        vectors: for each, the location of its data file, the vector of `bitmaps.encoded`, and the number of its rows.

    Returns:
        The file, and offset and size of each vector's blob.
    """
    content, places, blobs = bytearray(_PUFFIN), list[tuple[int, int]](), []
    for location, vector, count in vectors:
        blob = struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        places.append((len(content), len(blob)))
        blobs.append(
            {
                "type": "deletion-vector-v1", "fields": [POSITION_ID], "snapshot-id": -1, "sequence-number": -1,
                "offset": len(content), "length": len(blob),
                "properties": {"referenced-data-file": location, "cardinality": str(count)},
            }
        )  # fmt: skip
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "changefeed"}}).encode()
    content += _PUFFIN + footer + struct.pack("<ii", len(footer), 0) + _PUFFIN
    return bytes(content), places
