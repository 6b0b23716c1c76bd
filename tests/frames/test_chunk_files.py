"""Chunks written to files by the tasks that make them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from changefeed.frames import chunk_files
from changefeed.frames.chunk_files import StoredChunks, rename, unpacked, write_files
from changefeed.frames.chunks import CHUNKS, snapshot_lines, unpack_records
from changefeed.frames.transactions import TRANSACTIONS
from changefeed.storage.local import LocalFolder


def chunks(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict.fromkeys(CHUNKS.names) | row for row in rows], schema=CHUNKS)


def lines(*rows: dict[str, Any]) -> bytes:
    """The payload of a `transactions` chunk."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TRANSACTIONS) as writer:
        writer.write_batch(
            pa.RecordBatch.from_pylist([dict.fromkeys(TRANSACTIONS.names) | r for r in rows], schema=TRANSACTIONS)
        )
    return bytes(sink.getvalue())


def written(folder: Path, *batches: pa.RecordBatch, cuts: bool = True) -> dict[str, Any]:
    [file] = [
        row for batch in write_files(LocalFolder(str(folder)), cuts=cuts)(iter(batches)) for row in batch.to_pylist()
    ]
    return dict(file)


READ = {"kind": "read", "topic": "t", "partition": 0, "rows": 3, "first_offset": 0, "last_offset": 2}
ROWS = {"kind": "rows", "database": "d", "table": "t", "shape": "é", "rows": 2, "payload": b"\x00" * 9}
SIZES = {"small": 20, "larger": 3000, "tiny": 1, "large": 700}  # bytes of a payload of each table
SCHEMA = {"kind": "schema", "payload": b"{}", "min_commit_ts": 2**63 - 1}


def test_a_file_has_the_chunks_and_its_row_describes_it(tmp_path: Path) -> None:
    file = written(tmp_path, chunks(READ, ROWS), chunks(SCHEMA))
    data = (tmp_path / file["name"]).read_bytes()
    assert (file["size"], file["md5"]) == (len(data), hashlib.md5(data).hexdigest())
    assert pq.read_table(tmp_path / file["name"]).to_pylist() == chunks(READ, ROWS, SCHEMA).to_pylist()
    assert unpacked(file["index"]) == chunks(READ, ROWS | {"payload": None}, SCHEMA).to_pylist()


def test_a_task_without_chunks_writes_a_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert pq.read_table(tmp_path / file["name"]).schema.names == CHUNKS.names
    assert unpacked(file["index"]) == []


def test_row_groups_have_some_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_files, "_TOGETHER", 2500)
    batch = chunks(ROWS | {"payload": b"x" * 1000})
    file = written(tmp_path, *[batch] * 7)
    footer = pq.ParquetFile(tmp_path / file["name"]).metadata
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [3, 3, 1]


def test_large_tables_have_row_groups_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_files, "_GROUP", 2000)
    rows = [
        ROWS | {"table": table, "rows": n, "payload": b"x" * size} for n in range(3) for table, size in SIZES.items()
    ]
    file = written(tmp_path, chunks(READ, *rows), chunks(SCHEMA))
    parquet = pq.ParquetFile(tmp_path / file["name"])
    groups = [parquet.read_row_group(n).to_pylist() for n in range(parquet.num_row_groups)]
    tables = [sorted({row["table"] for row in group if row["kind"] == "rows"}) for group in groups]
    assert tables == [["large"], ["larger"], ["small", "tiny"]]
    assert [row["rows"] for row in groups[1]] == [0, 1, 2]  # the order within a table stays
    by_text = [sorted(map(repr, of)) for of in (chain(*groups), chunks(READ, *rows, SCHEMA).to_pylist())]
    assert by_text[0] == by_text[1]


def test_of_a_large_table_a_row_group_has_few_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_files, "_GROUP", 1500)
    monkeypatch.setattr(chunk_files, "_FULL", 2000)
    rows = [ROWS | {"table": table, "rows": n, "payload": b"x" * 700} for n in range(4) for table in ("a", "b")]
    file = written(tmp_path, chunks(*rows))
    parquet = pq.ParquetFile(tmp_path / file["name"])
    groups = [parquet.read_row_group(n).to_pylist() for n in range(parquet.num_row_groups)]
    wanted = [["a0", "a1", "a2"], ["a3", "b0", "b1"], ["b2", "b3"]]
    assert [[f"{row['table']}{row['rows']}" for row in group] for group in groups] == wanted


def test_chunks_that_are_wanted_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_files, "_GROUP", 2000)
    rows = [
        ROWS | {"table": table, "rows": n, "payload": b"x" * size} for n in range(3) for table, size in SIZES.items()
    ]
    file = written(tmp_path, chunks(READ, *rows))
    asked = list[str]()

    def second(plain: pa.Table) -> Any:
        asked.extend(plain.column("table").to_pylist())
        return pc.and_(pc.equal(plain.column("table"), "small"), pc.equal(plain.column("rows"), 1))

    stored, path = StoredChunks(LocalFolder(str(tmp_path))), str(file["name"])
    [chunk] = [chunk for group in stored.find(path, ["table", "rows"], second) for chunk in group.to_pylist()]
    assert (chunk["table"], chunk["rows"], chunk["file"]) == ("small", 1, path)
    assert stored.payload(path, chunk["group"], chunk["row"]) == b"x" * 20
    assert len(asked) == 1 + len(rows)


def test_only_files_of_tasks_that_ended_are_renamed(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield chunks(ROWS)
        raise ValueError("the task is repeated")

    with pytest.raises(ValueError, match="repeated"):
        list(write_files(LocalFolder(str(tmp_path)), cuts=True)(broken()))
    files = [written(tmp_path, chunks(ROWS)), written(tmp_path, chunks(READ))]
    assert rename(LocalFolder(str(tmp_path)), [file["name"] for file in files]) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    assert sum(file.name.startswith("part-") for file in tmp_path.iterdir()) == 2
    assert pq.read_table(tmp_path / "part-00001.parquet").column("kind").to_pylist() == ["read"]
    assert rename(LocalFolder(str(tmp_path)), ["_none"]) is None


def test_without_cuts_the_index_has_lines_of_snapshots_alone(tmp_path: Path) -> None:
    row, end = {"id": "a", "order": 1, "commit_ts": 5}, {"id": "a", "events": 1, "mark": 7, "snapshot": "last"}
    payload = lines(row, row | {"snapshot": "true", "commit_ts": 6}, row | {"snapshot": "first", "commit_ts": 6}, end)
    chunk = {"kind": "transactions", "rows": 4, "payload": payload}
    assert unpacked(written(tmp_path, chunks(chunk))["index"]) == chunks(chunk).to_pylist()
    [kept] = unpacked(written(tmp_path, chunks(chunk), cuts=False)["index"])
    positions = [
        (line["commit_ts"], line["events"], line["snapshot"]) for line in unpack_records(kept["payload"]).to_pylist()
    ]
    assert positions == [(6, None, "true")]
    assert unpack_records(snapshot_lines(lines(row, end))).num_rows == 0
