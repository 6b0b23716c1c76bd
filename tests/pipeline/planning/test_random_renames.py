"""Random histories of renames, swaps and online schema changes end with the server's tables, however they are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from changefeed.errors import UnsupportedError
from tests.examples import TIMES
from tests.pipeline.kit.mysql_server import Server
from tests.pipeline.kit.server_log import run, tables

pytestmark = pytest.mark.nightly
HISTORIES = max(1, round(2 * TIMES))


def _captures_originals(name: str) -> bool:
    return not name.startswith("_")


def _captures_all(name: str) -> bool:
    return True


@pytest.mark.parametrize(
    "captures, all_ddl, exclude",
    [
        pytest.param(_captures_all, True, [], id="all captured"),
        pytest.param(_captures_all, True, ["*._*"], id="copies excluded"),
        pytest.param(_captures_originals, True, [], id="copies not captured"),
        pytest.param(_captures_originals, False, [], id="without DDL of copies"),
    ],
)
@pytest.mark.parametrize("lower_case_table_names", [0, 1, 2])
def test_tables_are_those_of_the_server(
    lower_case_table_names: int, captures: Callable[[str], bool], all_ddl: bool, exclude: list[str]
) -> None:
    for _ in range(HISTORIES):
        seed = int(os.environ.get("CHANGEFEED_SEED") or Random().randrange(2**32))
        print("CHANGEFEED_SEED:", seed)
        check(seed, lower_case_table_names, captures, all_ddl, exclude)


def check(
    seed: int, lower_case_table_names: int, captures: Callable[[str], bool], all_ddl: bool, exclude: list[str]
) -> None:
    chance = Random(seed)
    server = Server(lower_case_table_names, chance, captures, all_ddl)
    for _ in range(25):
        server.step()
    if not server.log.records:
        return
    for consistency in ("transaction", "key"):
        for batches in (None, chance):
            try:
                storage, _ = run(server.log.records, chance=batches, consistency=consistency, exclude=exclude)
            except UnsupportedError:  # a stop with a name is right where the copies' DDL is not in the log
                if all_ddl:
                    raise
                return
            actual = {n: rows for n, rows in tables(storage).items() if rows and captures(n.split(".")[1].lower())}
            if lower_case_table_names == 1:  # a new name may be stored as its statement spells it until rows come
                assert len({name.lower() for name in actual}) == len(actual), sorted(actual)
                actual = {name.lower(): rows for name, rows in actual.items()}
            by_id = {name: sorted(rows, key=lambda row: int(row["id"])) for name, rows in actual.items()}
            wanted = {n: r for n, r in server.expected().items() if not (exclude and n.split(".")[1].startswith("_"))}
            assert by_id == wanted, f"seed {seed}, {consistency}, {'batches' if batches else 'at once'}"
