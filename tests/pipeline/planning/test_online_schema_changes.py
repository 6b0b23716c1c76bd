"""Online schema changes and renames: the kept table has its rows and the new definition, or the run stops at the statement.

The runs of gh-ost 1.1.6 (MySQL 8.0) and pt-online-schema-change 3.2.1 (MariaDB 10.11) were recorded with Debezium's engine.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.pipeline.kit.server_log import Row, ServerLog, error_of, read_log, run, tables

DATA = Path(__file__).parents[2] / "data" / "field"
RUNS = [path.name for path in sorted(DATA.glob("*-run-*.jsonl"))]
CREATE = "CREATE TABLE parcels (id BIGINT NOT NULL, qty INT, PRIMARY KEY (id))"
PLAIN, WITH_KG = ("id bigint", "qty int"), ("id bigint", "qty int", "kg int 3")
BEFORE = [{"id": 1, "qty": 10}, {"id": 2, "qty": 20}]
AFTER = [{"id": 1, "qty": 10, "kg": 3}, {"id": 2, "qty": 20, "kg": 3}, {"id": 3, "qty": 30, "kg": 4}]
EXCLUDED = ["shop._*"]
KEEPS = "shop.parcels keeps its rows: shop.{}, of which no row was read, takes its place as its copy at srv:0:{}"
TRY = "Set schema.change.behavior to `try_evolve` to go on without it"


def parcels() -> ServerLog:
    """A table with two rows."""
    log = ServerLog()
    log.ddl(CREATE, "shop", "parcels", PLAIN)
    log.rows("shop", "parcels", *((None, row) for row in BEFORE))
    return log


def copied(log: ServerLog, copy: str = "_parcels_gho") -> None:
    """The DDL of a copy with a new column."""
    log.ddl(f"CREATE TABLE shop.{copy} LIKE shop.parcels", "shop", copy)
    log.ddl(f"ALTER TABLE shop.{copy} ADD COLUMN kg INT NOT NULL DEFAULT 3", "shop", copy)


def swapped(log: ServerLog, copy: str = "_parcels_gho", replaced: str = "_parcels_del", columns: Any = None) -> None:
    """One statement, which the connector splits, and a row after it."""
    own = f"parcels,{replaced}"
    log.ddl(f"RENAME TABLE shop.parcels TO shop.{replaced}", "shop", own)
    log.ddl(f"RENAME TABLE shop.{copy} TO shop.parcels", "shop", own, columns, again=True)
    log.rows("shop", "parcels", (None, AFTER[-1]))


def noted(notes: list[str]) -> list[str]:
    return [note for note in notes if not note.startswith(("skipped", "left out"))]


def in_every_way(log: ServerLog, **pipeline: Any) -> tuple[dict[str, list[Row]], list[str]]:
    """The tables at the end, which must be the same in both consistencies and in batches of any size; and the notes."""
    storage, notes = run(log.records, **pipeline)
    for consistency in ("transaction", "key"):
        seed = Random().randrange(2**32)
        other, _ = run(log.records, chance=Random(seed), consistency=consistency, **pipeline)
        assert tables(other) == tables(storage), (consistency, seed)
    return dict(tables(storage)), noted(notes)


@pytest.mark.heavy
@pytest.mark.parametrize("exclude", [[], ["shop._*"]], ids=["all", "copies-excluded"])
@pytest.mark.parametrize("name", RUNS)
def test_the_tools_themselves(name: str, exclude: list[str]) -> None:
    rows = [
        {"id": 1, "code": "k1", "qty": 11, "kg": 3}, {"id": 2, "code": "k2", "qty": 22, "kg": 3},
        {"id": 4, "code": "k4", "qty": 40, "kg": 3}, {"id": 5, "code": "k5", "qty": 50, "kg": 5},
    ]  # fmt: skip
    for consistency in ("transaction", "key"):
        for chance in (None, Random(1)):
            storage, _ = run(read_log(DATA / name), consistency=consistency, chance=chance, exclude=exclude)
            state = storage.published()[-1]
            assert tables(storage)["shop.parcels"] == rows
            assert {str(c.name): str(c.type) for c in state.tables["shop.parcels"].table.columns}[
                "code"
            ] == "varchar(40)"
            assert not [n for n in state.tables if n.startswith("shop._")]


@pytest.mark.parametrize(
    "copy, replaced",
    [
        ("_parcels_gho", "_parcels_del"),
        ("_parcels_gho", "_parcels_20260102030405_del"),
        ("_parcels_new", "_parcels_old"),
        ("__parcels_new", "__parcels_old"),
        ("__osc_new_parcels", "__osc_old_parcels"),
        ("lhmn_parcels", "lhma_2026_01_02_03_04_05_678_parcels"),
    ],
)
def test_the_ddl_of_an_excluded_copy_is_that_of_the_table(copy: str, replaced: str) -> None:
    log = parcels()
    copied(log, copy)
    swapped(log, copy, replaced)
    exclude = [f"shop.{copy}", f"shop.{replaced}"]
    assert in_every_way(log, exclude=exclude) == ({"shop.parcels": AFTER}, [KEEPS.format(copy, 4)])


def test_a_copy_whose_ddl_alone_is_sent_has_no_rows_to_give() -> None:
    log = parcels()
    copied(log)
    swapped(log)
    result, notes = in_every_way(log)
    assert result == {"shop.parcels": AFTER, "shop._parcels_del": BEFORE}
    assert notes == [KEEPS.format("_parcels_gho", 4)]


def test_a_copy_whose_rows_are_sent_is_an_ordinary_table() -> None:
    log = parcels()
    copied(log)
    log.rows("shop", "_parcels_gho", *((None, {**row, "kg": 7}) for row in BEFORE))
    swapped(log)
    result, notes = in_every_way(log)
    assert result["shop.parcels"] == [{**AFTER[0], "kg": 7}, {**AFTER[1], "kg": 7}, AFTER[2]]
    assert notes == []


def test_renamed_columns_of_the_copy_keep_their_values() -> None:
    log = parcels()
    copied(log)
    log.ddl("ALTER TABLE shop._parcels_gho CHANGE qty amount INT, DROP COLUMN kg", "shop", "_parcels_gho")
    log.ddl("RENAME TABLE shop.parcels TO shop._parcels_del", "shop", "_parcels_del")
    log.ddl("RENAME TABLE shop._parcels_gho TO shop.parcels", "shop", "parcels")
    result, _ = in_every_way(log, exclude=EXCLUDED)
    assert result == {"shop.parcels": [{"id": 1, "amount": 10}, {"id": 2, "amount": 20}]}


@pytest.mark.parametrize("words", ["RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}", "ALTER TABLE {} RENAME {}"])
def test_two_statements_in_a_row(words: str) -> None:
    log = parcels()
    copied(log)
    log.ddl(words.format("parcels", "_parcels_del"), "shop", "_parcels_del")
    log.ddl(words.format("_parcels_gho", "parcels"), "shop", "parcels")
    log.rows("shop", "parcels", (None, AFTER[-1]))
    assert in_every_way(log, exclude=EXCLUDED)[0] == {"shop.parcels": AFTER}


def test_the_second_half_alone() -> None:
    """The connector drops the half whose new name is not captured; `tableChanges` has the columns."""
    log = parcels()
    log.ddl("RENAME TABLE shop._parcels_gho TO shop.parcels", "shop", "parcels,_parcels_del", WITH_KG)
    log.rows("shop", "parcels", (None, AFTER[-1]))
    assert in_every_way(log) == ({"shop.parcels": AFTER}, [KEEPS.format("_parcels_gho", 1)])


def test_a_copy_of_which_nothing_was_sent_leaves_the_columns() -> None:
    log = parcels()
    log.ddl("RENAME TABLE shop._parcels_gho TO shop.parcels", "shop", "parcels")
    log.rows("shop", "parcels", (None, AFTER[-1]))
    result, notes = in_every_way(log)
    assert result == {"shop.parcels": [{**row, "kg": None} for row in BEFORE] + AFTER[2:]}
    assert notes[1] == "shop.parcels keeps its columns: the definition of _parcels_gho was not read".replace(
        "_p", "shop._p"
    )


@pytest.mark.parametrize(
    "columns, why, rows",
    [
        (
            (*PLAIN, "kg int"), None, [{**row, "kg": None} for row in BEFORE],
        ),
        (
            ("id bigint", "amount int"), "column qty is gone and amount is new, and no statement shows whether it was renamed",
            [{"id": 1, "amount": None}, {"id": 2, "amount": None}],
        ),
    ],
)  # fmt: skip
def test_values_that_only_the_copy_has(columns: Any, why: str | None, rows: list[Row]) -> None:
    log = parcels()
    text = "RENAME TABLE shop._parcels_gho TO shop.parcels"
    log.ddl(text, "shop", "parcels", columns)
    if why is not None:
        assert error_of(log.records) == f"{text!r} at srv:0:1: {why}. {TRY}"
    result, notes = in_every_way(log, behavior="evolve" if why is None else "try_evolve")
    assert result == {"shop.parcels": rows}
    assert why is None or f"not applied ({why}): {text}" in notes


def test_a_default_that_the_connector_lost_is_not_guessed() -> None:
    records = read_log(DATA / "gh-ost-swap-ghost-tables-not-captured.jsonl")
    text = "RENAME TABLE `shop`.`_parcels_gho` TO `shop`.`parcels`"
    why = "column kg is new, and no row event contains its values in existing rows"
    assert error_of(records) == f"{text!r} at srv:0:2: {why}. {TRY}"
    storage, notes = run(records, behavior="try_evolve")
    assert [row["kg"] for row in tables(storage)["shop.parcels"]] == [None, None, 4]
    assert f"not applied ({why}): {text}" in notes


@pytest.mark.parametrize("name", ["gh-ost-swap-ghost-tables-excluded", "pt-osc-swap-shadow-tables-excluded"])
def test_rows_before_a_swap_with_excluded_tables(name: str) -> None:
    for consistency in ("transaction", "key"):
        storage, _ = run(read_log(DATA / f"{name}.jsonl"), consistency=consistency, exclude=EXCLUDED)
        rows = tables(storage)["shop.parcels"]
        assert [row["id"] for row in rows] == ([1, 2, 3] if name.startswith("gh-ost") else [1, 2])
        assert [row.get("kg") for row in rows] == ([3, 3, 4] if name.startswith("gh-ost") else [None, None])


def test_an_unrelated_table_takes_the_name() -> None:
    """No table that is known has these rows: the run stops, and with `try_evolve` the rows that are there stay."""
    log = parcels()
    log.ddl("RENAME TABLE shop.parcels TO shop.parcels_2025", "shop", "parcels,parcels_2025")
    text = "RENAME TABLE shop.parcels_next TO shop.parcels"
    log.ddl(text, "shop", "parcels,parcels_2025", again=True)
    why = "shop.parcels_next becomes shop.parcels, and its rows were not read"
    assert error_of(log.records) == f"{text!r} at srv:0:2: {why}. {TRY}"
    result, notes = in_every_way(log, behavior="try_evolve")
    assert result == {"shop.parcels": BEFORE, "shop.parcels_2025": BEFORE}
    assert notes[:2] == [f"not applied ({why}): {text}", KEEPS.format("parcels_next", 2)]


def test_rows_that_were_never_in_the_log() -> None:
    name = "tidb-rename-from-table-not-in-the-log.jsonl"
    text = "RENAME TABLE `shop`.`tmp_orders` TO `shop`.`orders`"
    why = "shop.tmp_orders becomes shop.orders, and its rows were not read"
    records = read_log(DATA / name)
    assert error_of(records, protocol_name="ticdc-open") == f"{text!r} at shop:0:0: {why}. {TRY}"
    storage, notes = run(records, protocol_name="ticdc-open", behavior="try_evolve")
    assert tables(storage) == {"shop.orders": [{"id": 1, "v": 5}]}
    assert notes == [f"not applied ({why}): {text}"]


def test_the_replaced_table_does_not_come_back_as_a_copy() -> None:
    """`_parcels_old` lacks what was written after the swap: with it, the table would have rows that the server does not have."""
    log = parcels()
    copied(log, "_parcels_new")
    swapped(log, "_parcels_new", "_parcels_old")
    log.ddl("RENAME TABLE shop.parcels TO shop._parcels_new", "shop", "parcels,_parcels_new")
    text = "RENAME TABLE shop._parcels_old TO shop.parcels"
    log.ddl(text, "shop", "parcels,_parcels_new", again=True)
    why = "shop._parcels_old becomes shop.parcels, and its rows were not read"
    assert error_of(log.records, exclude=EXCLUDED) == f"{text!r} at srv:0:6: {why}. {TRY}"


def test_the_replaced_table_comes_back_with_its_own_rows() -> None:
    log = parcels()
    copied(log, "_parcels_new")
    log.rows("shop", "_parcels_new", *((None, {**row, "kg": 3}) for row in BEFORE))
    swapped(log, "_parcels_new", "_parcels_old")
    log.ddl("RENAME TABLE shop.parcels TO shop._parcels_new", "shop", "parcels,_parcels_new")
    log.ddl("RENAME TABLE shop._parcels_old TO shop.parcels", "shop", "parcels,_parcels_new", again=True)
    assert in_every_way(log)[0] == {"shop.parcels": BEFORE, "shop._parcels_new": AFTER}


def test_a_table_leaves_for_an_excluded_name() -> None:
    log = parcels()
    text = "RENAME TABLE shop.parcels TO archive.parcels"
    log.ddl(text, "archive", "parcels")
    result, notes = in_every_way(log, exclude=["archive.*"])
    assert result == {}
    assert notes == [
        f"shop.parcels is left out from here on: it becomes archive.parcels, which is excluded, at srv:0:1: {text}"
    ]
    log.ddl(CREATE, "shop", "parcels", PLAIN)
    log.rows("shop", "parcels", (None, {"id": 9, "qty": 9}))
    assert in_every_way(log, exclude=["archive.*"])[0] == {"shop.parcels": [{"id": 9, "qty": 9}]}


def test_an_empty_table_takes_the_name_of_one_with_rows() -> None:
    """Rotation: the table is really empty, unless the producer does not send the rows of the new one."""
    log = parcels()
    log.ddl("CREATE TABLE parcels_next LIKE parcels", "shop", "parcels_next")
    log.ddl("RENAME TABLE shop.parcels TO shop.parcels_2025", "shop", "parcels,parcels_2025")
    text = "RENAME TABLE shop.parcels_next TO shop.parcels"
    log.ddl(text, "shop", "parcels,parcels_2025", again=True)
    result, notes = in_every_way(log)
    assert result == {"shop.parcels": [], "shop.parcels_2025": BEFORE}
    assert notes == [
        f"shop.parcels has no rows from here on: it was shop.parcels_next, of which no row was read, at srv:0:3: {text}. If the "
        "producer does not send the rows of shop.parcels_next, start from a new snapshot"
    ]
