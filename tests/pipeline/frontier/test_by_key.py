"""Without a barrier, partitions that lag behind each other still end as the upstream's tables, with any DDL in between."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from changefeed.model.names import full_name
from changefeed.mysql import ddl
from changefeed.mysql.ddl import statements as statements
from changefeed.pipeline.frontier.by_key import Tables, table_frontier
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.state import State
from changefeed.protocols import protocol
from changefeed.stages.changes import Window
from tests.examples import examples
from tests.pipeline.kit.downstream import Event, Lake, chunks_of
from tests.pipeline.kit.random_runs import compare, history
from tests.pipeline.kit.upstream import Change, Ddl, Upstream

pytestmark = pytest.mark.slow
RULES = Rules(restored_ddl=True)
seeds = st.integers(0, 2**48)
many = examples(100, suppress_health_check=list(HealthCheck))
Partition = tuple[str, int]


@pytest.mark.heavy
@many
@given(seeds, st.integers(1, 60), st.integers(1, 3), st.booleans(), st.booleans())
def test_partitions_that_lag_end_equal(seed: int, steps: int, partitions: int, marks: bool, partial: bool) -> None:
    """Every partition shows each schema change, with marks or without; keys stay in their partition."""
    random = Random(seed)
    upstream = history(random, steps, partial=partial, moves=False)
    logs = _logs(upstream, [("log", p) for p in range(partitions)], random, marks)
    lake = Lake(RULES, random, "key")
    for _ in _read(logs, lake, random):
        lake.step(set(logs))
    _check(upstream, lake)


@pytest.mark.heavy
@many
@given(seeds, st.integers(1, 60), st.integers(1, 3), st.booleans())
# a schema change took effect between a row that was sent again and its delete
@example(525, 38, 3, False)
@example(265293031363508, 60, 3, True)
@example(210952594336180, 49, 1, False)
def test_changes_sent_again_are_recognized_by_the_schema_changes(
    seed: int, steps: int, partitions: int, marks: bool
) -> None:
    """The producer goes back, behind schema changes too, and sends everything from there on again."""
    random = Random(seed)
    upstream = history(random, steps, partial=False, keyless=False, moves=False)
    logs = _logs(upstream, [("log", p) for p in range(partitions)], random, marks)
    for log in logs.values():
        for _ in range(random.randint(0, 2)):
            at = random.randint(0, len(log))
            log[at:at] = log[random.randint(0, at) : at]
    lake = Lake(RULES, random, "key")
    for _ in _read(logs, lake, random):
        lake.step(set(logs))
    _check(upstream, lake)


@pytest.mark.heavy
@many
@given(seeds, st.integers(1, 60), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_schema_changes_that_are_not_broadcast(
    seed: int, steps: int, partitions: int, marks: bool, own: bool, partial: bool
) -> None:
    """They come in a topic of their own, as Debezium sends them, or in one of the partitions with rows, as DTS may send them."""
    random = Random(seed)
    upstream = history(random, steps, partial=partial, moves=False)
    logs = _logs(upstream, [("rows", p) for p in range(partitions)], random, marks, ("schema" if own else "rows", 0))
    lake = Lake(RULES, random, "key", broadcast=False)
    for idle in _read(logs, lake, random):
        lake.step(set(logs), idle=idle)
    _check(upstream, lake)


@pytest.mark.heavy
@many
@given(seeds, st.integers(1, 60), st.integers(1, 3), st.booleans())
def test_rows_do_not_wait_for_a_topic_that_was_read_to_its_end(
    seed: int, steps: int, partitions: int, partial: bool
) -> None:
    """The producer goes on between a batch and the question for the ends; a schema change may appear a batch after its rows."""
    random = Random(seed)
    upstream = history(random, steps, partial=partial, moves=False)
    schema = ("schema", 0)
    logs = _logs(upstream, [("rows", p) for p in range(partitions)], random, False, schema)
    times = sorted({event.ts for event in upstream.events})
    lake, offsets = Lake(RULES, random, "key", broadcast=False), dict.fromkeys(logs, 0)
    sent = late = -1

    def seen(at: Partition, sent: int, late: int) -> list[Event]:
        return [e for e in logs[at] if not isinstance(e, int) and e.ts <= (late if at == schema else sent)]

    while any(offsets[at] < len(log) for at, log in logs.items()):
        late, sent = sent, max(sent, random.choice(times[: times.index(sent) + 4] if sent in times else times[:4]))
        late = sent if random.random() < 0.5 else late
        for (topic, partition), offset in offsets.items():
            stretch = seen((topic, partition), sent, late)[offset:][: random.choice([0, 3, 25])]
            if stretch:
                lake.read(chunks_of(stretch, partition, offset, topic))
            offsets[topic, partition] += len(stretch)
        sent = max(sent, random.choice(times[: times.index(sent) + 4]))
        ended = {at for at, offset in offsets.items() if offset == len(seen(at, sent, late))}
        lake.step(set(logs), ended=ended, idle=all(offsets[at] == len(log) for at, log in logs.items()))
    _check(upstream, lake)


def test_a_backlog_is_applied_while_it_is_read() -> None:
    """A topic with one schema change was read to its end: only the rows of the last batch wait."""
    schema = [Ddl(1, "d", None, "CREATE DATABASE `d`"), Ddl(2, "d", "t", "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)")]
    rows = [Change(3 + i, "d", "t", {"id": "int"}, True, None, {"id": i}) for i in range(9)]
    lake = Lake(RULES, Random(0), "key", broadcast=False)
    partitions, applied = {("schema", 0), ("rows", 0)}, []
    lake.read(chunks_of(schema, 0, 0, "schema"))
    for at in (0, 3, 6):
        lake.read(chunks_of(rows[at : at + 3], 0, at, "rows"))
        lake.step(partitions, ended={("schema", 0)})
        applied.append(lake.state.counts.applied)
    assert applied == [0, 3, 6]


@pytest.mark.heavy
@many
@given(seeds, st.integers(1, 60), st.booleans(), st.booleans())
def test_tables_with_topics_of_their_own(seed: int, steps: int, marks: bool, partial: bool) -> None:
    """A schema change is in the topics of the tables that it names; without marks, only the end shows that no other comes."""
    random = Random(seed)
    upstream = history(random, steps, partial=partial, moves=False)
    logs = _logs_by_table(upstream, random, marks)
    lake = Lake(RULES, random, "key")
    for idle in _read(logs, lake, random):
        lake.step(set(logs), idle=idle)
    _check(upstream, lake)


_OF_TABLES = (
    statements.CreateTable
    | statements.DropTable
    | statements.RenameTable
    | statements.TruncateTable
    | statements.AlterTable
)


def _logs_by_table(upstream: Upstream, random: Random, marks: bool) -> dict[Partition, list[Event]]:
    logs: dict[str, list[Event]] = {"": []}  # the default topic has the schema changes of databases
    names = [full_name(e.database, e.table) for e in upstream.events if isinstance(e, Change)]
    logs |= {name: [] for name in sorted(names)}
    for i, event in enumerate(upstream.events):
        if isinstance(event, Change):
            logs[full_name(event.database, event.table)].append(event)
        else:
            together = [
                e for e in upstream.events if isinstance(e, Ddl) and e.ts == event.ts
            ]  # else nothing orders them
            for topic in dict.fromkeys(topic for e in together for topic in _topics(e, logs)):
                logs.setdefault(topic, []).append(event)
        last = i + 1 == len(upstream.events)
        if last or (marks and upstream.events[i + 1].ts > event.ts and random.random() < 0.2):
            for log in logs.values():
                log.append(event.ts)
    return {(topic, 0): log for topic, log in logs.items()}


def _topics(event: Ddl, logs: dict[str, list[Event]]) -> list[str]:
    """Topics of the tables that a statement names, by their names before it; DDL may spell a name in any case."""
    if event.table is None:
        return [""]
    spelled = {name.lower(): name for name in logs}
    parsed = ddl.parse(event.text, event.database, restored=True)
    names = [full_name(s.database, s.table) for s in parsed if isinstance(s, _OF_TABLES)]
    return list(dict.fromkeys(spelled.get(name.lower(), name) for name in names))


def _logs(
    upstream: Upstream, of_rows: list[Partition], random: Random, marks: bool, schema: Partition | None = None
) -> dict[Partition, list[Event]]:
    logs: dict[Partition, list[Event]] = {at: [] for at in [*of_rows, *([schema] if schema else [])]}
    for i, event in enumerate(upstream.events):
        last = i + 1 == len(upstream.events)
        if isinstance(event, Change):
            image = event.after or event.before or {}
            logs[
                of_rows[(image.get("id") or 0) % len(of_rows) if event.keyed else random.randrange(len(of_rows))]
            ].append(event)
        else:
            for at in [schema] if schema else of_rows:
                logs[at].append(event)
        for at in of_rows if marks and (last or upstream.events[i + 1].ts > event.ts) else ():
            if last or random.random() < 0.2:
                logs[at].append(event.ts)
    return logs


def _read(logs: dict[Partition, list[Event]], lake: Lake, random: Random) -> Any:
    """Reads a random stretch of each partition at a time; yields after each whether everything has been read."""
    offsets = dict.fromkeys(logs, 0)
    while any(offsets[at] < len(log) for at, log in logs.items()):
        for (topic, partition), log in logs.items():
            at = offsets[topic, partition]
            stretch = log[at:][: random.choice([0, 0, 3, 25])]
            if stretch:
                lake.read(chunks_of(stretch, partition, at, topic))
            offsets[topic, partition] += len(stretch)
        yield all(offsets[at] == len(log) for at, log in logs.items())


def _check(upstream: Upstream, lake: Lake) -> None:
    compare(upstream.tables, lake)
    assert (lake.state.pending, lake.state.partly) == ((), {})


def test_rows_without_commit_ts_do_not_wait() -> None:
    """Rows of Avro, of two topics, without marks: a schema change would come with marks."""
    chunks = [ChunkInfo("1", "rows", "app", "t", None, 3, low, low, "t", 0, 0, 2) for low in (None, 7)]
    state = State(pending=("1",), positions={"t": {0: 3}})
    avro = protocol("ticdc-avro").capabilities
    far = table_frontier(state, chunks, {("t", 0), ("u", 0)}, avro, idle=False)
    assert [Tables(state, far).applied(chunk, {"app.t"}, {}) for chunk in chunks] == [[Window()], [Window()]]
    assert far.retain(chunks, {"app.t"}) == replace(state, pending=())
