"""Tables whose columns the log does not name: they are followed by the statements of the log, or the run stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from changefeed.errors import ConfigError, SourceError, UnsupportedError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.events import Header, Query, StatusVars
from changefeed.mysql.binlog.table_map import MappedColumn, TableMap
from changefeed.pipeline import copy_requests
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql import open_changes, reader
from changefeed.sources.mysql.columns import columns_of
from changefeed.sources.mysql.schema_history import SchemaHistory, read_history
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, follower, rows, section
from tests.sources.mysql.kernel import needs_kernel

INT = MappedColumn(codes.LONG, 0, True)
_LATIN1, _UTF8MB4 = 8, 45  # the numbers of their default collations


def query(text: str, database: str = "shop", *, error: int = 0) -> Query:
    """The event of a statement."""
    header = Header(0, codes.QUERY, 1, 0, 0, 0)
    return Query(header, 1, 0, error, database, text.encode(), StatusVars(client=_UTF8MB4, server=_LATIN1))


def history(*statements: str) -> SchemaHistory:
    made = SchemaHistory(charsets={"shop": "utf8mb4"})
    for statement in statements:
        made = made.after(query(statement))
    return made


def table(*columns: MappedColumn, name: str = "t") -> TableMap:
    return TableMap(7, 0, "shop", name, columns)


def described(of: SchemaHistory, mapped: TableMap) -> list[tuple[str, str]] | None:
    """Names and types of the columns; None if they are not known."""
    try:
        return [(column.name, str(column.type)) for column in columns_of(of.named(mapped))]
    except UnsupportedError:
        return None


def test_names_signs_members_and_character_sets_are_those_of_the_statements() -> None:
    of = history(
        "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, e ENUM('a','ж') NOT NULL, s VARCHAR(10), b TEXT CHARACTER SET latin1)",
        "ALTER TABLE t ADD d DECIMAL(10,2) AFTER id, RENAME COLUMN s TO u",
    )
    mapped = table(
        INT, MappedColumn(codes.NEWDECIMAL, 10 << 8 | 2, True), MappedColumn(codes.ENUM, 1, False),
        MappedColumn(codes.VARCHAR, 40, True), MappedColumn(codes.BLOB, 2, True),
    )  # fmt: skip
    named = of.named(mapped)
    assert described(of, mapped) == [
        ("id", "int unsigned"), ("d", "decimal(10,2)"), ("e", "enum('a','ж')"), ("u", "varchar(10)"), ("b", "text"),
    ]  # fmt: skip
    assert [column.charset for column in named.columns] == [None, None, "utf8mb4", "utf8mb4", "latin1"]
    assert named.primary_key == ((0, 0),)
    assert of.named(named) is named


@pytest.mark.parametrize(
    "mapped",
    [
        table(INT),
        table(INT, INT, INT),
        table(MappedColumn(codes.LONGLONG, 0, True), MappedColumn(codes.VARCHAR, 40, True)),
        table(INT, MappedColumn(codes.VARCHAR, 10, True)),  # of another character set
        table(INT, MappedColumn(codes.VARCHAR, 40, True, charset="latin1")),
        table(MappedColumn(codes.LONG, 0, True, unsigned=True), MappedColumn(codes.VARCHAR, 40, True)),
        table(INT, MappedColumn(codes.VARCHAR, 40, True), name="u"),
    ],
)
def test_what_does_not_fit_is_not_named(mapped: TableMap) -> None:
    of = history("CREATE TABLE t (id INT, s VARCHAR(10))")
    assert described(of, table(INT, MappedColumn(codes.VARCHAR, 40, True))) == [("id", "int"), ("s", "varchar(10)")]
    assert described(of, mapped) is None


@pytest.mark.parametrize(
    "statements, charset",
    [
        (["CREATE DATABASE d", "CREATE TABLE d.t (s TEXT)"], "latin1"),  # the server's
        (["CREATE DATABASE d CHARACTER SET gbk", "CREATE TABLE d.t (s TEXT)"], "gbk"),
        (["CREATE DATABASE d", "ALTER DATABASE d COLLATE utf8mb4_bin", "CREATE TABLE d.t (s TEXT)"], "utf8mb4"),
        (["CREATE DATABASE d", "CREATE TABLE d.t (s TEXT)", "ALTER DATABASE d CHARSET gbk"], "latin1"),
        (["CREATE DATABASE d", "CREATE TABLE d.t (s TEXT) CHARSET=ucs2"], "ucs2"),
        (["CREATE DATABASE d", "CREATE TABLE d.t (s TEXT CHARACTER SET dec8)"], None),  # whose texts cannot be read
        (["CREATE DATABASE d", "CREATE TABLE d.u (s TEXT) CHARSET=gbk", "CREATE TABLE d.t LIKE d.u"], "gbk"),
        (["CREATE DATABASE d", "CREATE TABLE d.t (s TEXT)", "ALTER TABLE d.t CONVERT TO CHARACTER SET gbk"], "gbk"),
    ],
)
def test_a_text_has_the_character_set_that_its_column_had_when_it_was_made(
    statements: list[str], charset: str | None
) -> None:
    named = history(*statements).named(TableMap(1, 0, "d", "t", (MappedColumn(codes.BLOB, 2, True),)))
    assert (named.columns[0].name, named.columns[0].charset) == ("s", charset)


def test_names_without_case_are_those_of_the_server() -> None:
    """With `lower_case_table_names` a table map has lower case, whatever the statements have."""
    of = SchemaHistory(charsets={"shop": "utf8mb4"}, lower_case=True)
    for text, database in (
        ("CREATE TABLE Bills (id INT PRIMARY KEY)", "shop"),
        ("ALTER TABLE SHOP.bills ADD n INT", "other"),
        ("CREATE TABLE IF NOT EXISTS BILLS (x INT)", "shop"),
        ("CREATE TABLE u LIKE `Bills`", "shop"),
        ("RENAME TABLE Bills TO Shop.Paid", "shop"),
        ("DROP TABLE IF EXISTS U", "shop"),
    ):
        of = read_history(of.text()).after(query(text, database))
    assert list(of.tables) == ["shop.paid"]
    assert described(of, table(INT, INT, name="paid")) == [("id", "int"), ("n", "int")]
    assert list(of.before(query("DROP TABLE PAID")).tables) == []
    assert list(of.before(query("DROP DATABASE SHOP")).tables) == []
    assert of.after(query("ALTER DATABASE Shop CHARACTER SET latin1")).charsets == {"shop": "latin1"}


def test_what_cannot_be_read_or_applied_ends_a_definition() -> None:
    made = history("CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)")
    for statement in ("ALTER TABLE t FROBNICATE", "ALTER TABLE t DROP COLUMN gone"):
        after = made.after(query(statement))
        assert described(after, table(INT)) is None
        assert described(after, table(INT, name="u")) == [("id", "int")]
    assert described(made.after(query("CREATE OR REPLACE TABLE t (x INT)", error=1005)), table(INT)) is None
    assert made.after(query("GRANT SELECT ON shop.t TO me")) is made


def test_earlier_definitions_are_those_of_tables_that_no_statement_mentions() -> None:
    made = history("CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)")
    before = made.before(query("ALTER TABLE t COMMENT 'new'"))
    assert [described(before, table(INT, name=name)) for name in ("t", "u")] == [None, [("id", "int")]]
    assert made.before(query("DROP DATABASE shop")).tables == {}
    assert made.before(query("ALTER DATABASE CHARSET gbk")).charsets == {}


def test_a_history_is_the_same_after_it_was_written() -> None:
    made = history("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) AS (id) VIRTUAL)", "CREATE SEQUENCE s")
    read = read_history(made.text())
    assert (read, read.text()) == (made, made.text())
    assert set(read.sequences) == {"shop.s"}
    mapped = table(INT, MappedColumn(codes.VARCHAR, 36, True))
    assert described(read, mapped) == [("id", "int"), ("v", "varchar(9)")]


# Live servers.


@pytest.fixture(
    scope="module", params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"]
)
def unnamed(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute(f"SET GLOBAL binlog_row_metadata = {'NO_LOG' if request.param is MariaDb else 'MINIMAL'}")
        yield server


@pytest.mark.slow
def test_tables_follow_their_statements(unnamed: Database) -> None:
    tables = (
        "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, s VARCHAR(20) CHARACTER SET latin1, e ENUM('x','é')); "
        "INSERT INTO t VALUES (4294967295, 'é', 'é'); CREATE TABLE hidden (id INT PRIMARY KEY)"
    )
    following = follower(unnamed, "unnamed", tables, "!unnamed._*")
    unnamed.execute(
        "USE unnamed; ALTER TABLE t ADD b TEXT FIRST, RENAME COLUMN s TO u; INSERT INTO t VALUES ('ж', 1, 'ü', 'x');"
        "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho ADD n SMALLINT UNSIGNED; INSERT INTO _t_gho (id) VALUES (9);"
        "INSERT INTO _t_gho SELECT *, NULL FROM t; DELETE FROM _t_gho WHERE id = 9;"
        "RENAME TABLE t TO _t_del, _t_gho TO t; UPDATE t SET n = 65535 WHERE id = 1;"
        "ALTER DATABASE unnamed CHARACTER SET latin1; CREATE TABLE v (s TEXT); INSERT INTO v VALUES ('ÿ')"
    )
    following.run()
    assert rows(following, "unnamed.t") == [
        {"b": "ж", "id": 1, "u": "ü", "e": "x", "n": 65535}, {"b": None, "id": 4294967295, "u": "é", "e": "é", "n": None},
    ]  # fmt: skip
    assert rows(following, "unnamed.v") == [{"s": "ÿ"}]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=needs_kernel)])
def test_a_table_is_created_with_its_rows(unnamed: Database, monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    """MariaDB has an event between the two that it does not send, and its rows need the statement."""
    monkeypatch.setattr(reader, "is_available", lambda: kernel)
    database = f"made_{kernel}"
    following = follower(unnamed, database, "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY); INSERT INTO t VALUES (7)")
    unnamed.execute(
        f"USE {database}; CREATE TABLE u (id INT UNSIGNED PRIMARY KEY) SELECT id, 'é' AS v FROM t; INSERT INTO t VALUES (8)"
    )
    following.run()
    assert rows(following, f"{database}.u") == [{"id": 7, "v": "é"}]
    assert rows(following, f"{database}.t") == [{"id": 7}, {"id": 8}]


@pytest.mark.slow
def test_tables_that_the_server_cannot_open(unnamed: Database) -> None:
    """A pipeline needs none that is not captured, and names one that is."""
    united = "CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MyISAM; CREATE TABLE m (id INT) ENGINE=MERGE UNION=(a); DROP TABLE a"
    unnamed.execute(f"CREATE DATABASE broken; USE broken; CREATE TABLE t (id INT UNSIGNED PRIMARY KEY); {united}")
    following = Follower(unnamed, ["broken.t"], Random(0))
    following.run()
    unnamed.execute("INSERT INTO broken.t VALUES (4000000000)")
    following.run()
    assert rows(following, "broken.t") == [{"id": 4000000000}]
    with pytest.raises(SourceError, match=r"^the server cannot open broken\.m \(.*leave it out of source\.tables$"):
        Follower(unnamed, ["broken.*"], Random(0)).run()


@pytest.mark.slow
def test_a_change_that_was_kept_from_the_log_stops_the_run(unnamed: Database) -> None:
    following = follower(unnamed, "kept", "CREATE TABLE t (id INT PRIMARY KEY)")
    unnamed.execute(
        "USE kept; SET sql_log_bin = 0; ALTER TABLE t ADD n INT; SET sql_log_bin = 1; INSERT INTO t VALUES (1, 2)"
    )
    with pytest.raises(UnsupportedError, match=r"the log does not describe the columns of kept\.t"):
        following.run()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["snapshot", "recovery"])
def test_after_a_change_that_was_kept_from_the_log_a_table_is_copied_again(unnamed: Database, way: str) -> None:
    """The statement behind it is in the log: its table is read on as it is."""
    database = f"kept_{way}"
    tables = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (0); CREATE TABLE u (id INT PRIMARY KEY)"
    following = follower(unnamed, database, tables)
    unnamed.execute(
        f"USE {database}; INSERT INTO u VALUES (1); ALTER TABLE u ADD n INT; INSERT INTO u VALUES (2, 3);"
        "SET sql_log_bin = 0; ALTER TABLE t ADD n INT DEFAULT 7; SET sql_log_bin = 1; INSERT INTO t VALUES (1, 2)"
    )
    with pytest.raises(UnsupportedError, match=rf"copy the table again .*{database}\.t"):
        following.run()
    if way == "snapshot":
        copy_requests.add(following.requests, CopyRequest(((database, "t"),)))
    else:
        following.options["snapshot.mode"] = ["recovery"]
    following.run()
    unnamed.execute(f"USE {database}; DELETE FROM t WHERE id = 0; INSERT INTO t VALUES (4, 5)")
    state = following.run()
    assert rows(following, f"{database}.t") == [{"id": 1, "n": 2}, {"id": 4, "n": 5}]
    assert rows(following, f"{database}.u") == [{"id": 1, "n": None}, {"id": 2, "n": 3}]
    assert state.source is not None
    with closing(open_changes(section(unnamed, tables=following.tables, **{"snapshot.mode": "recovery"}))) as source:
        assert source.copies_at_start(state.source) == ()


@pytest.mark.slow
def test_no_cut_lacks_rows_that_are_passed_over(unnamed: Database) -> None:
    """Runs are killed anywhere, and the part of the log up to the copy is read in many batches."""
    random = Random()
    unnamed.execute(
        "DROP DATABASE IF EXISTS cuts; CREATE DATABASE cuts; USE cuts; CREATE TABLE t (id INT PRIMARY KEY, a INT);"
        f"CREATE TABLE u LIKE t; INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(40))}"
    )
    following = Follower(unnamed, ["cuts.*"], random)
    begun = following.run().barrier
    assert begun is not None
    unnamed.execute(
        "USE cuts; SET sql_log_bin = 0; ALTER TABLE t ADD n INT DEFAULT 7; SET sql_log_bin = 1;"
        + "".join(
            f"INSERT INTO t VALUES ({n}, 0, {n}); INSERT INTO u VALUES ({n}, 0); UPDATE t SET a = {n};"
            for n in range(40, 60)
        )
    )
    following.options = {
        "snapshot.mode": ["recovery"], "max-bytes-per-batch": [1000], "max-records-per-batch": [5], "chunk-rows": [5],
    }  # fmt: skip
    for _ in range(100):
        try:
            following.run(kill=0.2)
            break
        except Killed:
            continue
    for state in following.storage.published():
        if state.barrier is None or state.barrier < begun:
            continue
        table = state.tables["cuts.t"]
        count = len(following.storage.tables.rows(table.path, table.version if table.version is not None else -1))
        assert count == (40 if state.barrier == begun else 60), (count, state.barrier, begun)
    assert {(row["a"], row["n"]) for row in rows(following, "cuts.t")} == {(59, 7), *((59, n) for n in range(40, 60))}


@pytest.mark.slow
def test_a_new_pipeline_has_nothing_to_recover(unnamed: Database) -> None:
    following = Follower(unnamed, ["new.*"], Random(0), {"snapshot.mode": ["recovery"]})
    with pytest.raises(ConfigError, match="this one has not: set it to `initial`"):
        following.run()


@pytest.mark.slow
def test_from_an_earlier_position(unnamed: Database) -> None:
    unnamed.execute("CREATE DATABASE past; USE past; CREATE TABLE kept (id INT PRIMARY KEY); FLUSH LOGS")
    start = f"{unnamed.binlogs()[-1].name}:4"
    unnamed.execute(
        "USE past; INSERT INTO kept VALUES (1); CREATE TABLE made (x TINYINT PRIMARY KEY); INSERT INTO made VALUES (2)"
    )
    options = {"snapshot.mode": ["no_data"], "starting-position": [start]}
    following = Follower(unnamed, ["past.*"], Random(0), options)
    following.run()
    assert (rows(following, "past.kept"), rows(following, "past.made")) == ([{"id": 1}], [{"x": 2}])
