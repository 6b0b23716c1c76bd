"""Whatever happens upstream, planned and applied step by step, gives the upstream's tables at every barrier."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from changefeed.pipeline.plan import Rules
from changefeed.pipeline.state import Hold, TableState
from tests.pipeline.downstream import Event, Lake, chunks_of
from tests.pipeline.upstream import MEMBERS, Change, Ddl, Row, Table, Upstream

RULES = Rules(restored_ddl=True)
seeds = st.integers(0, 2**48)
many = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(seeds, st.integers(1, 60), st.integers(1, 3), st.booleans())
def test_every_cut_of_a_random_history_is_its_exact_state(seed: int, steps: int, partitions: int, partial: bool) -> None:
    random = Random(seed)
    upstream = _history(random, steps, partial)
    lake = Lake(RULES, random)
    for _ in _replayed(upstream, lake, partitions, random):
        _check(upstream, lake)
    assert lake.state.barrier == upstream.ts
    assert lake.state.pending == ()


@many
@given(seeds, st.integers(10, 60), st.integers(1, 2))
def test_a_table_in_quarantine_is_complete_once_it_is_released(seed: int, steps: int, partitions: int) -> None:
    """Tables are held at random points, whatever happens to them and their names meanwhile."""
    random = Random(seed)
    upstream = _history(random, steps, partial=True)
    lake = Lake(RULES, random)
    names = sorted({f"{e.database}.{e.table}" for e in upstream.events if e.table is not None})
    for _ in _replayed(upstream, lake, partitions, random):
        _check(upstream, lake)
        held = dict(lake.state.held)
        if random.random() < 0.4:
            held.setdefault(random.choice(names), Hold(lake.state.barrier))
        if held and random.random() < 0.3:
            name = random.choice(sorted(held))
            held[name] = Hold(held[name].after, released=True)
        lake.state = replace(lake.state, held=held)
    while lake.state.held:
        lake.state = replace(lake.state, held={n: Hold(h.after, released=True) for n, h in lake.state.held.items()})
        assert lake.step(partitions)
    _check(upstream, lake)
    assert lake.state.pending == ()


@many
@given(seeds, st.integers(1, 40))
def test_without_barriers_what_is_sent_twice_counts_once(seed: int, steps: int) -> None:
    """`consistency: key`: every batch at once, and the producer goes back a little now and then.

    Batches have whole transactions, for their rows stand for each other; DDL may be cut anywhere.
    """
    random = Random(seed)
    upstream = _history(random, steps, partial=False, keyless=False)
    lake = Lake(RULES, random)
    events, at, number = upstream.events, 0, 0
    cuts = [i for i in range(len(events) + 1) if _may_cut(events, i)]
    while at < len(events):
        ddl = max((i for i, e in enumerate(events[:at]) if isinstance(e, Ddl)), default=0)
        start = random.choice([at, *(c for c in cuts if max(ddl, at - 8) <= c < at)])
        at = random.choice([c for c in cuts if c > at][:4])
        number += 1
        lake.read(chunks_of(events[start:at], 0, 1000 * number, f"{number}"), f"{number}")
        lake.apply(None, None)
    _compare(upstream.tables, lake)


def _may_cut(events: list[Ddl | Change], at: int) -> bool:
    inside = 0 < at < len(events) and events[at - 1].ts == events[at].ts
    return not inside or isinstance(events[at], Ddl)


def _history(random: Random, steps: int, partial: bool, keyless: bool = True) -> Upstream:
    upstream = Upstream(random, partial, keyless)
    for name in random.sample(["old", "older", "Orders"], random.randint(0, 2)):
        upstream.exist("app", name, {"a": "int", "b": random.choice(["text", "decimal", "enum"])})
    for _ in range(steps):
        upstream.step()
    return upstream


def _replayed(upstream: Upstream, lake: Lake, partitions: int, random: Random) -> Any:
    """Partitions with marks of their own, read in batches that take a different stretch of each; yields after steps."""
    logs: list[list[Event]] = [[] for _ in range(partitions)]
    for i, event in enumerate(upstream.events):
        last = i + 1 == len(upstream.events) or upstream.events[i + 1].ts > event.ts
        if isinstance(event, Change):
            image = event.after or event.before or {}
            logs[(image.get("id") or 0) % partitions if event.keyed else random.randrange(partitions)].append(event)
        else:
            for log in logs:
                log.append(event)
        for log in logs:
            if last and (random.random() < 0.2 or i + 1 == len(upstream.events)):
                log.append(event.ts if i + 1 < len(upstream.events) else upstream.ts)
    offsets, number = [0] * partitions, 0
    while any(offset < len(log) for offset, log in zip(offsets, logs, strict=True)):
        number += 1
        fresh = []
        for partition, log in enumerate(logs):
            stretch = log[offsets[partition] :][: random.randint(0, 25)]
            fresh += chunks_of(stretch, partition, offsets[partition], f"{number}") if stretch else []
            offsets[partition] += len(stretch)
        lake.read(fresh, f"{number}")
        if lake.step(partitions):
            yield


def _check(upstream: Upstream, lake: Lake) -> None:
    past = [ts for ts in upstream.history if lake.state.barrier is not None and ts <= lake.state.barrier]
    _compare(upstream.history[max(past)] if past else {}, lake)


def _compare(tables: dict[tuple[str, str], Table], lake: Lake) -> None:
    wanted = {".".join(name): table for name, table in tables.items()}
    for name, here in lake.state.tables.items():
        if name not in lake.state.held:
            assert name in wanted, f"{name} was dropped"
            found = Counter(_text(row) for row in lake.rows(name))
            assert found == Counter(_text(_as_told(row, wanted[name], here)) for row in wanted[name].all()), name
    for name, table in wanted.items():
        assert name in lake.state.tables or name in lake.state.held or not table.all(), f"{name} is missing"


def _as_told(row: Row, table: Table, here: TableState) -> Row:
    """The upstream's row as far as the sink can know it: columns that no row and no DDL named are not there."""
    told = {}
    for column in here.table.columns:
        value = row[column.name]
        if column.type.members is not None and value is not None:
            value = MEMBERS[value - 1]
        told[column.name] = value
    missing = set(row) - set(told)
    assert all(row[name] is None for name in missing), missing
    return told


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True, default=str)
