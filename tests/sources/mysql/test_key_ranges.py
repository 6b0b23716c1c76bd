"""Chunks by the whole key, on both servers: they have all rows once, are of the size that was asked for, and read no more."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from itertools import chain, pairwise
from random import Random
from uuid import UUID

import pytest

from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.backlog import backlog_of
from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.first_copy import CopyChunk, SchemaChangedError, fingerprint, next_chunks
from changefeed.sources.mysql.key_ranges import Bound, bound_after
from changefeed.sources.mysql.reader import Part
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import CopyProgress, SourceOffset, read
from changefeed.sources.mysql.tables import describe
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97
from tests.sources.mysql.following import Follower, section

_MEMBERS = f"ENUM({', '.join(map(repr, map(str, range(64))))})"
_Kind = tuple[str, Callable[[Random], str]]  # a type, and a random value of it as SQL


@pytest.fixture(
    scope="module",
    params=[MariaDb, *(pytest.param(server, marks=pytest.mark.nightly) for server in (MySql, MariaDb118, MySql97))],
    ids=["mariadb", "mysql", "mariadb-11.8", "mysql-9.7"],
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        yield server


@pytest.fixture
def server(database: Database) -> Iterator[Server]:
    opened = Server.open(Address("127.0.0.1", database.port, "dbz", "dbz"))
    opened.rows("DROP DATABASE IF EXISTS shop")
    opened.rows("CREATE DATABASE shop CHARACTER SET utf8mb4")
    yield opened
    opened.connection.close()


def chunks_of(
    server: Server, table: str, chunk_rows: int, start: Bound | None = None, most: int = 100_000
) -> list[CopyChunk]:
    described = describe(server, "shop", table)
    assert described is not None
    progress = CopyProgress((("shop", table),), (fingerprint(described),), start=start)
    return next_chunks(server, progress, chunk_rows, most)[0]


def numbers_of(server: Server, chunk: CopyChunk) -> list[int]:
    """The rows of a chunk, by their column `n`."""
    table = chunk.table.table
    only = replace(table, columns=tuple(column for column in table.columns if column.name == "n"))
    return [int(n or 0) for (n,) in server.rows(chunk.query(only))]


@contextmanager
def reading(server: Server, most: int) -> Iterator[None]:
    """Checks that the server reads no more rows than these."""
    server.rows("FLUSH STATUS")
    yield
    counts = {name: int(count) for name, count in server.texts("SHOW SESSION STATUS LIKE 'Handler_read%'")}
    assert sum(count for name, count in counts.items() if name.endswith(("next", "prev"))) <= most, counts


def inserted(server: Server, table: str, values: list[str]) -> int:
    """Inserts rows, of which some may have the same key; returns the number of all rows."""
    server.rows(f"INSERT IGNORE INTO shop.{table} VALUES {', '.join(values)}")
    server.rows(f"ANALYZE TABLE shop.{table}")
    [(count,)] = server.texts(f"SELECT COUNT(*) FROM shop.{table}")
    return int(count)


def test_one_tenant_is_many_chunks(server: Server) -> None:
    server.rows("CREATE TABLE shop.t (tenant INT, id INT, n INT, PRIMARY KEY (tenant, id))")
    inserted(server, "t", [f"(7, {i}, {i})" for i in range(300)])
    chunks = chunks_of(server, "t", 50)
    assert [numbers_of(server, chunk) for chunk in chunks] == [list(range(i, i + 50)) for i in range(0, 300, 50)]
    assert chunks[1].query(chunks[1].table.table).endswith(" WHERE `tenant` = 7 AND `id` >= 50 AND `id` < 100")


@pytest.mark.parametrize(
    "columns, key, row",
    [
        (
            "a ENUM('x','y','z'), b VARCHAR(20) COLLATE utf8mb4_general_ci, c BIGINT, d FLOAT",
            "a, b DESC, c, d",
            lambda i: f"{1 + i % 3}, '{'aÄb'[i // 3 % 3]}', {i // 200}, {i / 7}",
        ),
        (
            f"a {_MEMBERS}, b {_MEMBERS}, c INT, d INT",
            "a, b, c",
            lambda i: f"{1 + i // 900}, {1 + i // 50 % 64}, {i}, {i}",
        ),
        ("a INT, b INT, c INT, d TIME(3)", "a, b, c, d", lambda i: f"{i // 3000}, 1, {i // 1000}, {i / 1000}"),
    ],
    ids=["mixed", "members", "numbers"],
)
def test_only_the_range_is_read(server: Server, columns: str, key: str, row: Callable[[int], str]) -> None:
    """By the index, and so is the next bound found."""
    server.rows(f"CREATE TABLE shop.t ({columns}, n INT, v VARCHAR(20), PRIMARY KEY ({key}))")
    rows = 6000
    inserted(server, "t", [f"({row(i)}, {i}, 'v')" for i in range(rows)])
    chunks = chunks_of(server, "t", 250)
    assert len(chunks) == rows / 250
    for chunk in chunks:
        query = chunk.query(chunk.table.table)
        with reading(server, 250 + 10):
            assert len(server.rows(query)) == 250
        [plan] = server.texts(f"EXPLAIN FORMAT=TRADITIONAL {query}")
        assert "range" in plan
        with reading(server, 2 * 250 + 10):  # those behind which a tenant ends are counted, too
            assert bound_after(server, chunk.table, chunk.start, 250) == chunk.stop


def _text(letters: str, most: int) -> Callable[[Random], str]:
    return lambda r: "'" + "".join(r.choices(letters, k=r.randint(0, most))) + "'"


def _time(r: Random) -> str:
    return f"'{r.choice(['', '-'])}{r.choice([0, 1, 837])}:{r.randrange(60)}:{r.randrange(60)}.{r.randrange(10**6):06}'"


def _floating(form: str) -> Callable[[Random], str]:
    """A number of random bits, and sometimes one that a decimal does not have."""

    def drawn(r: Random) -> str:
        [value] = struct.unpack(form, r.randbytes(struct.calcsize(form)))
        return repr(value) if abs(value) < float("inf") else r.choice(["0.1", "-0.0e0", "0", "3e-5"])

    return drawn


_KINDS: list[_Kind] = [
    ("INT", lambda r: str(r.randint(-3, 3))),
    ("BIGINT UNSIGNED", lambda r: str(2**64 - 1 - r.randrange(5))),
    ("DECIMAL(65,30)", lambda r: f"{r.randint(-1, 1)}.{r.randrange(3):030}"),
    ("YEAR", lambda r: str(r.choice([0, 1901, 1970, 2026, 2155]))),
    ("DATE", lambda r: r.choice(["'0000-00-00'", "'2024-02-30'", "'2024-03-01'", "'9999-12-31'"])),
    ("DATETIME(6)", lambda r: f"'2024-02-{r.randint(28, 31)} 0:0:0.{r.randrange(3):06}'"),
    ("TIMESTAMP(3)", lambda r: f"'2024-10-27 {r.randint(0, 3)}:00:00.{r.randrange(3):03}'"),
    ("TIME(6)", _time),
    ("BIT(64)", lambda r: str(r.choice([0, 1, 255, 256, 2**63, 2**64 - 1]))),
    ("ENUM('b', 'a', 'é', 'c')", lambda r: str(r.randint(0, 4))),
    ("FLOAT", _floating("<f")),
    ("DOUBLE", _floating("<d")),
    ("CHAR(3)", _text("aAäÄß sS", 3)),
    ("VARCHAR(5) COLLATE utf8mb4_unicode_ci", _text("aAäÄß sS\u00ad", 3)),
    ("VARCHAR(5) COLLATE utf8mb4_bin", _text("aA \t", 3)),
    ("CHAR(5) CHARACTER SET latin1", _text("aAäÄ ", 3)),
    ("VARCHAR(5) CHARACTER SET sjis", _text("aAソ表 ", 3)),
    ("VARCHAR(5) CHARACTER SET utf16 COLLATE utf16_czech_ci", _text("chCH ", 3)),
    ("BINARY(3)", lambda r: f"X'{r.choice(['', '00', '20', 'ff', '61'])}'"),
    ("VARBINARY(3)", lambda r: f"X'{r.choice(['', '00', '20', 'ff', '61', '6100', '6120'])}'"),
]
_OWN_KINDS: dict[type[Database], list[_Kind]] = {
    MariaDb: [
        ("UUID", lambda r: f"'{UUID(int=r.getrandbits(128), version=r.choice([1, 4, 5]))}'"),
        ("INET4", lambda r: f"'{IPv4Address(r.getrandbits(32))}'"),
        ("INET6", lambda r: f"'{IPv6Address(r.getrandbits(r.choice([16, 32, 128])))}'"),
        ("VARCHAR(5) COLLATE utf8mb4_nopad_bin", _text("aA \t", 3)),
        ("VARCHAR(5) COLLATE utf8mb4_unicode_520_nopad_ci", _text("aA \t\u00ad", 3)),
    ],
    MySql: [
        ("VARCHAR(5) COLLATE utf8mb4_0900_ai_ci", _text("aAäÄß \t\u00ad", 3)),
        ("CHAR(5) COLLATE utf8mb4_0900_as_cs", _text("aAäÄß \t\u00ad", 3)),
    ],
}


def _kinds(database: Database) -> list[_Kind]:
    return _KINDS + [kind for server, kinds in _OWN_KINDS.items() if isinstance(database, server) for kind in kinds]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))])
def test_chunks_of_random_keys(database: Database, server: Server, seed: int) -> None:
    random, kinds = Random(seed), _kinds(database)
    for number in range(25):
        own = random.sample(kinds, random.randint(1, 4))
        columns = "".join(f"c{i} {kind} NOT NULL, " for i, (kind, _) in enumerate(own))
        key = ", ".join(f"c{i}{random.choice(['', '', ' DESC'])}" for i in range(len(own)))
        primary = random.choice(["PRIMARY", "UNIQUE"])
        server.rows(f"CREATE TABLE shop.t{number} ({columns}n INT, {primary} KEY ({key}))")
        rows = inserted(
            server, f"t{number}", [f"({', '.join(value(random) for _, value in own)}, {n})" for n in range(200)]
        )
        chunk_rows = random.choice([1, 2, 7, 50])
        chunks = chunks_of(server, f"t{number}", chunk_rows)
        numbers = [numbers_of(server, chunk) for chunk in chunks]
        described = (own, key, chunk_rows)
        assert (chunks[0].start, chunks[-1].stop) == (None, None)
        assert all(before.stop == after.start for before, after in pairwise(chunks))
        assert len({n for of_chunk in numbers for n in of_chunk}) == sum(map(len, numbers)) == rows, described
        assert {len(of_chunk) for of_chunk in numbers[:-1]} <= {chunk_rows}, described
        assert len(numbers[-1]) <= chunk_rows, described


def test_a_literal_names_one_value_alone(database: Database, server: Server) -> None:
    """Chunks of one row, of every type, by its index and without it."""
    random = Random(9)
    for kind, value in _kinds(database):
        server.rows("DROP TABLE IF EXISTS shop.t")
        server.rows(f"CREATE TABLE shop.t (k {kind} NOT NULL PRIMARY KEY, n INT)")
        rows = inserted(server, "t", [f"({value(random)}, {n})" for n in range(300)])
        chunks = chunks_of(server, "t", 1)
        assert [len(numbers_of(server, chunk)) for chunk in chunks] == [1] * rows, kind
        server.rows("ALTER TABLE shop.t DROP PRIMARY KEY")
        assert [len(numbers_of(server, chunk)) for chunk in chunks] == [1] * rows, kind


@pytest.mark.parametrize(
    "columns, key, chunks",
    [
        (
            "a INT, b SET('s', 't', 'u', 'v', 'w', 'x', 'y')",
            "a, b",
            10,
        ),  # of a SET, 64 members are compared as a signed number
        ("a SET('s', 't', 'u', 'v', 'w', 'x', 'y'), b INT", "a, b", 1),
        ("a INT, b FLOAT(7,2)", "a, b", 10),  # it rounds what it is compared with
        ("a DOUBLE(7,2), b INT", "a, b", 1),
        ("a INT, b TEXT", "a, b(5)", 10),  # its index has no order of whole values
        ("a INT, b VARCHAR(9)", "a, b(5)", 10),
        (f"a ENUM({', '.join(map(repr, map(str, range(256))))}), b INT", "a, b", 1),  # conditions would be too long
    ],
)
def test_columns_that_are_not_divided(server: Server, columns: str, key: str, chunks: int) -> None:
    """Columns of the key before them divide the table, as far as they can."""
    server.rows(f"CREATE TABLE shop.t ({columns}, n INT, PRIMARY KEY ({key}))")
    inserted(server, "t", [f"({n % 10}, {n}, {n})" for n in range(100)])
    numbers = [numbers_of(server, chunk) for chunk in chunks_of(server, "t", 5)]
    assert len([of_chunk for of_chunk in numbers if of_chunk]) == chunks
    assert sorted(chain(*numbers)) == list(range(100))


def test_a_char_without_padding(server: Server) -> None:
    """MariaDB orders its values with spaces at their ends, and compares them without: '\t\t' is before '\t', and larger."""
    if server.kind != "mariadb":
        pytest.skip("MySQL has no such difference")
    server.rows("CREATE TABLE shop.t (a CHAR(3) COLLATE utf8mb4_nopad_bin, b INT, n INT, PRIMARY KEY (a, b))")
    inserted(server, "t", [f"('{a}', {n}, {n})" for n, a in enumerate(["\t", "\t\t", "", "\ta", "a", "a\t"] * 9)])
    [chunk] = chunks_of(server, "t", 5)
    assert sorted(numbers_of(server, chunk)) == list(range(54))
    with pytest.raises(SchemaChangedError):  # earlier versions divided it, and so lost rows
        chunks_of(server, "t", 5, start=("_utf8mb4 X'09'",))
    progress = CopyProgress((("shop", "t"),), ("",), start=("_utf8mb4 X'09'",))
    known = SourceOffset(server.identity, server.end(), copy=progress)
    assert backlog_of(server, ["shop.*"], known, copies=True).records in range(30, 80)


def test_a_unique_key_with_null(server: Server) -> None:
    """Its rows are found by no key, and divided by none."""
    server.rows("CREATE TABLE shop.t (a INT, b INT NOT NULL, n INT, UNIQUE KEY (a, b))")
    inserted(server, "t", [f"(NULL, {n % 3}, {n})" for n in range(30)])
    [chunk] = chunks_of(server, "t", 5)
    assert chunk.table.is_keyless
    assert sorted(numbers_of(server, chunk)) == list(range(30))


def test_a_column_that_the_index_begins_alone(server: Server) -> None:
    """A prefix of the first column: its whole values divide the table."""
    server.rows("CREATE TABLE shop.t (a VARCHAR(20), n INT, PRIMARY KEY (a(3)))")
    inserted(server, "t", [f"('{n}-{n % 7}', {n})" for n in range(100, 200)])
    numbers = [numbers_of(server, chunk) for chunk in chunks_of(server, "t", 9)]
    assert list(map(len, numbers)) == [9] * 11 + [1]
    assert sorted(chain(*numbers)) == list(range(100, 200))


def test_a_copy_that_an_earlier_version_began(server: Server, database: Database) -> None:
    """It has read all rows before the first column's value, and goes on from there by the whole key."""
    server.rows("CREATE TABLE shop.t (tenant INT, id INT, n INT, PRIMARY KEY (tenant, id))")
    inserted(server, "t", [f"({i // 100}, {i}, {i})" for i in range(300)])
    source = open_changes(section(database, tables=["shop.t"], **{"chunk-rows": 40, "max-records-per-batch": 40}))
    plan = source.plan(None, None)
    assert plan is not None
    text = plan.after.text()
    assert '"from": ["0", "40"]' in text
    earlier = text.replace('"from": ["0", "40"]', '"from": "1"')
    assert source.backlog(text).records in range(200, 301)  # both bounds can be explained; the number is an estimate
    assert source.backlog(earlier).records in range(150, 301)
    numbers = list[list[int]]()
    while (known := read(earlier).copy) is not None and known.table == 0:
        plan = source.plan(earlier, None)
        assert plan is not None
        numbers += [numbers_of(server, part) for part in plan.parts if isinstance(part, CopyChunk)]
        earlier = plan.after.text()
    source.close()
    assert list(map(len, numbers)) == [40] * 5
    assert [*chain(*numbers)] == list(range(100, 300))


def test_a_descending_key_that_an_earlier_version_began(server: Server) -> None:
    """It went in the other direction: the copy begins again."""
    server.rows("CREATE TABLE shop.t (a INT, n INT, PRIMARY KEY (a DESC))")
    table = describe(server, "shop", "t")
    assert table is not None
    earlier = fingerprint(replace(table, ordered=tuple(replace(each, is_descending=False) for each in table.ordered)))
    with pytest.raises(SchemaChangedError):
        next_chunks(server, CopyProgress((("shop", "t"),), (earlier,), start=("5",)), 10, 10)


@dataclass
class Recording(Follower):
    """A pipeline that records its chunks, and is killed at one of them."""

    kill_at: Bound | None = None
    chunks: list[CopyChunk] = field(default_factory=list)

    def before(self, part: Part) -> None:
        """Records a chunk."""
        if isinstance(part, CopyChunk):
            if self.kill_at is not None and part.start == self.kill_at:
                raise Killed
            self.chunks.append(part)


def test_a_run_that_is_killed_goes_on_inside_of_a_tenant(server: Server, database: Database) -> None:
    server.rows("CREATE TABLE shop.t (tenant CHAR(9), id INT, n INT, PRIMARY KEY (tenant, id))")
    inserted(server, "t", [f"('one', {i}, {i})" for i in range(300)])
    options = {"chunk-rows": [50], "max-records-per-batch": [50]}
    following = Recording(database, ["shop.t"], Random(0), options)
    tenant = "_utf8mb4 X'6f6e65'"
    following.kill_at = (tenant, "150")
    with pytest.raises(Killed):
        following.run()
    assert len(following.chunks) == 3
    server.rows("UPDATE shop.t SET id = id + 1000 WHERE id IN (10, 160)")
    following.kill_at = None
    state = following.run()
    assert [chunk.start for chunk in following.chunks] == [
        None, (tenant, "50"), (tenant, "100"), (tenant, "150"), (tenant, "201"), (tenant, "251"), (tenant, "1160"),
    ]  # fmt: skip
    rows = following.storage.tables.rows(state.tables["shop.t"].path)
    assert sorted(row["id"] for row in rows) == sorted({*range(300), 1010, 1160} - {10, 160})
