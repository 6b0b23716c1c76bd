"""Planning of a Debezium snapshot: its rows come after its DDL, and DDL without rows empties nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from changefeed.errors import UnsupportedError
from changefeed.frames.payloads import write_shape
from changefeed.frames.transactions import TRANSACTIONS
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.frontier.by_key import table_frontier
from changefeed.pipeline.frontier.cut import CutFrontier
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.plan import Planned, make
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.writes import NEW_SNAPSHOT
from changefeed.pipeline.state import State
from changefeed.protocols import protocol
from changefeed.sinks.memory import Lake, MemorySink
from changefeed.sinks.writes import Create, Load
from changefeed.stages.changes import NO_READS

PLACE = 100
CAPABILITIES = protocol("debezium-mysql").capabilities


def ddl(text: str, mark: str | None, at: int = PLACE, offset: int = 0) -> ChunkInfo:
    origin = {} if mark is None else {"snapshot": mark}
    event = SchemaChange("query", "shop", "t", text, Place("srv", 0, offset), commit_ts=at - 1, origin=origin)
    return ChunkInfo("1", "schema", "shop", "t", None, 1, at - 1, at - 1, "srv", 0, offset, offset, event=event)


def rows(at: int = PLACE, *, key: bool = True) -> ChunkInfo:
    shape = TableShape("shop", "t", (Column("id", ColumnType("int"), key=key),))
    return ChunkInfo("1", "rows", "shop", "t", write_shape(shape), 3, at, at, "srv.shop.t", 0, 0, 2)


def lines(mark: str | None, at: int) -> ChunkInfo:
    """The `transactions` chunk of one row of the table."""
    line = pa.RecordBatch.from_pylist([{"commit_ts": at, "snapshot": mark}], schema=pa.schema(list(TRANSACTIONS)))
    name = "srv.shop.t"
    return ChunkInfo("1", "transactions", None, None, None, 1, at, at, name, 0, 0, 0, transactions=line)


def snapshot(last: str = "true", at: int = PLACE, *, key: str = " PRIMARY KEY") -> list[ChunkInfo]:
    drop, create = "DROP TABLE IF EXISTS `shop`.`t`", f"CREATE TABLE `t` (id INT{key})"
    return [ddl(drop, "true", at, 1), ddl(create, last, at, 2)]


def _behind(chunks: list[ChunkInfo]) -> list[ChunkInfo]:
    """The schema changes at later offsets."""
    return [replace(chunk, first=chunk.first + 10, last=chunk.last + 10) for chunk in chunks]


def planned(
    state: State, *chunks: ChunkInfo, upto: int = PLACE, behavior: str = "evolve", ddl_of_all: bool = False
) -> Planned:
    frontier, sink = CutFrontier(replace(state, barrier=upto), state.barrier), MemorySink(Lake())
    rules = Rules(behavior=behavior, uncaptured_ddl=ddl_of_all)
    return make(frontier, list(chunks), rules, sink, lambda spanning, window: ())


def test_rows_come_after_the_create_table_at_their_position() -> None:
    (merge,) = planned(State(), rows(), *snapshot()).actions
    assert isinstance(merge.write, Load)
    assert merge.changes is not None
    assert (merge.changes.after, merge.changes.through) == (PLACE - 1, PLACE)


def test_a_snapshot_without_rows_creates_missing_tables_and_empties_nothing() -> None:
    first = planned(State(), *snapshot("last"))
    assert ([type(action.write) for action in first.actions], first.notes) == ([Create], [])
    later = planned(State(barrier=PLACE), *snapshot("last", PLACE + 50), upto=PLACE + 50)
    assert later.notes == ["shop.t begins without rows: the snapshot that defines it at srv:0:2 has none at all"]
    there = replace(first.state_after(State()), barrier=PLACE)
    again = planned(there, *snapshot("last", PLACE + 50), upto=PLACE + 50)
    assert (again.actions, again.tables) == ([], there.tables)
    assert again.notes == ["shop.t keeps its rows: the snapshot that defines it at srv:0:2 has none at all"]


@pytest.mark.parametrize("interruptions", [1, 2])
def test_a_snapshot_without_rows_that_was_interrupted_empties_nothing(interruptions: int) -> None:
    there = replace(planned(State(), rows(), *snapshot()).state_after(State()), barrier=PLACE)
    begun = [chunk for n in range(interruptions) for chunk in snapshot(at=PLACE + 10 + n)]
    again = planned(there, *begun, *snapshot("last", PLACE + 50), upto=PLACE + 50)
    assert (again.actions, again.tables) == ([], there.tables)
    in_part = planned(there, *begun, *snapshot("last", PLACE + 50), upto=PLACE + 10)  # a step to the end of the first
    assert (in_part.actions, in_part.tables) == ([], there.tables)


@pytest.mark.parametrize(
    "between",
    [
        [rows(PLACE + 10)],
        [lines("true", PLACE + 10)],
        [lines(None, PLACE + 20)],
        [ddl("CREATE TABLE u (a INT)", None, 120)],
    ],
    ids=["its rows", "one of its rows", "a streamed row", "a streamed schema change"],
)
def test_a_snapshot_that_was_not_interrupted_replaces_its_tables(between: list[ChunkInfo]) -> None:
    there = replace(planned(State(), rows(), *snapshot()).state_after(State()), barrier=PLACE)
    chunks = [*snapshot(at=PLACE + 10), *between, *snapshot("last", PLACE + 50)]
    assert planned(there, *chunks, upto=PLACE + 50).actions != []


def test_a_table_that_a_later_snapshot_does_not_have_stays_with_a_note() -> None:
    there = replace(planned(State(), rows(), *snapshot()).state_after(State()), barrier=PLACE)
    others = [ddl("CREATE TABLE `other`.`u` (id INT PRIMARY KEY)", "true", PLACE + 50, 3)]
    again = planned(there, *others, upto=PLACE + 50)
    assert again.tables["shop.t"] == there.tables["shop.t"]
    assert again.notes == [
        "shop.t keeps its rows: the snapshot at srv:0:3 does not have it. If the server does not have it either, name it in "
        "pipeline.exclude, and remove it from the lake"
    ]
    streamed = [ddl("CREATE TABLE `other`.`u` (id INT PRIMARY KEY)", None, PLACE + 50, 3)]
    assert planned(there, *streamed, upto=PLACE + 50).notes == []


LOST = (
    "column e: a snapshot of Debezium has NULL for every value of {} in the character set binary. Give the column another "
    f"character set. {NEW_SNAPSHOT}"
)


@pytest.mark.parametrize(
    "kind, table",
    [
        ("ENUM('a')", " DEFAULT CHARSET=binary"),
        ("ENUM('a') NOT NULL DEFAULT 'a'", " CHARSET binary"),
        ("SET('a') CHARACTER SET binary", ""),
    ],
)
@pytest.mark.parametrize("stated", [True, False], ids=["stated", "by the statement"])
def test_members_that_a_snapshot_has_lost_stop(kind: str, table: str, stated: bool) -> None:
    (create,) = lossy(kind, table, "true", stated=stated)
    why = LOST.format(kind.partition("(")[0])
    with pytest.raises(UnsupportedError, match=re.escape(f"at srv:0:2: {why}. Set schema.change.behavior")):
        planned(State(), create, rows())
    noted = planned(State(), create, rows(), behavior="try_evolve")
    assert noted.notes[0].startswith(f"not applied ({why})")


@pytest.mark.parametrize(
    "kind, table, mark",
    [
        ("ENUM('a')", " DEFAULT CHARSET=binary", None),
        ("ENUM('a')", " DEFAULT CHARSET=binary", "last"),
        ("ENUM('a')", "", "true"),
        ("ENUM('a') CHARACTER SET utf8mb4", " DEFAULT CHARSET=binary", "true"),
        ("VARCHAR(5)", " DEFAULT CHARSET=binary", "true"),
    ],
)
def test_members_that_rows_have_do_not_stop(kind: str, table: str, mark: str | None) -> None:
    assert planned(State(), *lossy(kind, table, mark)).notes == []


def lossy(kind: str, table: str, mark: str | None, *, stated: bool = False) -> list[ChunkInfo]:
    """The CREATE TABLE of a table with a column `e` of this type."""
    create = ddl(f"CREATE TABLE t (id INT PRIMARY KEY, e {kind}){table}", mark, offset=2)
    assert create.event is not None
    columns = (
        Column("id", ColumnType("int"), False, True),
        Column("e", ColumnType.parse(kind.partition(")")[0] + ")"), True, False, charset="binary"),
    )
    return [replace(create, event=replace(create.event, columns=columns if stated else None))]


def test_a_snapshot_with_rows_replaces_a_table_that_is_there() -> None:
    there = replace(planned(State(), rows(), *snapshot()).state_after(State()), barrier=PLACE)
    (merge,) = planned(there, *snapshot(at=PLACE + 50), rows(PLACE + 50), upto=PLACE + 50).actions
    assert isinstance(merge.write, Load)


@pytest.mark.parametrize("known, reads", [(True, NO_READS), (False, PLACE)], ids=["known before", "made in this step"])
def test_read_rows_of_a_table_without_a_key_come_right_after_its_create(known: bool, reads: int) -> None:
    chunks = [*snapshot(key=""), rows(key=False)]
    state, upto = State(), PLACE
    if known:
        state = replace(planned(state, *chunks).state_after(state), barrier=PLACE)
        chunks, upto = [rows(PLACE + 50, key=False)], PLACE + 50
    (merge,) = planned(state, *chunks, upto=upto).actions
    assert merge.changes is not None
    assert merge.changes.reads == reads


@pytest.mark.parametrize(
    "chunks, read, quiet, ready",
    [
        (snapshot(), PLACE - 1, True, 0),
        (snapshot("last"), PLACE - 1, False, 2),
        ([*snapshot(), rows(), lines("true", PLACE)], PLACE, False, 2),
        ([*snapshot(), rows(PLACE + 1), lines(None, PLACE + 1)], PLACE + 1, False, 0),
        ([*snapshot(), rows(PLACE + 1), lines(None, PLACE + 1)], PLACE + 1, True, 2),
        ([ddl("DROP TABLE t", None)], PLACE - 1, False, 1),
        ([*snapshot(), *_behind(snapshot(at=PLACE + 9))], PLACE - 1, False, 0),
        ([*snapshot(), *_behind(snapshot("last", PLACE + 9))], PLACE - 1, False, 4),
        ([*snapshot(), *_behind(snapshot(at=PLACE + 9)), lines("true", PLACE + 9)], PLACE, False, 4),
    ],
    ids=[
        "nothing behind it yet",
        "it has no rows",
        "one of its rows",
        "a later row",
        "and no more",
        "a streamed one",
        "another snapshot begins",
        "another has no rows",
        "another has rows",
    ],
)
def test_by_key_the_ddl_of_a_snapshot_waits_until_it_is_known_if_rows_follow(
    chunks: list[ChunkInfo], read: int, quiet: bool, ready: int
) -> None:
    latest = {"srv": {0: PLACE - 1}} | ({} if read < PLACE else {"srv.shop.t": {0: read}})
    state = State(latest=latest, positions={topic: {0: 1} for topic in latest}, pending=("1",))
    frontier = table_frontier(state, chunks, [], CAPABILITIES, idle=True, quiet=quiet)
    assert len(frontier.changes) == ready


def test_by_key_the_parts_of_a_statement_in_several_partitions_wait_for_each_other() -> None:
    """A partition that has sent one part may send another, until something behind it shows that it will not."""
    parts = [ddl("RENAME TABLE c.t TO c.u", None, offset=3), ddl("RENAME TABLE c.u TO b.t", None, offset=7)]
    parts = [parts[0], replace(parts[1], partition=1)]
    latest = {"srv": {0: PLACE - 1, 1: PLACE - 1}, "srv.b.t": {0: PLACE + 9}}
    state = State(
        latest=latest, positions={topic: dict.fromkeys(of, 1) for topic, of in latest.items()}, pending=("1",)
    )
    partitions = [("srv", 0), ("srv", 1), ("srv.b.t", 0)]
    assert table_frontier(state, parts, partitions, CAPABILITIES, idle=False).changes == []
    ended = {("srv", 0): PLACE + 5, ("srv", 1): PLACE + 5}
    assert len(table_frontier(state, parts, partitions, CAPABILITIES, idle=False, ended=ended).changes) == 2


def test_rows_before_a_snapshot_without_rows_stay_in_a_table_that_was_known_by_ddl_alone() -> None:
    create = ddl("CREATE TABLE `t` (id INT PRIMARY KEY)", None, PLACE - 50, 0)
    left_out = planned(State(), create, upto=PLACE - 40, ddl_of_all=True)
    assert left_out.uncaptured.keys() == {"shop.t"}
    state = replace(left_out.state_after(State()), barrier=PLACE - 40)
    (load,) = planned(state, rows(PLACE - 30), *snapshot("last"), upto=PLACE, ddl_of_all=True).actions
    assert load.changes is not None
    assert load.changes.through == PLACE - 1


def test_a_rename_onto_a_table_whose_end_was_not_read_is_noted() -> None:
    other = ddl("CREATE TABLE `u` (id INT PRIMARY KEY)", None, PLACE, 3)
    other = replace(other, table="u", event=replace(other.event, table="u") if other.event else None)
    others_rows = replace(
        rows(), table="u", shape=write_shape(TableShape("shop", "u", (Column("id", ColumnType("int"), key=True),)))
    )
    state = replace(planned(State(), *snapshot(), rows(), other, others_rows).state_after(State()), barrier=PLACE)
    (note,) = planned(state, ddl("RENAME TABLE u TO t", None, PLACE + 9, 9), upto=PLACE + 9).notes
    assert note.startswith("shop.t is shop.u from here on, at srv:0:9: RENAME TABLE u TO t. What became of the table")
