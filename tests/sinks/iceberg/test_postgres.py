"""A catalog in PostgreSQL: who may write, and a server that goes away."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from changefeed.errors import AccessError, SinkError
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import Load, Upsert
from changefeed.storage.local import LocalFolder
from tests.services.postgres import Postgres
from tests.services.processes import free_ports
from tests.sinks.iceberg.tables import PATH, Tables

ONE = {"id": 1, "note": "one"}


@pytest.fixture
def database(postgres: Postgres) -> str:
    name = f"t{uuid.uuid4().hex}"
    postgres.execute(f"CREATE DATABASE {name}")
    return name


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def sink(tables: Tables, uri: str) -> IcebergTables:
    folder, properties = LocalFolder(str(tables.root)), {"type": "sql", "uri": uri}
    return IcebergTables(
        TableCatalog("test", properties, "{database}", folder, f"file://{folder.path}"), (), None, "me"
    )


def test_a_wrong_password_is_named_and_not_shown(postgres: Postgres, database: str, tables: Tables) -> None:
    with pytest.raises(AccessError) as caught:
        sink(tables, postgres.uri(database, password="falsch")).snapshot(PATH)
    text = str(caught.value)
    assert text.startswith("catalog test refuses this user: ")
    assert 'password authentication failed for user "changefeed"' in text
    assert "falsch" not in text


def test_a_user_who_may_only_read_is_refused_at_the_write(postgres: Postgres, database: str, tables: Tables) -> None:
    tables.write(sink(tables, postgres.uri(database)), Load, ONE)
    user = f"u{uuid.uuid4().hex}"
    postgres.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'geheim'")
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}", database)
    reader = sink(tables, postgres.uri(database, user))
    assert reader.snapshot(PATH) is not None
    with pytest.raises(AccessError, match="permission denied for table iceberg_tables"):
        tables.write(reader, Upsert, ONE)


def test_a_server_that_is_down_is_named_with_the_fix(postgres: Postgres, database: str, tables: Tables) -> None:
    port = free_ports(1)[0]
    uri = f"postgresql+psycopg://changefeed:{postgres.password}@127.0.0.1:{port}/{database}"
    with pytest.raises(SinkError) as caught:
        sink(tables, uri).snapshot(PATH)
    assert caught.value.transient
    assert str(caught.value) == (
        f"catalog test at postgresql+psycopg://127.0.0.1:{port}/{database} does not answer: Connection refused. "
        "Is it running, and is uri in sink.catalog-properties right?"
    )


def test_connections_that_the_server_ends_are_opened_again(postgres: Postgres, database: str, tables: Tables) -> None:
    """A server that was started again, or a pooler in between, ends connections that were idle."""
    written = sink(tables, postgres.uri(database))
    tables.write(written, Load, ONE)
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    tables.write(written, Upsert, {"id": 2, "note": "two"})
    there = written.snapshot(PATH)
    assert there is not None
    assert written.distance(PATH, -1, there.revision) == 2
