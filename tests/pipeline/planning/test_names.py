"""Names of tables are compared as the server compares them, and each table exists once, under the name that its rows have."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.names import EXACT, IGNORED, LOWER, server_rule, unqualified
from tests.pipeline.kit.server_log import Row, ServerLog, error_of, read_log, run, tables

DATA = Path(__file__).parents[2] / "data" / "field"
COLUMNS = "(id BIGINT NOT NULL, a INT, PRIMARY KEY (id))"
ONE, TWO, NINE = ({"id": n, "a": n} for n in (1, 2, 9))


def in_every_way(log: ServerLog, **pipeline: Any) -> dict[str, list[Row]]:
    """The tables at the end, which must be the same in both consistencies and in batches of any size."""
    storage, _ = run(log.records, **pipeline)
    for consistency in ("transaction", "key"):
        seed = Random().randrange(2**32)
        other, _ = run(log.records, chance=Random(seed), consistency=consistency, **pipeline)
        assert tables(other) == tables(storage), (consistency, seed)
    return dict(tables(storage))


def created(table: str, own: str | None = None, topic: str | None = None, stored: str | None = None) -> ServerLog:
    """A table with one row: its name in the statement, in the event, in the topic of rows, and in rows."""
    log = ServerLog()
    log.ddl(f"CREATE TABLE {table} {COLUMNS}", "shop", own or table)
    log.rows("shop", topic or table, (None, ONE), stored=("shop", stored or topic or table))
    return log


def test_statements_spell_names_in_any_case() -> None:
    storage, notes = run(read_log(DATA / "mysql-lower-case-table-names-ddl-in-other-case.jsonl"))
    assert {name: [list(row.values()) for row in rows] for name, rows in tables(storage).items()} == {
        "shop.parcels": [[1, "k1", 11], [2, "k2", 20]],
        "shop.visits": [[9, "k9", 90, "n"]],
        "shop.tickets_old": [[1, "k1", 10, "n"], [2, "k2", 20, "n"], [9, "k9", 90, "n"]],
    }
    assert notes == []


# A statement about the table `slots`, which has a row 1; the tables after it and a row 9 under the name that the table has then.
STATEMENTS = [
    ("ALTER TABLE SLOTS ADD COLUMN b INT", "slots", {"slots": [{**ONE, "b": None}, {**NINE, "b": None}]}),
    ("TRUNCATE TABLE Slots", "slots", {"slots": [NINE]}),
    ("CREATE UNIQUE INDEX u ON SLOTS (a)", "slots", {"slots": [ONE, NINE]}),
    ("DROP TABLE sLots", None, {}),
    ("RENAME TABLE SLOTS TO Slots_Old", "slots_old", {"slots_old": [ONE, NINE]}),
    ("ALTER TABLE Slots RENAME TO SLOTS_old", "slots_old", {"slots_old": [ONE, NINE]}),
    ("RENAME TABLE SLOTS TO shop.x, X TO Slots", "slots", {"slots": [ONE, NINE]}),
    ("CREATE TABLE IF NOT EXISTS SLOTS (id BIGINT PRIMARY KEY)", "slots", {"slots": [ONE, NINE]}),
    ("CREATE TABLE Other LIKE Slots", "other", {"slots": [ONE], "other": [NINE]}),
    ("DROP DATABASE Shop", None, {}),
]  # fmt: skip


@pytest.mark.parametrize("text, name, wanted", STATEMENTS, ids=[text for text, *_ in STATEMENTS])
@pytest.mark.parametrize("own", ["stored", "as the statement"])
def test_lower_case_table_names_1(text: str, name: str | None, wanted: dict[str, list[Row]], own: str) -> None:
    """The event names the table as the server stores it, or as Debezium does: in the spelling of the first statement."""
    log = created("Slots", "slots" if own == "stored" else "Slots", "slots" if own == "stored" else "Slots", "slots")
    spelled = {"slots": "Slots", "slots_old": "Slots_Old", "other": "Other", None: None}[name]
    event = name if own == "stored" else spelled
    log.ddl(text, "shop", None if "DATABASE" in text else "" if "INDEX" in text else event or "slots")
    if name is not None:
        row = {**NINE, "b": None} if "ADD COLUMN" in text else NINE
        log.rows("shop", str(event), (None, row), stored=("shop", name))
    assert in_every_way(log) == {f"shop.{table}": rows for table, rows in wanted.items()}


@pytest.mark.parametrize("text, name, wanted", STATEMENTS[:6], ids=[text for text, *_ in STATEMENTS[:6]])
def test_lower_case_table_names_2(text: str, name: str | None, wanted: dict[str, list[Row]]) -> None:
    """Names are stored as declared, and compared ignoring case."""
    log = created("Slots")
    stored = {"slots": "Slots", "slots_old": "Slots_Old", None: None}[name]
    log.ddl(text.replace("SLOTS_old", "Slots_Old"), "shop", "" if "INDEX" in text else stored or "Slots")
    if stored is not None:
        log.rows("shop", stored, (None, {**NINE, "b": None} if "ADD COLUMN" in text else NINE))
    spelled = {"slots": "Slots", "slots_old": "Slots_Old"}
    assert in_every_way(log) == {f"shop.{spelled[table]}": rows for table, rows in wanted.items()}


@pytest.mark.parametrize(
    "text, own, wanted",
    [
        ("TRUNCATE TABLE Slots", "Slots", {"slots": [ONE], "Slots": []}),
        ("DROP TABLE Slots", "Slots", {"slots": [ONE]}),
        ("ALTER TABLE slots DROP COLUMN a", "slots", {"slots": [{"id": 1}], "Slots": [TWO]}),
        ("RENAME TABLE Slots TO Other", "Other", {"slots": [ONE], "Other": [TWO]}),
        ("RENAME TABLE slots TO SLOTS", "SLOTS", {"SLOTS": [ONE], "Slots": [TWO]}),
    ],
)
def test_lower_case_table_names_0(text: str, own: str, wanted: dict[str, list[Row]]) -> None:
    """Two tables whose names differ by case alone."""
    log = created("slots")
    log.ddl(f"CREATE TABLE Slots {COLUMNS}", "shop", "Slots")
    log.rows("shop", "Slots", (None, TWO))
    log.ddl(text, "shop", own)
    assert in_every_way(log) == {f"shop.{name}": rows for name, rows in wanted.items()}


@pytest.mark.parametrize("text", ["TRUNCATE TABLE Slots", "DROP TABLE Slots", "ALTER TABLE Slots DROP COLUMN a"])
def test_a_statement_about_a_table_that_is_not_known_is_not_about_another(text: str) -> None:
    """The event spells the name as the statement does, so that the server may distinguish the two tables."""
    log = created("slots")
    log.ddl(text, "shop", "Slots")
    assert in_every_way(log) == {"shop.slots": [ONE]}
    assert run(log.records)[1] == [
        f"no effect, shop.Slots is not known, but shop.slots differs by case alone: {text} at srv:0:1"
    ]


def test_the_only_table_whose_name_differs_by_case_alone() -> None:
    """The event of a rename names the new table only: nothing shows the server's rule, and the guess is noted."""
    log = created("slots")
    text = "RENAME TABLE SLOTS TO bins"
    log.ddl(text, "shop", "bins")
    assert in_every_way(log) == {"shop.bins": [ONE]}
    assert run(log.records)[1] == [
        f"shop.SLOTS is taken for shop.slots, the only table whose name differs by case alone, at srv:0:1: {text}"
    ]


def test_a_part_of_a_drop_names_its_table_as_the_statement_does() -> None:
    """`DROP TABLE IF EXISTS SLOTS, other` has dropped nothing on a server that distinguishes names; `slots` was lost."""
    log = created("slots")
    log.ddl("DROP TABLE IF EXISTS `shop`.`SLOTS`", "shop", "SLOTS,other")
    assert in_every_way(log) == {"shop.slots": [ONE]}


def swapped(log: ServerLog, *pairs: tuple[str, str]) -> None:
    """One RENAME of several tables of `shop`, as Debezium splits it: each event names the new tables of all parts."""
    own = ",".join(new for _, new in pairs)
    for number, (old, new) in enumerate(pairs):
        log.ddl(f"RENAME TABLE shop.{old} TO shop.{new}", "shop", own, again=number > 0)


def test_the_new_names_of_a_split_rename_do_not_name_its_old_tables() -> None:
    log = ServerLog()
    log.ddl(f"CREATE TABLE SLOTS {COLUMNS}", "shop", "SLOTS")
    log.ddl(f"CREATE TABLE bins {COLUMNS}", "shop", "bins")
    log.rows("shop", "bins", (None, ONE))
    swapped(log, ("slots", "spare"), ("bins", "slots"), ("spare", "bins"))
    log.rows("shop", "bins", (None, TWO))
    log.rows("shop", "slots", ({**ONE}, None))
    assert in_every_way(log) == {"shop.bins": [TWO], "shop.slots": []}


def test_rows_that_come_later_do_not_name_a_table_of_an_earlier_statement() -> None:
    log = ServerLog()
    log.ddl(f"CREATE TABLE Slots {COLUMNS}", "shop", "Slots")
    log.ddl("RENAME TABLE slots TO bins", "shop", "bins")
    log.rows("shop", "bins", (None, ONE))
    log.ddl(f"CREATE TABLE slots {COLUMNS}", "shop", "slots")
    log.rows("shop", "slots", (None, TWO))
    assert in_every_way(log) == {"shop.bins": [ONE], "shop.slots": [TWO]}


def test_a_table_that_was_created_before_its_rows_show_the_rule_gets_their_name() -> None:
    log = ServerLog()
    log.ddl(f"CREATE TABLE Slots {COLUMNS}", "shop", "Slots")
    log.ddl(f"CREATE TABLE Bins {COLUMNS}", "shop", "Bins")
    log.rows("shop", "Slots", (None, ONE), stored=("shop", "slots"))
    for chance in (None, Random(2), Random(3)):
        storage, _ = run(log.records, chance=chance)
        assert tables(storage) == {"shop.slots": [ONE]}
        assert storage.published()[-1].tables["shop.slots"].declared
        assert storage.published()[-1].lower_case_table_names == LOWER


def test_a_truncation_is_that_of_the_table_whose_topic_it_is_in() -> None:
    """It has the spelling of the statement, and no statement; the rows stayed."""
    log = created("slots")
    log.truncated("shop", "SLOTS", topic="slots")
    log.rows("shop", "slots", (None, TWO))
    assert in_every_way(log) == {"shop.slots": [TWO]}


# Tables that are named without their database.


@pytest.mark.parametrize("words", ["RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"])
def test_a_table_moves_to_another_database(words: str) -> None:
    """`USE shop; RENAME TABLE slots TO depot.bins`: the event has the database of the new name."""
    log = created("slots")
    log.ddl(words.format("slots", "depot.bins"), "depot", "bins")
    log.rows("depot", "bins", (None, TWO))
    assert in_every_way(log) == {"depot.bins": [ONE, TWO]}


def test_the_columns_show_which_table_has_moved() -> None:
    log = created("slots")
    log.ddl("CREATE TABLE depot.slots (id BIGINT PRIMARY KEY, b INT)", "depot", "slots")
    log.ddl("RENAME TABLE slots TO depot.bins", "depot", "bins", ("id bigint", "a int"))
    assert in_every_way(log) == {"depot.bins": [ONE]}


def test_the_table_of_any_database_is_found_in_any_case() -> None:
    log = created("slots")
    log.ddl("RENAME TABLE Slots TO depot.bins", "depot", "bins")
    log.rows("depot", "bins", (None, TWO))
    assert in_every_way(log) == {"depot.bins": [ONE, TWO]}


def test_a_name_that_fits_by_its_case_may_still_be_that_of_another_table() -> None:
    """`USE depot; RENAME TABLE Slots TO Bins`, where the server distinguishes no case: the columns show the table."""
    log = ServerLog()
    log.ddl("CREATE TABLE shop.Slots (id BIGINT PRIMARY KEY, b INT)", "shop", "Slots")
    log.ddl(f"CREATE TABLE depot.slots {COLUMNS}", "depot", "slots")
    log.rows("depot", "slots", (None, ONE))
    log.ddl("RENAME TABLE Slots TO `depot`.`Bins`", "depot", "Bins", ("id bigint", "a int"))
    log.rows("depot", "Bins", (None, TWO))
    assert in_every_way(log) == {"depot.Bins": [ONE, TWO]}


def test_behind_like_tables_with_equal_columns_are_as_good_as_one() -> None:
    log = created("slots")
    log.ddl(f"CREATE TABLE depot.slots {COLUMNS}", "depot", "slots")
    log.ddl("CREATE TABLE depot.bins LIKE slots", "depot", "bins")
    log.rows("depot", "bins", (None, TWO))
    assert in_every_way(log) == {"shop.slots": [ONE], "depot.bins": [TWO]}


def test_behind_like_tables_with_other_columns_may_not_be_confused() -> None:
    log = created("slots")
    log.ddl("CREATE TABLE depot.slots (id BIGINT PRIMARY KEY, b INT)", "depot", "slots")
    log.ddl("CREATE TABLE depot.bins LIKE slots", "depot", "bins")
    assert "table slots is named without its database, and may be any of depot.slots, shop.slots" in error_of(
        log.records
    )


def test_a_statement_that_may_mean_two_tables_stops_the_run() -> None:
    log = created("slots")
    log.ddl(f"CREATE TABLE depot.slots {COLUMNS}", "depot", "slots")
    text = "RENAME TABLE slots TO depot.bins"
    log.ddl(text, "depot", "bins", ("id bigint", "a int"))
    why = "table slots is named without its database, and may be any of depot.slots, shop.slots"
    assert error_of(log.records) == (
        f"{text!r} at srv:0:2: {why}. Set schema.change.behavior to `try_evolve` to go on without it"
    )
    storage, notes = run(log.records, behavior="try_evolve")
    assert tables(storage) == {"shop.slots": [ONE]}
    assert notes[-1] == f"not applied ({why}): {text}"


def test_a_table_is_created_like_one_in_the_database_of_the_session() -> None:
    log = created("slots")
    log.ddl("CREATE TABLE depot.bins LIKE slots", "depot", "bins")
    log.rows("depot", "bins", (None, TWO))
    result = in_every_way(log)
    assert result == {"shop.slots": [ONE], "depot.bins": [TWO]}
    assert run(log.records)[0].published()[-1].tables["depot.bins"].declared


def event(ddl: str, table: str | None, database: str = "shop") -> SchemaChange:
    return SchemaChange("other", database, table, ddl, Place("srv", 0, 0), commit_ts=1)


def test_a_session_is_another_only_if_the_new_name_has_the_event_s_database() -> None:
    assert unqualified(event("RENAME TABLE t TO depot.u", "u", "depot"), restored=False) == {"t"}
    assert unqualified(event("ALTER TABLE t ADD c INT, RENAME TO depot.u", "u", "depot"), restored=False) == {"t"}
    assert unqualified(event("RENAME TABLE t TO depot.u", "t", "shop"), restored=False) == frozenset()
    assert unqualified(event("RENAME TABLE t TO u", "u"), restored=False) == frozenset()
    assert unqualified(event("TRUNCATE TABLE t", "t"), restored=False) == frozenset()


def rows(table: str, topic: str = "all") -> ChunkInfo:
    return ChunkInfo("1", "rows", "shop", table, None, 1, 1, 1, topic, 0, 0, 0)


@pytest.mark.parametrize(
    "chunks, events, known, rule",
    [
        ([rows("t")], [event("TRUNCATE T", "t")], ["t"], IGNORED),
        ([], [event("CREATE TABLE T (id INT)", "t")], [], LOWER),
        ([], [event("RENAME TABLE x TO T", "t")], ["x"], LOWER),
        ([rows("t", "srv.shop.T")], [], ["T"], LOWER),
        ([rows("t's", "srv.shop.T_s")], [], ["T's", "t's"], LOWER),  # a topic has no apostrophe
        ([rows("T", "srv.shop.t")], [], [], None),  # a router writes topics in lower case
        ([rows("t", "srv.shop.t")], [event("CREATE TABLE T (id INT)", "T")], [], None),
        ([rows("t")], [event("CREATE TABLE T (id INT)", "T")], [], LOWER),  # one topic for all tables
        ([rows("t"), rows("U")], [event("CREATE TABLE T (id INT)", "T")], [], None),
        ([rows("t"), rows("T")], [], [], EXACT),
        ([], [], ["t", "T"], EXACT),
        ([rows("t")], [event("RENAME TABLE T TO t", "t")], [], None),
    ],
)
def test_names_show_the_server_s_rule(
    chunks: list[ChunkInfo], events: list[SchemaChange], known: list[str], rule: int | None
) -> None:
    assert server_rule(None, chunks, events, [("shop", name) for name in known], restored=False) == rule
    assert server_rule(None, chunks, events, [("shop", name) for name in known], restored=True) == IGNORED
