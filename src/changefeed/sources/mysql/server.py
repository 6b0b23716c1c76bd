"""A server as the source sees it: its kind, the position of its log, and the settings that the source needs.

Every question is one statement; `Server` keeps the connection on which they are asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import AccessError, ConfigError, SourceError
from changefeed.sources.mysql.connection import Address, connect, grants, rows, texts, translated
from changefeed.sources.mysql.source_offset import LogPosition

if TYPE_CHECKING:
    from pymysql.connections import Connection

_OLDEST = {"mysql": (8, 0, 1), "mariadb": (10, 5)}  # whose table maps can name their columns
_LOCK_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Requirement:
    """A setting that the source needs.

    Attributes:
        name: the server's variable, or a right.
        value: what the server has.
        needed: the value that it must have.
        fix: the statement or the line of the configuration that puts it right.
    """

    name: str
    value: str
    needed: str
    fix: str

    def __str__(self) -> str:
        return f"{self.name} is {self.value}, and must be {self.needed}: {self.fix}"


@dataclass(slots=True)
class Server:
    """A connection to a server, and what does not change while it lasts.

    Attributes:
        version: such as `8.0.33` or `10.11.19-MariaDB-log`.
        identity: the server's UUID; of MariaDB, which has none, its server id.
    """

    address: Address
    connection: Connection[Any]
    version: str
    identity: str

    @classmethod
    def open(cls, address: Address, *, seconds: float = 10) -> Server:
        """Connects to a server.

        Raises:
            ConfigError: the server is older than the source supports.
            AccessError, SourceError: see `connect`.
        """
        connection = connect(address, seconds=seconds)
        with translated(address):
            [(version,)] = texts(connection, "SELECT VERSION()")
            variable = "server_id" if "MariaDB" in version else "server_uuid"
            [(identity,)] = texts(connection, f"SELECT @@GLOBAL.{variable}")
        server = cls(address, connection, version, identity)
        numbers = tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())
        if numbers < _OLDEST[server.kind]:
            raise ConfigError(
                f"{address} is {version}: the source mysql needs MySQL 8.0.1 or MariaDB 10.5, or a later one"
            )
        return server

    @property
    def kind(self) -> str:
        """`mysql` or `mariadb`."""
        return "mariadb" if "MariaDB" in self.version else "mysql"

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[bytes | None, ...]]:
        """Returns the rows of a query, as bytes."""
        with translated(self.address):
            return rows(self.connection, sql, values)

    def texts(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[str, ...]]:
        """Returns the rows of a query, as texts."""
        with translated(self.address):
            return texts(self.connection, sql, values)

    def end(self) -> LogPosition:
        """Returns the end of the log.

        Raises:
            ConfigError: the server writes no log.
            AccessError: the user may not ask for it.
        """
        statement = "SHOW BINARY LOG STATUS" if self._says_binary_log else "SHOW MASTER STATUS"
        status = self.texts(statement)
        if not status:
            raise ConfigError(f"{self.address} writes no binary log: start it with log_bin, see docs/guides/mysql.md")
        return LogPosition(status[0][0], int(status[0][1]))

    @property
    def _says_binary_log(self) -> bool:
        return self.kind == "mysql" and tuple(map(int, self.version.split(".")[:2])) >= (8, 4)

    def files(self) -> list[tuple[str, int]]:
        """Returns the files of the log that the server still has, oldest first, with their sizes in bytes."""
        return [(row[0], int(row[1])) for row in self.texts("SHOW BINARY LOGS")]

    def check_has(self, identity: str, at: LogPosition) -> None:
        """Checks that the log still has what follows a position of it.

        Raises:
            SourceError: it has not, or this is the log of another server.
        """
        if identity != self.identity:
            raise SourceError(
                f"{self.address} is another server than before ({self.identity} for {identity}): positions in its log have no "
                "order relative to earlier ones. Name the earlier server, or start a new pipeline with a first copy"
            )
        sizes = dict(self.files())
        if at.file not in sizes:
            kept = f"it has {next(iter(sizes))} to {next(reversed(sizes))}" if sizes else "it has none"
            raise SourceError(
                f"{self.address} no longer has {at.file} of its binary log, which comes next: {kept}. Start a new pipeline "
                "with a first copy, and let the server keep its log longer: binlog_expire_logs_seconds"
            )
        if at.position > sizes[at.file]:
            raise SourceError(
                f"{self.address} has only {sizes[at.file]} bytes of {at.file}, and {at.position} were read: its log was reset, "
                "or lost its end in a crash. Start a new pipeline with a first copy"
            )

    def committed(self) -> LogPosition:
        """Returns a position of which every transaction before it is committed: a query that begins now sees all of them.

        A transaction is in the log a moment before it can be seen. MariaDB has the position that belongs to a consistent
        view; MySQL's is read while a lock lets no transaction commit.

        Raises:
            AccessError: MySQL alone: the user may not lock.
            SourceError: a long query keeps the lock from being taken.
        """
        if self.kind == "mariadb":
            self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            status = {name.lower(): value for name, value in self.texts("SHOW STATUS LIKE 'binlog_snapshot_%'")}
            self.rows("COMMIT")
            if not status.get("binlog_snapshot_file"):
                return self.end()
            return LogPosition(status["binlog_snapshot_file"], int(status["binlog_snapshot_position"]))
        with self._locked():
            return self.end()

    def begin_view(self) -> LogPosition:
        """Begins a consistent view of all tables on this connection; returns the position in the log that belongs to it.

        Raises:
            AccessError, SourceError: as `committed`.
        """
        begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
        if self.kind == "mariadb":
            self.rows(begin)
            status = {name.lower(): value for name, value in self.texts("SHOW STATUS LIKE 'binlog_snapshot_%'")}
            if not status.get("binlog_snapshot_file"):
                return self.end()
            return LogPosition(status["binlog_snapshot_file"], int(status["binlog_snapshot_position"]))
        with self._locked():
            self.rows(begin)
            return self.end()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        try:
            self.rows("FLUSH TABLES WITH READ LOCK")
        except AccessError as error:
            raise AccessError(
                f"{self.address}: the first copy needs the right RELOAD, to lock for a moment. {grants(self.address.user)}"
            ) from error
        try:
            yield
        finally:
            self.rows("UNLOCK TABLES")

    def requirements(self) -> list[Requirement]:
        """Returns the settings that are not as the source needs them."""
        names = ("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata")
        statement = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(map(repr, names))})"
        values = {name: value for name, value in self.texts(statement)}  # noqa: C416  # of tuples of any length
        needed = {
            "log_bin": ("ON", "start the server with log_bin=binlog and server_id=1 in its configuration"),
            "binlog_format": ("ROW", "SET GLOBAL binlog_format = ROW, which applies to new connections"),
            "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = FULL, which applies to new connections"),
            "binlog_row_metadata": ("FULL", "SET GLOBAL binlog_row_metadata = FULL"),
        }
        return [
            Requirement(name, values.get(name) or "not set", value, fix)
            for name, (value, fix) in needed.items()
            if values.get(name, "").upper() != value
        ]

    def missing_rights(self, *, copies: bool) -> list[Requirement]:
        """Returns the rights that the user lacks; none if it has roles, whose rights the server does not list.

        Args:
            copies: whether the source makes a first copy.
        """
        grants_of_user = [line for (line,) in self.texts("SHOW GRANTS")]
        [(user,)] = self.texts("SELECT CURRENT_USER()")
        if any(" ON " not in line for line in grants_of_user):
            return []
        globally = [line.partition(" ON ") for line in grants_of_user if " ON *.* " in line]
        rights = {right.strip() for line, _, _ in globally for right in line.removeprefix("GRANT ").split(",")}
        if "ALL PRIVILEGES" in rights:
            return []
        needed = [("REPLICATION SLAVE", ()), ("REPLICATION CLIENT", ("BINLOG MONITOR",))]
        needed += [("RELOAD", ("FLUSH_TABLES",))] if copies and self.kind == "mysql" else []
        account = "@".join(f"'{part}'" for part in user.rsplit("@", 1))
        return [
            Requirement(f"the right {right}", "missing", "granted", f"GRANT {right} ON *.* TO {account}")
            for right, others in needed
            if not rights.intersection({right, *others})
        ]

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()
