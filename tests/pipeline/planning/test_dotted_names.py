"""Tables and databases with dots in their names: table `b.c` of database `a` is not table `c` of database `a.b`."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from changefeed.pipeline.planning.rules import Rules
from tests.examples import examples
from tests.pipeline.kit.downstream import Lake, chunks_of
from tests.pipeline.kit.random_runs import compare, history
from tests.pipeline.kit.upstream import DOTTED, Change

seeds = st.integers(0, 2**48)
many = examples(100, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_rows_are_those_of_their_table(consistency: str) -> None:
    rows = [Change(ts, *name, {"id": "int"}, True, None, {"id": ts}) for ts, name in enumerate(DOTTED, 1)]
    lake = Lake(Rules(restored_ddl=True), Random(1), consistency)
    lake.read(chunks_of([*rows, len(rows)], 0, 0))
    lake.step({("log", 0)})
    tables = {(t.table.database, t.table.name): lake.rows(name) for name, t in lake.state.tables.items()}
    assert tables == {(row.database, row.table): [row.after] for row in rows}


@pytest.mark.heavy
@pytest.mark.slow
@many
@given(seeds, st.integers(1, 60), st.sampled_from(["transaction", "key"]))
def test_a_random_history_ends_as_the_upstream(seed: int, steps: int, consistency: str) -> None:
    random = Random(seed)
    # by key, a batch may end between two updates of a transaction that move a key
    upstream = history(random, steps, names=DOTTED, moves=consistency == "transaction")
    events = [*upstream.events, upstream.ts]
    lake = Lake(Rules(restored_ddl=True), random, consistency)
    lake.follow(events, random)
    compare(upstream.tables, lake)
