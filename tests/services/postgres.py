"""A PostgreSQL server on loopback, from the system's packages; it is not run as root.

with Postgres() as server:
    catalog = load_catalog("lake", type="sql", uri=server.uri("catalog"))
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg

from tests.services.processes import free_ports, stop, tail

_PATIENCE = 60.0
_FOLDERS = "/usr/lib/postgresql"  # Debian's, one for each version
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def programs() -> Path | None:
    """The folder with `postgres` and `initdb`; None if the server is not installed."""
    newest = sorted(Path(_FOLDERS).glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if newest:
        return newest[-1].parent
    program = shutil.which("postgres")
    return Path(program).resolve().parent if program else None


class Postgres:
    """The server, in a folder of its own that goes with it. Its user `changefeed` has a password.

    Attributes:
        password: the password.
    """

    password = "geheim"

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Postgres:
        bin_ = programs()
        if bin_ is None:
            raise RuntimeError("PostgreSQL is not installed: apt-get install postgresql")
        # Below the system's folder: another user cannot reach a folder of pytest.
        self._folder = Path(tempfile.mkdtemp(prefix="changefeed-postgres-"))
        self._log = self._folder / "server.log"
        try:
            secret = self._folder / "password"
            secret.write_text(self.password)
            self._user = pwd.getpwnam("nobody").pw_name if os.geteuid() == 0 else None
            if self._user is not None:
                for path in (self._folder, secret):
                    shutil.chown(path, self._user)
            data = self._folder / "data"
            command = [str(bin_ / "initdb"), "-D", str(data), "-U", "changefeed", "-A", "scram-sha-256", "--no-sync"]
            subprocess.run(
                [*command, f"--pwfile={secret}"], user=self._user, cwd=self._folder, check=True, capture_output=True
            )
            self._start([str(bin_ / "postgres"), "-D", str(data)])
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # SIGTERM, which `stop` sends, waits for the clients
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=20)
            stop(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def uri(self, database: str = "postgres", user: str = "changefeed", password: str | None = None) -> str:
        """The URI of a database, for SQLAlchemy."""
        return f"postgresql+psycopg://{user}:{password or self.password}@127.0.0.1:{self._port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Runs a statement outside of transactions."""
        place = f"host=127.0.0.1 port={self._port} user=changefeed password={self.password} dbname={database}"
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _start(self, command: list[str]) -> None:
        settings = [f"port={self._port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", *_FAST]
        command += [part for setting in settings for part in ("-c", setting)]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=self._user, cwd=self._folder
            )
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"PostgreSQL did not start:\n{tail(self._log.read_text())}") from None
                time.sleep(0.05)
