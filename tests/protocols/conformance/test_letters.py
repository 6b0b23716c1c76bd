"""Dead letters name database and table if key or options contain them for certain, whatever is left of the value."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.model.batch import record_batch
from tests.protocols.conformance.cases import History, decode, histories

HISTORIES = {history.file: history for history in histories()}
# history -> whether all its damaged rows are named: some keys have no schema, others replace characters of names by `_`
NAMED = {
    "shop/ticdc-open/open-1.classic.jsonl.gz": True,
    "shop/ticdc-open/open-3.newarch.jsonl.gz": True,
    "shop/ticdc-avro/avro-ext.newarch.jsonl.gz": True,
    "shop/ticdc-avro/avro-watermark.classic.jsonl.gz": True,
    "shop/ticdc-debezium/dbz-schema.classic.jsonl.gz": False,
    "shop/ticdc-debezium/dbz-noschema.newarch.jsonl.gz": False,
}


def _rows(history: History) -> list[tuple[dict[str, Any], str, str]]:
    """Records that have a key, a value and changes of one table, with their tables."""
    changes, records = decode(history), history.records.to_pylist()
    tables: dict[int, set[tuple[str, str]]] = {}
    for table in changes.tables:
        for row in table.rows.column("record").to_pylist():
            tables.setdefault(row, set()).add((table.shape.database, table.shape.table))
    control = {event.place.record for event in changes.control}
    return [
        (records[row], *next(iter(names)))
        for row, names in tables.items()
        if len(names) == 1 and row not in control and records[row]["key"] and records[row]["value"]
    ]


@pytest.mark.parametrize("damage", [b"", b"\x07", b"{", None], ids=["cut", "other", "json", "null"])
@pytest.mark.parametrize("file", NAMED)
def test_a_damaged_value_still_names_its_table(file: str, damage: bytes | None) -> None:
    history = HISTORIES[file]
    rows = _rows(history)
    rows = rows[:: -(-len(rows) // 300)]
    damaged = [
        {**record, "value": record["value"][:-3] if damage == b"" else damage and damage + record["value"]}
        for record, _, _ in rows
    ]
    if history.protocol == "ticdc-avro":  # a record without a value is a delete; another first byte makes it a mark
        damaged = [{**record, "value": record["value"] or b"\x09"} for record in damaged]
    changes = decode(
        history, record_batch({k: r[k] for k in ("topic", "partition", "offset", "key", "value")} for r in damaged)
    )
    assert len(rows) > 50
    named = 0
    assert {letter.place.record for letter in changes.dead} == set(range(len(rows)))
    for letter in changes.dead:
        if letter.table is not None:
            assert (letter.database, letter.table) == rows[letter.place.record][1:]
            named += 1
    if NAMED[file]:
        assert named == len(changes.dead)
    elif "noschema" in file:
        assert named == 0
    else:
        assert 0 < named < len(changes.dead)  # shop.customers, but not shop.order_items
