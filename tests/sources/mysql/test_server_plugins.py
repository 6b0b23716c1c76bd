"""Servers with plugins: users of ed25519 and PAM, and encrypted binary logs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from changefeed.errors import AccessError
from changefeed.sources.mysql import reader
from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.server import Server
from tests.services import debian_suite
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.histories import follow
from tests.sources.mysql.kernel import needs_kernel

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    package = debian_suite.beside("mariadb-server", "mariadb-server-core")
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"1;{bytes(range(32)).hex()}\n")
    with MariaDb(
        f"--plugin-dir={package}/usr/lib/mysql/plugin", "--plugin-load-add=auth_ed25519;auth_pam;file_key_management",
        f"--file-key-management-filename={keys}", "--encrypt-binlog=ON", "--max-binlog-size=16384",
    ) as server:  # fmt: skip
        yield server


def test_a_user_of_ed25519(mariadb: Database) -> None:
    mariadb.execute("CREATE USER edward@'%' IDENTIFIED VIA ed25519 USING PASSWORD('sésame')")
    server = Server.open(Address("127.0.0.1", mariadb.port, "edward", "sésame"))
    assert server.texts("SELECT CURRENT_USER()") == [("edward@%",)]
    server.close()
    with pytest.raises(AccessError, match="refuses the user edward"):
        Server.open(Address("127.0.0.1", mariadb.port, "edward", "wrong"))


def test_a_user_of_pam_is_refused_with_the_way_out(mariadb: Database) -> None:
    mariadb.execute("CREATE USER pamela@'%' IDENTIFIED VIA pam")
    with pytest.raises(AccessError, match=r"by a plugin that PyMySQL cannot answer \(dialog\)\. Name another user"):
        Server.open(Address("127.0.0.1", mariadb.port, "pamela", "secret"))


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=needs_kernel)])
def test_an_encrypted_log_of_mariadb(mariadb: Database, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "is_available", lambda: kernel)
    _follow(mariadb)


def test_an_encrypted_log_of_mysql(tmp_path: Path) -> None:
    keyring = ("--early-plugin-load=keyring_file.so", f"--keyring-file-data={tmp_path}/keys")
    with MySql(*keyring, "--binlog-encryption=ON", "--max-binlog-size=16384") as mysql:
        _follow(mysql)


def _follow(database: Database) -> None:
    """Follows random histories on a server whose log is encrypted."""
    database.execute("CREATE DATABASE secret; DROP DATABASE secret")
    assert not any(b"secret" in log.read_bytes() for log in database.binlogs())
    follow(database, random.randrange(10**6), 10)
