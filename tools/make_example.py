#!/usr/bin/env python3
"""Writes the logs of the examples: parts of the recorded histories in tests/data/shop, always the same.

`examples/shop/history.jsonl.gz` has all schema changes and resolved events, one customer in eight, all orders that ever belonged
to them, their items and refunds, and one row in four of the audit table. Either all changes of a key are kept or none, so the
result is a consistent history. Offsets are renumbered.

`examples/debezium/history.jsonl.gz` has the first records of the same history as a Debezium connector sent it, up to the end of a
transaction.

    python tools/make_example.py
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from changefeed import record_log
from changefeed.model import text
from changefeed.model.table import canonical
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores

ROOT = Path(__file__).resolve().parent.parent
HISTORY = ROOT / "tests" / "data" / "shop" / "ticdc-open" / "open-3.newarch.jsonl.gz"
EXAMPLE = ROOT / "examples" / "shop" / "history.jsonl.gz"
DEBEZIUM_HISTORY = ROOT / "tests" / "data" / "shop" / "debezium-mysql" / "mysql-8.0.33-noschema.jsonl.gz"
DEBEZIUM_EXAMPLE = ROOT / "examples" / "debezium" / "history.jsonl.gz"
TRANSACTIONS = 260

Event = dict[str, Any]


def make(out: Path) -> int:
    """Writes the example to `out`; returns how many records it has."""
    open_protocol = protocol("ticdc-open")
    options = open_protocol.read_options({"profile": "newarch"})
    kept = part(list(_events(HISTORY)))
    encoder = open_protocol.encoder(options, Stores())
    written = [encoder.encode(changes) for changes in text.parse(map(canonical, kept), name=out.name, topic="shop")]
    record_log.write(out, written)
    return sum(records.num_rows for records in written)


def make_debezium(out: Path) -> int:
    """Writes the Debezium example to `out`; returns how many records it has."""
    history = pa.Table.from_batches(record_log.read(DEBEZIUM_HISTORY))
    ends = [
        number
        for number, record in enumerate(history.select(["topic", "value"]).to_pylist())
        if record["topic"] == "srv1.transaction" and b'"status":"END"' in record["value"]
    ]
    count = ends[TRANSACTIONS - 1] + 1
    record_log.write(out, history.slice(0, count).to_batches())
    return count


def _events(log: Path) -> Iterator[Event]:
    open_protocol = protocol("ticdc-open")
    decoder = open_protocol.decoder(open_protocol.read_options({}), Stores())
    seen: set[str] = set()
    for records in record_log.read(log):
        for line in text.lines(decoder.decode(records), shapes_seen=seen):
            yield json.loads(line)


def part(events: list[Event]) -> list[Event]:
    """Returns the events of the part, in order, with their new offsets."""
    images = [(e["table"], image) for e in events if e["kind"] == "row" for image in (e["before"], e["after"]) if image]
    orders = {image["id"] for table, image in images if table == "orders" and image["customer_id"] % 8 == 1}
    keep: dict[str, Callable[[Event], bool]] = {
        "customers": lambda image: image["id"] % 8 == 1,
        "orders": lambda image: image["id"] in orders,
        "items": lambda image: image["order_id"] in orders,
        "order_items": lambda image: image["order_id"] in orders,
        "refunds": lambda image: image["order_id"] in orders,
        "audit": lambda image: image["n"] % 4 == 1,
    }
    kept = [e for e in events if e["kind"] != "row" or any(keep[e["table"]](i) for i in (e["before"], e["after"]) if i)]
    return _renumbered(kept)


def _renumbered(events: list[Event]) -> list[Event]:
    offsets: Counter[str] = Counter()
    known: dict[tuple[str, str], int] = {}
    for event in events:
        if event["kind"] == "shape":
            continue
        topic, partition, offset, *index = event["position"].split(":")
        if (partition, offset) not in known:
            known[partition, offset] = offsets[partition]
            offsets[partition] += 1
        event["position"] = ":".join([topic, partition, str(known[partition, offset]), *index])
    return events


if __name__ == "__main__":
    for target, write in ((EXAMPLE, make), (DEBEZIUM_EXAMPLE, make_debezium)):
        print(f"wrote {target.relative_to(ROOT)}, {write(target)} records")
