"""Dead letters name database and table wherever key or options tell them for certain, whatever is left of the value."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.model.batch import record_batch
from tests.protocols.conformance.cases import History, decode, histories

HISTORIES = {history.file: history for history in histories()}
# history -> whether all its damaged rows are named: some keys have no schema, and others have `_` for what a name cannot have
NAMED = {
    "shop/ticdc-open/open-1.classic.jsonl.gz": True,
    "shop/ticdc-open/open-3.newarch.jsonl.gz": True,
    "shop/ticdc-avro/avro-ext.newarch.jsonl.gz": True,
    "shop/ticdc-avro/avro-watermark.classic.jsonl.gz": True,
    "shop/ticdc-debezium/dbz-schema.classic.jsonl.gz": False,
    "shop/ticdc-debezium/dbz-noschema.newarch.jsonl.gz": False,
}


def _rows(history: History) -> list[tuple[dict[str, Any], str, str]]:
    """Records of one table each that have a key and a value, and their tables."""
    found, records = decode(history), history.records.to_pylist()
    tables: dict[int, set[tuple[str, str]]] = {}
    for table in found.tables:
        for row in table.rows.column("record").to_pylist():
            tables.setdefault(row, set()).add((table.shape.database, table.shape.table))
    control = {event.place.record for event in found.control}
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
    if history.protocol == "ticdc-avro":  # without a value it is a delete; a first byte of another kind is a mark
        damaged = [{**record, "value": record["value"] or b"\x09"} for record in damaged]
    found = decode(
        history, record_batch({k: r[k] for k in ("topic", "partition", "offset", "key", "value")} for r in damaged)
    )
    assert len(rows) > 50
    named = 0
    assert {letter.place.record for letter in found.dead} == set(range(len(rows)))
    for letter in found.dead:
        if letter.table is not None:
            assert (letter.database, letter.table) == rows[letter.place.record][1:]
            named += 1
    if NAMED[file]:
        assert named == len(found.dead)
    elif "noschema" in file:
        assert named == 0
    else:
        assert 0 < named < len(found.dead)  # shop.customers, but not shop.order_items
