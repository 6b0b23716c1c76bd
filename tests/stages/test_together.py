"""Tables whose chunks are typed together have the changes, and the errors, that each has alone."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changefeed.errors import UnsupportedError
from changefeed.model.batch import TableBatch
from changefeed.model.definition import Table
from changefeed.stages import together as module
from changefeed.stages.changes import ChunkReader, Window, typed
from changefeed.stages.together import together
from tests.examples import TIMES
from tests.sinks.delta_native.applying import payloads
from tests.sinks.delta_native.histories import History, all_types
from tests.stages.chunks import chunks, shape, table

SEED = int(os.environ.get("CHANGEFEED_SEED") or secrets.randbelow(1 << 40))


def shown(changes: list[pa.RecordBatch]) -> list[str]:
    """The rows as text, in which NaN equals NaN."""
    return [repr(row) for batch in changes for row in batch.to_pylist()]


@pytest.mark.parametrize("number", range(max(1, round(12 * TIMES))))
def test_tables_have_the_changes_that_each_has_alone(number: int) -> None:
    random = Random(SEED + number)
    readers, sent = list[ChunkReader](), list[list[bytes]]()
    for i in range(random.randint(1, 8)):
        of = all_types(*random.choice([(), (), ("name",)]))
        history = History(of, random.randrange(1 << 30), random.random() < 0.5, random.random() < 0.5)
        steps = [history.step(random.choice([1, 5, 40])) for _ in range(random.randint(0, 3))]
        window = random.choice([Window(), Window(after=3), Window(upto=20), Window(2, 9)])
        readers.append(ChunkReader(replace(of, name=f"t{i}"), window, random.choice(["keep", "null"])))
        sent.append([payload for step in steps for payload in payloads(step)])
    results = together(readers, sent)
    for reader, mine, (read, changes) in zip(readers, sent, results, strict=True):
        alone = replace(reader)
        assert shown(changes) == shown(list(alone.batches(mine))), f"CHANGEFEED_SEED={SEED + number}"
        assert read == alone.read
        assert reader.read == 0


def test_like_tables_are_typed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    history, rows = History(all_types(), 1), list[int]()
    mine = payloads(history.step(30))

    def counting(batch: TableBatch, *more: Any) -> Iterator[pa.RecordBatch]:
        rows.append(len(batch))
        return typed(batch, *more)

    monkeypatch.setattr(module, "typed", counting)
    results = together([ChunkReader(replace(history.table, name=name), Window()) for name in "abc"], [mine] * 3)
    assert [read for read, _ in results] == [30, 30, 30]
    assert sum(rows) == 90
    assert len(rows) <= len(mine)


def test_an_error_names_the_table_and_the_row() -> None:
    made = shape("*id int", "name varchar(9)")
    good = [(made, 1, "insert", None, {"id": 1, "name": "a"})]
    bad = [*good, (made, 2, "insert", None, {"id": None, "name": "b"})]
    sent = [[chunk["payload"] for chunk in chunks(rows)] for rows in (good, bad, good)]
    to = table("*id int", "name varchar(9)")
    readers = [ChunkReader(replace(to, name=name), Window()) for name in ("one", "two", "three")]
    with pytest.raises(UnsupportedError) as alone:
        list(readers[1].batches(sent[1]))
    with pytest.raises(UnsupportedError, match=r"app\.two\.id") as error:
        together(readers, sent)
    assert str(error.value) == str(alone.value)


def test_no_tables_have_no_changes() -> None:
    assert together([], []) == []
    assert together([ChunkReader(Table("app", "t", ()), Window())], [[]]) == [(0, [])]
