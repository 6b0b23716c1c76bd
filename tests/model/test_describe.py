from __future__ import annotations

from typing import Any

import pytest

from changefeed.model.text import describe

ROW: dict[str, Any] = {
    "kind": "row",
    "op": "update",
    "database": "shop",
    "table": "orders",
    "keys": ["id"],
    "before": None,
    "after": None,
    "position": "orders:0:118204",
    "irregular": {},
}

CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"op": "insert", "after": {"id": 7, "qty": 2, "note": "new"}},
        'insert shop.orders {id: 7}  qty: 2, note: "new"  at orders:0:118204',
    ),
    (
        {"before": {"id": 7, "qty": 2, "note": "a"}, "after": {"id": 7, "qty": 3, "note": "a"}},
        "update shop.orders {id: 7}  qty: 2 → 3  at orders:0:118204",
    ),
    (
        {"before": {"id": 7, "qty": 2}, "after": {"id": 8, "qty": 2}},
        "update shop.orders {id: 7 → 8}  nothing else  at orders:0:118204",
    ),
    (
        {"before": {"id": 7, "qty": 2}, "after": {"id": 7, "qty": 2}},
        "update shop.orders {id: 7}  nothing else  at orders:0:118204",
    ),
    (
        {"before": {"qty": 2}, "after": {"id": 7, "qty": None, "note": "unknown before"}},
        "update shop.orders {id: 7}  qty: 2 → null  at orders:0:118204",
    ),
    ({"after": {"id": 7, "qty": 2}}, "update shop.orders {id: 7}  qty: 2  at orders:0:118204"),
    (
        {"op": "delete", "before": {"id": 7, "line": 1, "qty": 2}, "keys": ["line", "id"]},
        "delete shop.orders {line: 1, id: 7}  at orders:0:118204",
    ),
    ({"op": "delete", "before": {"n": 1}, "keys": []}, "delete shop.orders  n: 1  at orders:0:118204"),
    (
        {"op": "insert", "after": {"id": 1, "d": None}, "irregular": {"d": "0000-00-00"}},
        "insert shop.orders {id: 1}  d: 0000-00-00  at orders:0:118204",
    ),
    (
        {
            "before": {"id": 1, "d": None},
            "after": {"id": 1, "d": None},
            "irregular": {"before.d": "0000-00-00", "d": "2026-00-01"},
        },
        "update shop.orders {id: 1}  d: 0000-00-00 → 2026-00-01  at orders:0:118204",
    ),
    (
        {"op": "insert", "after": {"id": 1, "b": {"base64": "AAECAw=="}, "t": "x" * 99}},
        f'insert shop.orders {{id: 1}}  b: <4 bytes>, t: "{"x" * 58}…  at orders:0:118204',
    ),
    (
        {"op": "insert", "after": {"id": 1, "t": "\x1b[2J\x9b\udc80"}},
        'insert shop.orders {id: 1}  t: "\\u001b[2J\\u009b\\udc80"  at orders:0:118204',
    ),
    (
        {"kind": "schema", "type": "add_column", "ddl": "ALTER TABLE orders\n  ADD x INT", "position": "o:0:1"},
        "schema add_column shop.orders  ALTER TABLE orders ADD x INT  at o:0:1",
    ),
    (
        {"kind": "schema", "type": "drop_database", "table": None, "ddl": None, "position": "o:0:1"},
        "schema drop_database shop  at o:0:1",
    ),
    ({"kind": "resolved", "commit_ts": 5, "position": "o:0:1"}, "resolved 5  at o:0:1"),
    (
        {"kind": "transaction", "status": "end", "id": "g:1", "event_count": 3, "position": "o:0:1"},
        "transaction end g:1  3 events  at o:0:1",
    ),
    ({"kind": "heartbeat", "commit_time": None, "position": "o:0:1"}, "heartbeat  at o:0:1"),
    (
        {"kind": "dead_letter", "reason": "truncated", "error": "ends early (o:0:1)", "position": "o:0:1"},
        "dead_letter truncated  ends early (o:0:1)",
    ),
    (
        {"kind": "shape", "shape": "ab", "columns": [{"name": "id", "type": "int"}], "position": None},
        "shape shop.orders ab  id int",
    ),
]


@pytest.mark.parametrize("event, text", CASES)
def test_a_description_has_the_change_and_its_position(event: dict[str, Any], text: str) -> None:
    assert describe(ROW | event) == text
