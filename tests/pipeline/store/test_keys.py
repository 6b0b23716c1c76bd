"""Ledgers keep their keys: what an earlier version has stored is read, and an earlier version reads what is stored now."""

from __future__ import annotations

import json

from changefeed.pipeline.state import LastWrite, State, read_state, write_state
from tests.pipeline.store.values import state


def test_the_last_write_at_a_path_has_the_keys_of_the_first_release() -> None:
    stored = json.loads(write_state(State(left={"shop/gone": LastWrite(7, 1, 2, 3)})))
    assert stored["left"] == {"shop/gone": {"version": 7, "epoch": 1, "step": 2, "action": 3}}


def test_the_last_write_of_a_table_is_read_from_the_keys_of_the_first_release() -> None:
    written = state(5)
    stored = json.loads(write_state(written))
    name, table = next((name, table) for name, table in written.tables.items() if table.written)
    stored["tables"][name]["written"] = {"version": 9, "epoch": 8, "step": 7, "action": 6}
    last = read_state(json.dumps(stored)).tables[name].written
    assert last is not None
    assert (last.revision, str(last.write_id)) == (9, "epoch 8, step 7, write 6")
    assert last != table.written
