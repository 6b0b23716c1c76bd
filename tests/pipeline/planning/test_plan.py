"""Any upstream history, planned and applied step by step, gives the upstream's tables at every barrier."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from changefeed.errors import UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.pipeline.frontier.cut import CutFrontier
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.plan import make
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.state import Hold, State
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.memory import Lake as Tables
from changefeed.sinks.memory import MemorySink
from changefeed.stages.changes import Window
from tests.examples import examples
from tests.pipeline.kit.downstream import Event, Lake, chunks_of, infos
from tests.pipeline.kit.random_runs import compare, history
from tests.pipeline.kit.upstream import Change, Ddl, Row, Upstream

RULES = Rules(restored_ddl=True)
seeds = st.integers(0, 2**48)
many = examples(100, suppress_health_check=list(HealthCheck))


@pytest.mark.heavy
@pytest.mark.slow
@many
@given(seeds, st.integers(1, 60), st.integers(1, 3), st.booleans())
def test_every_cut_of_a_random_history_is_its_exact_state(
    seed: int, steps: int, partitions: int, partial: bool
) -> None:
    random = Random(seed)
    upstream = history(random, steps, partial=partial)
    lake = Lake(RULES, random)
    for _ in _replayed(upstream, lake, partitions, random):
        _check(upstream, lake)
    assert lake.state.barrier == (upstream.ts if upstream.events else None)
    assert lake.state.pending == ()


@pytest.mark.heavy
@pytest.mark.slow
@many
@given(seeds, st.integers(10, 60), st.integers(1, 2))
def test_a_table_in_quarantine_is_complete_once_it_is_released(seed: int, steps: int, partitions: int) -> None:
    """Tables are held at random points, while anything may happen to them and their names."""
    random = Random(seed)
    upstream = history(random, steps, partial=True)
    lake = Lake(RULES, random)
    names = sorted({full_name(e.database, e.table) for e in upstream.events if e.table is not None})
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
        assert lake.step({("log", p) for p in range(partitions)})
    _check(upstream, lake)
    assert lake.state.pending == ()


def _replayed(upstream: Upstream, lake: Lake, partitions: int, random: Random) -> Any:
    """Reads partitions that have their own marks in batches with a random stretch of each; yields after each step."""
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
    offsets = [0] * partitions
    while any(offset < len(log) for offset, log in zip(offsets, logs, strict=True)):
        for partition, log in enumerate(logs):
            stretch = log[offsets[partition] :][: random.randint(0, 25)]
            if stretch:
                lake.read(chunks_of(stretch, partition, offsets[partition]))
            offsets[partition] += len(stretch)
        if lake.step({("log", p) for p in range(partitions)}):
            yield


def _check(upstream: Upstream, lake: Lake) -> None:
    past = [ts for ts in upstream.history if lake.state.barrier is not None and ts <= lake.state.barrier]
    compare(upstream.history[max(past)] if past else {}, lake)


def _nothing(spanning: list[ChunkInfo], window: Window) -> set[str]:
    """No chunk spans a window."""
    raise AssertionError(spanning)


# Examples of each rule.

CREATE = "CREATE TABLE app.t (id INT PRIMARY KEY, a INT, b INT)"


def _insert(ts: int, key: int, table: str = "t", **values: Any) -> Change:
    kinds = dict.fromkeys(["id", *values], "int")
    return Change(ts, "app", table, kinds, True, None, {"id": key, **values})


def _events(*changes: str | Change | tuple[str, str | None]) -> list[Event]:
    """Statements on table t (or on the one named with them) and rows, each with its index as commit_ts."""
    events: list[Event] = []
    for ts, one in enumerate(changes, 1):
        if isinstance(one, Change):
            events.append(replace(one, ts=ts))
        else:
            text, table = one if isinstance(one, tuple) else (one, "t")
            events.append(Ddl(ts, "app", table, text))
    return [*events, len(events)]


def _applied(*changes: str | Change | tuple[str, str | None], **rules: Any) -> Lake:
    lake = Lake(replace(RULES, **rules), Random(0))
    lake.read(chunks_of(_events(*changes), 0, 0))
    assert lake.step({("log", 0)})
    return lake


ROW = _insert(0, 1, a=2, b=3)
LATER = _insert(0, 2, a=4, b=5)
FULL = {"id": 1, "a": 2, "b": 3}
SHORT = _insert(0, 2, b=5)


@pytest.mark.parametrize(
    "behavior, changes, rows, notes",
    [
        ("evolve", [CREATE, ROW, "ALTER TABLE t DROP a", SHORT], [{"id": 1, "b": 3}, {"id": 2, "b": 5}], []),
        (
            "lenient", [CREATE, ROW, "ALTER TABLE t DROP a", SHORT], [FULL, {"id": 2, "a": None, "b": 5}], [],
        ),
        (
            "ignore", [CREATE, ROW, "ALTER TABLE t DROP a", SHORT], [FULL, {"id": 2, "a": None, "b": 5}],
            ["ignored: ALTER TABLE t DROP a"],
        ),
        (
            "try_evolve", [CREATE, ROW, "ALTER TABLE t DROP nowhere", LATER], [FULL, {"id": 2, "a": 4, "b": 5}],
            ["not applied (table app.t has no column nowhere): ALTER TABLE t DROP nowhere"],
        ),
        (
            "try_evolve", [CREATE, ROW, "ALTER TABLE t MODIFY a BIGINT, ADD c INT DEFAULT (RAND())", LATER],
            [FULL | {"c": None}, {"id": 2, "a": 4, "b": 5, "c": None}],
            ["not applied (column c: only the upstream has the values that DEFAULT (RAND()) gave to existing rows): "
             "ALTER TABLE t MODIFY a BIGINT, ADD c INT DEFAULT (RAND())"],
        ),
        (
            "try_evolve", [CREATE, ROW, "ALTER TABLE t DROP PARTITION p", LATER], [FULL, {"id": 2, "a": 4, "b": 5}],
            ["not applied (drop_partition changes rows that cannot be identified): ALTER TABLE t DROP PARTITION p"],
        ),
        (
            "lenient", [CREATE, ROW, "TRUNCATE t", LATER], [FULL, {"id": 2, "a": 4, "b": 5}],
            ["not applied, `lenient` keeps what is there: TRUNCATE t"],
        ),
        (
            "lenient", [CREATE, ROW, "DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, b INT)", SHORT],
            [FULL, {"id": 2, "a": None, "b": 5}],
            ["not applied, `lenient` keeps what is there: DROP TABLE t",
             "not applied, `lenient` keeps the rows that are there: CREATE TABLE t (id INT PRIMARY KEY, b INT)"],
        ),
        ("ignore", [CREATE, ROW, "TRUNCATE t", LATER], [FULL, {"id": 2, "a": 4, "b": 5}], ["ignored: TRUNCATE t"]),
        ("exception", [CREATE, ROW, "CREATE INDEX i ON t (a)"], [FULL], ["skipped: CREATE INDEX i ON t (a)"]),
        ("evolve", [CREATE, ROW, CREATE, LATER], [{"id": 2, "a": 4, "b": 5}], []),
        ("evolve", [CREATE, ROW, CREATE.replace("TABLE", "TABLE IF NOT EXISTS")], [FULL], []),
        ("evolve", [CREATE, ROW, ("DROP DATABASE app", None), CREATE, LATER], [{"id": 2, "a": 4, "b": 5}], []),
        ("evolve", [("CREATE TABLE x LIKE nowhere", "x"), ROW], [FULL], []),
        (
            "evolve", [CREATE, ROW, "ALTER TABLE t ADD d DATE NOT NULL"], [FULL | {"d": None}],
            ["app.t: NULL for '0000-00-00' in the rows of the new column d"],
        ),
        (
            "evolve", [CREATE, ROW, "ALTER TABLE t ADD d DATE NOT NULL", "ALTER TABLE t MODIFY d INT NOT NULL"],
            [FULL | {"d": None}],
            ["app.t: NULL for '0000-00-00' in the rows of the new column d",
             "app.t: column d: a zero date stays NULL, and the server has converted it from date to int"],
        ),
    ],
)  # fmt: skip
def test_rows_and_notes_after_a_schema_change(
    behavior: str, changes: list[str | Change], rows: list[Row], notes: list[str]
) -> None:
    lake = _applied(*changes, behavior=behavior)
    assert (sorted(lake.rows("app.t"), key=lambda row: row["id"]), lake.notes) == (rows, notes)


@pytest.mark.parametrize(
    "rules, changes, message",
    [
        (
            {}, [CREATE, "ALTER TABLE t DROP nowhere"],
            "'ALTER TABLE t DROP nowhere' at log:0:1: table app.t has no column nowhere. Set schema.change.behavior to "
            "`try_evolve` to go on without it",
        ),
        (
            {}, [CREATE, "ALTER TABLE t TRUNCATE PARTITION p"],
            "'ALTER TABLE t TRUNCATE PARTITION p' at log:0:1: truncate_partition changes rows that cannot be identified. Set "
            "schema.change.behavior to `try_evolve` to go on without it",
        ),
        (
            {"behavior": "exception"}, [CREATE, "ALTER TABLE t ADD c INT"],
            "schema.change.behavior is `exception`, and there is a schema change at log:0:1: ALTER TABLE t ADD c INT",
        ),
        (
            {"behavior": "try_evolve", "irregular": "fail"}, [CREATE, ROW, "ALTER TABLE t ADD d DATE NOT NULL"],
            "'ALTER TABLE t ADD d DATE NOT NULL' at log:0:2: column d: existing rows get the default '0000-00-00', which date "
            "cannot hold downstream, and `irregular: fail` is set",
        ),
        (
            {"keyless": "refuse"}, [replace(ROW, keyed=False, kinds={"id": "int"}, after={"id": 1})],
            "app.t has no handle key and `keyless: refuse` is set: give it a primary key upstream, name it in "
            "pipeline.exclude, or set `keyless` to `append` or `inserts`",
        ),
        (
            {}, ["CREATE TABLE t (id INT PRIMARY KEY, `a (b)` INT)"],
            "app.t: column 'a (b)': plain Delta tables have no ' ' in names of columns. Set "
            "sink.column-names to `escaped`, which makes it a~20~28b~29, or name the table in pipeline.exclude",
        ),
        (
            {}, [CREATE, "ALTER TABLE t ADD COLUMN `a=b` INT"],
            "app.t: column 'a=b': plain Delta tables have no '=' in names of columns. Set "
            "sink.column-names to `escaped`, which makes it a~3Db, or name the table in pipeline.exclude",
        ),
        (
            {}, [CREATE, "ALTER TABLE t RENAME COLUMN a TO _OP"],
            "app.t: column '_OP' has the name of a metadata column: leave it out of sink.metadata-columns",
        ),
        (
            {}, ["CREATE TABLE t (id INT PRIMARY KEY, _irregular INT)"],
            "app.t: column '_irregular' has the name of a metadata column: set sink.irregular to `null` or `fail`",
        ),
    ],
)  # fmt: skip
def test_an_unsupported_change_is_named_with_the_way_out(
    rules: dict[str, Any], changes: list[str | Change], message: str
) -> None:
    chunks, sink = infos(chunks_of(_events(*changes), 0, 0)), DeltaTables("lake", ("_op", "_irregular"))
    with pytest.raises(UnsupportedError) as error:
        make(CutFrontier(State(barrier=len(changes)), None), chunks, replace(RULES, **rules), sink, _nothing)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "changes, tables",
    [
        ([CREATE, ROW, ("CREATE TABLE gone (id INT PRIMARY KEY)", "gone"), _insert(0, 3, "gone")], {"app.t": [FULL]}),
        ([CREATE, ROW, ("RENAME TABLE t TO gone", "gone"), _insert(0, 3, "gone", a=1, b=1)], {}),
        ([CREATE, ROW, ("CREATE TABLE gone (`a b` INT)", "gone"), ("DROP DATABASE app", None)], {}),
    ],
    ids=["alone", "renamed to", "unsupported column name"],
)
def test_a_table_that_is_excluded_is_skipped(
    changes: list[str | Change | tuple[str, str | None]], tables: dict[str, list[Row]]
) -> None:
    lake = _applied(*changes, excluded=lambda name: name == "app.gone")
    assert {name: lake.rows(name) for name in lake.state.tables} == tables


def test_a_table_whose_rows_were_excluded_does_not_take_a_name_in_silence() -> None:
    changes: list[Any] = [("CREATE TABLE gone (id INT PRIMARY KEY)", "gone"), ("RENAME TABLE gone TO t", "t"), ROW]
    rules: dict[str, Any] = {"excluded": lambda name: name == "app.gone"}
    with pytest.raises(UnsupportedError, match=r"app\.gone becomes app\.t, and its rows were not read"):
        _applied(*changes, **rules)
    assert _applied(*changes, **rules, behavior="try_evolve").rows("app.t") == [FULL]


@pytest.mark.parametrize(
    "changes",
    [
        [("DROP DATABASE app", None), ("CREATE TABLE x LIKE nowhere", "x")],
        [("CREATE TABLE gone (a INT)", "gone"), ("RENAME TABLE gone TO _x_gho", "_x_gho"), ("CREATE TABLE gone (b INT)", "gone")],
    ],
    ids=["drop", "rename"],
)  # fmt: skip
def test_ddl_that_is_planned_again_for_a_released_table_changes_no_shadow(
    changes: list[tuple[str, str | None]],
) -> None:
    lake = Lake(replace(RULES, excluded=lambda name: name in {"app.gone", "app._x_gho"}), Random(0))
    lake.state = replace(lake.state, held={"other.t": Hold(None)})
    lake.read(chunks_of(_events(*changes), 0, 0))
    assert lake.step({("log", 0)})
    shadows = lake.state.shadows
    assert shadows
    lake.state = replace(lake.state, held={"other.t": Hold(None, released=True)})
    assert lake.step({("log", 0)})
    assert (lake.state.shadows, lake.state.held) == (shadows, {})


def test_lenient_does_not_rename_over_a_table_that_it_keeps() -> None:
    other = _insert(0, 7, "u", a=1, b=1)
    lake = _applied(
        CREATE, ROW, ("DROP TABLE t", "t"), ("CREATE TABLE u LIKE t", "u"), other, ("RENAME TABLE u TO t", "t"), LATER,
        behavior="lenient",
    )  # fmt: skip
    assert [row["id"] for row in lake.rows("app.t")] == [1, 2]
    assert [row["id"] for row in lake.rows("app.u")] == [7]


def test_a_table_whose_ddl_was_skipped_follows_its_rows() -> None:
    wide = Change(0, "app", "t", {"id": "int", "a": "bigint", "b": "int"}, True, None, {"id": 2, "a": 2**40, "b": 5})
    lake = _applied(CREATE, ROW, "ALTER TABLE t DROP nowhere", wide, behavior="try_evolve")
    assert [str(c.type) for c in lake.state.tables["app.t"].table.columns] == ["int", "bigint", "int"]
    assert lake.rows("app.t")[1]["a"] == 2**40


def test_schema_changes_without_effect_are_noted() -> None:
    texts = ["ALTER TABLE nowhere ADD c INT", "TRUNCATE TABLE nowhere", "DROP TABLE nowhere"]
    notes = _applied(CREATE, ROW, *((text, "nowhere") for text in texts)).notes
    assert [note.rpartition(" at ")[0] for note in notes] == [
        f"no effect, app.nowhere is not known: {text}" for text in texts
    ]


def test_a_create_with_rows_is_one_write_and_a_dropped_table_none() -> None:
    gone = _insert(0, 1, "gone", a=1)
    events = _events(
        CREATE, ROW, ("CREATE TABLE gone (id INT PRIMARY KEY, a INT)", "gone"), gone, ("DROP TABLE gone", "gone")
    )
    chunks = infos(chunks_of(events, 0, 0))
    planned = make(CutFrontier(State(barrier=5), None), chunks, RULES, MemorySink(Tables()), _nothing)
    assert [(type(a.write).__name__, a.path, a.write.number) for a in planned.actions] == [
        ("Load", "app/t", 1),
        ("Create", "app/gone", 1),
    ]


@pytest.mark.parametrize(
    "changes, barrier, tables, after",
    [
        ([CREATE, ROW, "DROP TABLE t", CREATE, LATER], 3, {}, [{"id": 2, "a": 4, "b": 5}]),
        (
            [CREATE, ROW, "DROP TABLE t", "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, a INT, b INT, c INT)", LATER], 3,
            {}, [{"id": 2, "a": 4, "b": 5, "c": None}],
        ),
        (
            [ROW, "DROP TABLE t", "RENAME TABLE u TO t", SHORT, "ALTER TABLE t ADD a INT DEFAULT 7", _insert(0, 3, a=1, b=1)], 4,
            {"app.t": [{"id": 2, "b": 5}]}, [{"id": 2, "b": 5, "a": 7}, {"id": 3, "b": 1, "a": 1}],
        ),
        (
            [ROW, "DROP TABLE t", "RENAME TABLE u TO t", _insert(0, 2, a=1, b=1), _insert(0, 3, a=1, b=1)], 4,
            {"app.t": [{"id": 2, "a": 1, "b": 1}]}, [{"id": 2, "a": 1, "b": 1}, {"id": 3, "a": 1, "b": 1}],
        ),
    ],
    ids=["created again", "created if there is none", "another column", "the same columns"],
)  # fmt: skip
def test_columns_come_from_rows_of_this_table_not_of_one_that_had_its_name(
    changes: list[str | Change], barrier: int, tables: dict[str, list[Row]], after: list[Row]
) -> None:
    """Schema changes in a topic of their own: one chunk has rows from before a DROP and rows above the barrier."""
    rules = replace(RULES, behavior="try_evolve")  # the rows of `u` were never read
    lake, both, end = Lake(rules, Random(0), broadcast=False), {("log", 0), ("log", 1)}, len(changes) + 1
    events = _events(*changes)[:-1]
    lake.read(chunks_of([*(e for e in events if isinstance(e, Ddl)), barrier], 0, 0))
    lake.read(chunks_of([*(e for e in events if isinstance(e, Change)), barrier], 1, 0))
    lake.step(both)
    assert {name: lake.rows(name) for name in lake.state.tables} == tables
    for partition in (0, 1):
        lake.read(chunks_of([end], partition, 10))
    lake.step(both)
    assert sorted(lake.rows("app.t"), key=lambda row: row["id"]) == after


def test_a_schema_change_without_commit_ts_is_refused() -> None:
    event = SchemaChange("other", "app", "t", "TRUNCATE t", Place("log", 0, 3))
    info = replace(infos(chunks_of([Ddl(1, "app", "t", "TRUNCATE t")], 0, 3))[1], event=event)
    with pytest.raises(UnsupportedError) as error:
        make(CutFrontier(State(), None), [info], RULES, MemorySink(Tables()), _nothing)
    assert (
        str(error.value)
        == "'TRUNCATE t' at log:0:3: a schema change without commit_ts has no place in the order of rows. Let the "
        "producer send commit_ts, or set schema.change.behavior to `try_evolve` to go on without it"
    )
    ignoring = replace(RULES, behavior="ignore")
    planned = make(CutFrontier(State(), None), [info], ignoring, MemorySink(Tables()), _nothing)
    note = "not applied (a schema change without commit_ts has no place in the order of rows): TRUNCATE t"
    assert (planned.actions, planned.notes) == ([], [note])
