"""A server as the source sees it: its kind, the position of its log, and the settings that the source needs.

Every question is one statement; `Server` keeps the connection on which they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from changefeed.errors import AccessError, ConfigError, SourceError
from changefeed.mysql.gtid_set import MariaDbGtids, parse
from changefeed.sources.mysql.connection import (
    KEEP_LONGER,
    Address,
    LostLogError,
    code_of,
    connect,
    rows,
    texts,
    translated,
)
from changefeed.sources.mysql.source_offset import LogPosition

if TYPE_CHECKING:
    from pymysql.connections import Connection

_OLDEST = {"mysql": (8, 0, 1), "mariadb": (10, 5)}  # whose table maps can name their columns
_LOCK_SECONDS = 10
_FORBIDDEN_BY_OPTION = 1290  # by an option of the server, such as those of managed ones


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


class LockRefusedError(AccessError):
    """The server does not let the user lock all its tables at once: see `table_locks.py`. It stays inside of the source."""


class AnotherServerError(SourceError):
    """Another server answers than before: worth another try, which asks it where to continue."""

    def __init__(self, address: Address, identity: str, before: str) -> None:
        super().__init__(f"{address} is another server than before ({identity} for {before})", transient=True)


def identity_of(connection: Connection[Any]) -> tuple[str, str]:
    """Returns a server's version and its identity: MySQL's UUID; MariaDB's server id, from 10.11.9 on with its `server_uid`."""
    names = "'version', 'server_uuid', 'server_uid', 'server_id'"
    shown = texts(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    values = {name: value for name, value in shown}  # noqa: C416  # of tuples of any length
    own = [values["server_id"], *([values["server_uid"]] if "server_uid" in values else [])]
    return values["version"], values.get("server_uuid") or "-".join(own)


def check_identity(address: Address, connection: Connection[Any], identity: str) -> None:
    """Checks that a connection leads to a certain server.

    Raises:
        AnotherServerError: it leads to another one.
    """
    _, answering = identity_of(connection)
    if answering != identity:
        raise AnotherServerError(address, answering, identity)


@dataclass(slots=True)
class Server:
    """A connection to a server, and what does not change while it lasts.

    Attributes:
        version: such as `8.0.33` or `10.11.19-MariaDB-log`.
        identity: see `identity_of`.
    """

    address: Address
    connection: Connection[Any]
    version: str
    identity: str
    _names_rule: int | None = field(default=None, init=False, repr=False)

    @classmethod
    def open(cls, address: Address, *, seconds: float = 10) -> Server:
        """Connects to a server.

        Raises:
            ConfigError: the server is older than the source supports.
            AccessError, SourceError: see `connect`.
        """
        connection = connect(address, seconds=seconds)
        with translated(address):
            version, identity = identity_of(connection)
        server = cls(address, connection, version, identity)
        if server.release < _OLDEST[server.kind]:
            raise ConfigError(
                f"{address} is {version}: the source mysql needs MySQL 8.0.1 or MariaDB 10.5, or a later one"
            )
        return server

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers of its version, such as 10, 11 and 19."""
        return tuple(int(part) for part in self.version.partition("-")[0].split(".") if part.isdigit())

    @property
    def kind(self) -> str:
        """`mysql` or `mariadb`."""
        return "mariadb" if "MariaDB" in self.version else "mysql"

    @property
    def lower_case_table_names(self) -> int:
        """The rule by which names of tables and databases are compared: 0 by their spelling, 1 and 2 without case."""
        if self._names_rule is None:
            [(rule,)] = self.texts("SELECT @@lower_case_table_names")
            self._names_rule = int(rule)
        return self._names_rule

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
        return self.end_with_gtids()[0]

    def end_with_gtids(self) -> tuple[LogPosition, str | None]:
        """Returns the end of the log, and the GTIDs of all transactions before it, None without GTIDs. Errors as of `end`."""
        status = self.texts(self._status)
        if not status:
            raise ConfigError(f"{self.address} writes no binary log: start it with log_bin, see docs/guides/mysql.md")
        at = LogPosition(status[0][0], int(status[0][1]))
        if self.kind == "mariadb":
            return at, self.gtids_at(at)
        return at, status[0][4].replace("\n", "") if self._has_gtids else None

    @property
    def _status(self) -> str:
        """The statement that asks for the end of the log."""
        return "SHOW BINARY LOG STATUS" if self._says_binary_log else "SHOW MASTER STATUS"

    @property
    def _has_gtids(self) -> bool:
        return self.texts("SELECT @@GLOBAL.gtid_mode") == [("ON",)]

    def gtids_at(self, at: LogPosition) -> str | None:
        """Returns the GTIDs of all transactions before a position; None if the server cannot tell."""
        if self.kind == "mysql":
            return None
        [(gtids,)] = self.rows("SELECT BINLOG_GTID_POS(%s, %s)", (at.file, str(at.position)))
        return None if gtids is None else gtids.decode()

    def lacks(self, gtids: str) -> str:
        """Returns those of these GTIDs that the server has not executed; empty if it has them all."""
        if self.kind == "mysql":
            [(lacking,)] = self.texts("SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", (gtids,))
            return lacking.replace("\n", "")
        [(executed,)] = self.texts(
            "SELECT CONCAT_WS(',', NULLIF(@@gtid_binlog_pos, ''), NULLIF(@@gtid_current_pos, ''))"
        )
        has, wanted = parse(executed), parse(gtids)
        if not isinstance(wanted, MariaDbGtids):
            return gtids
        of_domain = has.last if isinstance(has, MariaDbGtids) else {}
        return str(MariaDbGtids({
            domain: last for domain, last in wanted.last.items() if of_domain.get(domain, (0, 0))[1] < last[1]
        }))  # fmt: skip

    @property
    def _says_binary_log(self) -> bool:
        return self.kind == "mysql" and self.release >= (8, 4)

    def files(self) -> list[tuple[str, int]]:
        """Returns the files of the log that the server still has, oldest first, with their sizes in bytes."""
        return [(row[0], int(row[1])) for row in self.texts("SHOW BINARY LOGS")]

    def check_has(self, at: LogPosition) -> None:
        """Checks that the log still has what follows a position of it.

        Raises:
            LostLogError: it has not.
        """
        sizes = dict(self.files())
        if at.file not in sizes:
            kept = f"it has {next(iter(sizes))} to {next(reversed(sizes))}" if sizes else "it has none"
            raise LostLogError(
                f"{self.address} no longer has {at.file} of its binary log, which comes next: {kept}", KEEP_LONGER
            )
        if at.position > sizes[at.file]:
            raise LostLogError(
                f"{self.address} has only {sizes[at.file]} bytes of {at.file}, and {at.position} were read: its log was reset, "
                "or lost its end in a crash"
            )

    def committed(self) -> tuple[LogPosition, str | None]:
        """Returns a position of which every transaction before it is committed: a query that begins now sees all of them.

        Also returns the GTIDs of these transactions; None without GTIDs.

        A transaction is in the log a moment before it can be seen. MariaDB has the position that belongs to a consistent
        view; MySQL's is read while a lock lets no transaction commit.

        Raises:
            LockRefusedError: MySQL alone: the user may not lock.
            SourceError: a long query keeps the lock from being taken.
        """
        if self.kind == "mariadb":
            view = self.begin_view()
            self.rows("COMMIT")
            return view
        with self._locked():
            return self.end_with_gtids()

    def begin_view(self) -> tuple[LogPosition, str | None]:
        """Begins a consistent view of all tables on this connection; returns the position in the log that belongs to it.

        Also returns the GTIDs of all transactions before it; None without GTIDs.

        Raises:
            LockRefusedError, SourceError: as `committed`.
        """
        begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
        if self.kind == "mariadb":
            self.rows(begin)
            status = {name.lower(): value for name, value in self.texts("SHOW STATUS LIKE 'binlog_snapshot_%'")}
            if not status.get("binlog_snapshot_file"):
                return self.end_with_gtids()
            at = LogPosition(status["binlog_snapshot_file"], int(status["binlog_snapshot_position"]))
            return at, self.gtids_at(at)
        with self._locked():
            self.rows(begin)
            return self.end_with_gtids()

    def begin_view_of(self, table: str) -> LogPosition:
        """Begins a consistent view on this connection; returns the position in the log that belongs to it for one table.

        Every change of the table before the position is in the view, and none after it. On MySQL, a lock keeps others from
        writing the table while the view begins.

        Args:
            table: the quoted name of the table.

        Raises:
            AccessError: MySQL alone: the user may not lock the table.
            GoneError: the table does not exist any more.
            SourceError: a transaction that has written the table keeps the lock from being taken.
        """
        if self.kind == "mariadb":
            return self.begin_view()[0]
        with closing(Server.open(self.address)) as locking:
            check_identity(self.address, locking.connection, self.identity)
            locking.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
            try:
                locking.rows(f"LOCK TABLES {table} READ")
            except AccessError as error:
                raise AccessError(
                    f"{self.address}: {table} has no key, and its copy needs the right LOCK TABLES, to lock it for a moment: "
                    f"GRANT LOCK TABLES ON *.* TO '{self.address.user}'@'%'"
                ) from error
            self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return self.end()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        try:
            self.rows("FLUSH TABLES WITH READ LOCK")
        except (AccessError, SourceError) as error:
            if isinstance(error, SourceError) and code_of(error) != _FORBIDDEN_BY_OPTION:
                raise
            raise LockRefusedError(f"{self.address} refuses FLUSH TABLES WITH READ LOCK") from error
        try:
            yield
        finally:
            self.rows("UNLOCK TABLES")

    def _is_replica(self) -> bool | None:
        """Whether it is a replica; None if it may be one and the user may not ask, as MariaDB's without SLAVE MONITOR."""
        try:
            return bool(self.rows("SHOW ALL SLAVES STATUS" if self.kind == "mariadb" else "SHOW REPLICA STATUS"))
        except AccessError:
            if self.kind == "mariadb" and not self.texts("SELECT @@gtid_slave_pos")[0][0]:
                return False
            return None

    @property
    def may_lack_replicated_changes(self) -> bool:
        """Whether it may be a replica whose log lacks the changes of its primary."""
        values = self._variables("log_slave_updates")
        return values.get("log_slave_updates", "").upper() == "OFF" and self._is_replica() is None

    @property
    def unlogged_databases(self) -> Callable[[str], str | None]:
        """Returns a function from a database to the option that keeps it from the log, such as `binlog_do_db=crm`; None: none.

        A user who may not ask for the options also lacks a right that `missing_rights` names.
        """
        try:
            status = self.texts(self._status)
        except AccessError:
            status = []
        logged, ignored = status[0][2:4] if status else ("", "")

        def option(database: str) -> str | None:
            if logged:
                return None if database in logged.split(",") else f"binlog_do_db={logged}"
            return f"binlog_ignore_db={ignored}" if database in ignored.split(",") else None

        return option

    @property
    def names_columns(self) -> bool:
        """Whether the table maps of its log name their columns from now on."""
        return self._variables("binlog_row_metadata").get("binlog_row_metadata", "").upper() == "FULL"

    def _variables(self, *names: str) -> dict[str, str]:
        """Global variables; without those that the server does not have."""
        statement = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(map(repr, names))})"
        return {name: value for name, value in self.texts(statement)}  # noqa: C416  # of tuples of any length

    def requirements(self) -> list[Requirement]:
        """Returns the settings that are not as the source needs them."""
        values = self._variables("log_bin", "binlog_format", "binlog_row_image", "log_slave_updates")
        needed = {
            "log_bin": ("ON", "start the server with log_bin=binlog and server_id=1 in its configuration"),
            "binlog_format": ("ROW", "SET GLOBAL binlog_format = ROW, which applies to new connections"),
            "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = FULL, which applies to new connections"),
        }
        if values.get("log_slave_updates", "").upper() == "OFF" and self._is_replica():
            fix = "its log lacks the changes of its primary; set log_slave_updates=ON in its configuration, or read the primary"
            needed["log_slave_updates"] = ("ON", fix)
        return [
            Requirement(name, values.get(name) or "not set", value, fix)
            for name, (value, fix) in needed.items()
            if values.get(name, "").upper() != value
        ]

    def check_settings(self) -> None:
        """Checks that all settings are as the source needs them.

        Raises:
            ConfigError: some are not; it has the statements that put them right.
        """
        if wrong := self.requirements():
            raise ConfigError(f"{self.address} is not set up for capture: {'; '.join(map(str, wrong))}")

    def missing_rights(self, *, copies: bool, locks: Callable[[], bool]) -> list[Requirement]:
        """Returns the rights that the user lacks; none if it has roles, whose rights the server does not list.

        Args:
            copies: whether the source makes a first copy.
            locks: returns whether it copies tables without a key, too; called only if the answer matters.
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
        may_lock = any("LOCK TABLES" in line or "ALL PRIVILEGES" in line for line in grants_of_user)
        if copies and self.kind == "mysql" and not may_lock:  # a right of databases, too
            if locks():
                needed.append(("LOCK TABLES", ()))
            else:
                needed.append(("LOCK TABLES or RELOAD", ("RELOAD", "FLUSH_TABLES")))
        account = "@".join(f"'{part}'" for part in user.rsplit("@", 1))
        return [
            Requirement(f"the right {right}", "missing", "granted", _granting(right, account))
            for right, others in needed
            if not rights.intersection({right, *others})
        ]

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


def _granting(rights: str, account: str) -> str:
    """The statements that grant one of these rights."""
    return ", or ".join(f"GRANT {right} ON *.* TO {account}" for right in rights.split(" or "))
