"""Chunks of a batch with several tables."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changefeed.frames.chunks import pack, unpack
from changefeed.model.batch import BatchBuilder, Decoded, TableBatch, record_batch
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from tests.examples import examples

SHAPES = [
    TableShape("shop", name, (Column("id", ColumnType.parse("bigint"), key=key),))
    for name, key in [("keyed", True), ("plain", False), ("other", True)]
]
ROWS = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.sampled_from(["a", "b"]), st.integers(0, 1), st.integers(0, 9)), max_size=20
)


@examples(200)
@given(ROWS, st.sets(st.sampled_from(SHAPES)), st.lists(st.integers(0, 9), max_size=3))
def test_the_chunks_of_a_table_do_not_depend_on_the_others(
    rows: list[tuple[TableShape, str, int, int]], undated: set[TableShape], cuts: list[int]
) -> None:
    builder = BatchBuilder()
    for number, (shape, topic, partition, commit_ts) in enumerate(rows):
        place, after = Place(topic, partition, number, None, number), {"id": number}
        ts = None if shape in undated else commit_ts
        builder.add(shape, place, "insert", before=None, after=after, commit_ts=ts, commit_time=number)
    records = record_batch([{"topic": t, "partition": p, "offset": n} for n, (_, t, p, _) in enumerate(rows)])
    changes = [SchemaChange("other", None, None, "", Place("a", 0, 0, None, 0), commit_ts=cut) for cut in cuts]
    tables = builder.build()
    together = _rows(pack(Decoded(tables, [*changes], []), records).to_pylist())
    alone = [chunk for table in tables for chunk in _rows(pack(Decoded([table], [*changes], []), records).to_pylist())]
    assert together == alone
    assert _numbers(together) == sorted(range(len(rows)))
    for chunk in together:
        batch = unpack(chunk["payload"])
        known = [ts for ts in batch.rows.column("commit_ts").to_pylist() if ts is not None]
        offsets = batch.rows.column("offset").to_pylist()
        assert (chunk["min_commit_ts"], chunk["max_commit_ts"]) == (min(known, default=None), max(known, default=None))
        assert (chunk["first_offset"], chunk["last_offset"]) == (min(offsets), max(offsets))
        assert all(max(known, default=cut) <= cut or min(known) > cut for cut in cuts)
        assert batch.shape.keys or known == sorted(known)


def _rows(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk for chunk in chunks if chunk["kind"] == "rows"]


def _numbers(chunks: list[dict[str, Any]]) -> list[int]:
    batches: list[TableBatch] = [unpack(chunk["payload"]) for chunk in chunks]
    return sorted(value["id"] for batch in batches for value in batch.rows.column("after").to_pylist())
