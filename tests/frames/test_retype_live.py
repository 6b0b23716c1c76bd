"""Random values after a change of type, on real servers: what they make of them, and what `frames.retype` does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from changefeed.frames.retype import Details, Server, conversion
from changefeed.model.types import ColumnType
from tests.frames.retype_server import MORE, RECORDED_AT, VALUES, changed
from tests.frames.retyping import column, pair, shown, values
from tests.services.database import Database, MariaDb, MySql

pytestmark = pytest.mark.nightly


def drawn(t: ColumnType, chance: random.Random) -> str:
    """A random value in SQL, also outside of the type's range; without strict mode the server takes the nearest."""
    if t.name in ("date", "datetime", "timestamp"):
        clock = f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(10**6):06}"
        return f"'{chance.randrange(1971, 2037)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02} {clock}'"
    if t.name == "time":
        return f"'{chance.randrange(-838, 839)}:{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(10**6):06}'"
    if t.name in ("float", "double"):
        return repr(chance.choice([-1, 1]) * chance.random() * 10.0 ** chance.randrange(-12, 25))
    if t.name in ("enum", "set"):
        return str(chance.randrange(2 ** len(t.members or ())))
    if t.name in ("char", "varchar", "text"):
        return "'" + "".join(chance.choice("aZ 9é北🐟-.") for _ in range(chance.randrange(12))) + "'"
    if t.name in ("binary", "varbinary", "blob"):
        return f"X'{chance.randbytes(chance.randrange(10)).hex()}'"
    whole = chance.randrange(-(10 ** chance.randrange(1, 20)), 10 ** chance.randrange(1, 20))
    return (
        f"{whole}.{chance.randrange(10**9):09}"
        if t.name == "decimal"
        else str(abs(whole) if t.name == "bit" else whole)
    )


def compare(database: Database, server: Server, old: str, sql: Sequence[str], seed: str, zone: str = "") -> int:
    """Compares values of one type after each change of type that has a conversion; returns their number."""
    compared, time = 0, RECORDED_AT * 1_000_000
    for new, rows in changed(database, old, [*VALUES, *MORE], sql, zone=zone or "+00:00"):
        change = pair(old, new, rows)
        made = conversion(change.old, change.new, Details(server, charset="utf8mb4", zone=zone, time=time))
        if made is None:
            continue
        results = values(change.new, made.values(column(change.old, change.before)))
        for before, after, result in zip(change.before, change.after, results, strict=True):
            assert result == shown(change.new, after), f"{seed}, {server}, {zone}: {old} {before!r} as {new}"
            compared += 1
    return compared


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_random_values_are_those_of_the_server(server: Server) -> None:
    seed = random.SystemRandom().randrange(2**32)
    chance, compared = random.Random(seed), 0
    database: Database
    with MariaDb() if server == "mariadb" else MySql() as database:
        database.execute("CREATE DATABASE x CHARACTER SET utf8mb4")
        for old in VALUES:
            if old == "json" or old.startswith(
                "double("
            ):  # of JSON and DOUBLE(m,d) the client shows another form than rows have
                continue
            sql = [drawn(ColumnType.parse(old), chance) for _ in range(20)]
            compared += compare(database, server, old, sql, f"seed {seed}")
    assert compared > 30_000, seed


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_instants_and_local_times_of_the_session(server: Server) -> None:
    seed = random.SystemRandom().randrange(2**32)
    chance, compared = random.Random(seed), 0
    database: Database
    with MariaDb() if server == "mariadb" else MySql() as database:
        database.execute("CREATE DATABASE x CHARACTER SET utf8mb4")
        for old in (name for name in VALUES if name.startswith(("time", "date"))):
            zone = f"{chance.choice('+-')}{chance.randrange(13):02}:{chance.choice([0, 30, 45]):02}"
            sql = [drawn(ColumnType.parse(old), chance) for _ in range(30)]
            compared += compare(database, server, old, sql, f"seed {seed}", zone=zone)
    assert compared > 2_000, seed
