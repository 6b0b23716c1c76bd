"""Connections to the server by PyMySQL, and its errors in one sentence with the fix.

A connection returns every value as the bytes that the server sent: `columns.py` reads them. Its session has the time zone UTC
and the character set utf8mb4.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from changefeed.errors import AccessError, ConfigError, MissingExtraError, SourceError

if TYPE_CHECKING:
    from pymysql.connections import Connection

Row = tuple[bytes | None, ...]

CONNECT_SECONDS = 10
_READ_SECONDS = 600  # for an answer of the server: a first copy may wait for a lock
# A connection that is idle, such as that of a view, finds within two minutes that its peer is gone, and no firewall takes
# it for unused. The names are those of Linux and Windows, and for the first one of macOS.
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
# wrong password, a plugin that refuses, a host that is not allowed, a locked account
_REFUSED = {1045, 1698, 1130, 3118}
_RIGHTS = {1044, 1142, 1143, 1227}
_PLUGIN = {2059, 2061}  # PyMySQL does not have the user's authentication plugin, or not all of it
_OF_LOG = 1236  # every error of the log has this number
_SAME_SERVER_ID = 4052  # but this one of MariaDB; MySQL may use the number otherwise
_GONE = {1049, 1054, 1146, 1412}  # unknown database or column, no such table, a definition newer than a query's view
# too many connections, a shutdown, a broken or killed connection, a timeout, a deadlock; those of the client from 2000 on
_LOST = 2013  # PyMySQL's own
_RECEIVED_BYTES = 2**18  # that are read at a time
_ERROR, _END, _END_SIZE = b"\xff", b"\xfe", 9  # how packets begin, and the size below which the second one is the end
_TRANSIENT = {0, 1040, 1053, 1105, 1158, 1159, 1160, 1161, 1205, 1213, 1317, 1927, 4031}
# Whatever the server's defaults are: rows of other transactions only after their commit, all rows of a query, and ten
# minutes for a task that is slow to take the next ones. MySQL refuses dates that no calendar has in conditions, too.
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_SETTINGS = (
    f"SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', sql_select_limit = {2**64 - 1}, "
    f"net_write_timeout = {_READ_SECONDS}"
)
_OWN_SETTINGS = {
    # generated primary keys are in the log, also where the server hides them
    "mysql": "SET SESSION max_execution_time = 0 /*!80030 , show_gipk_in_create_table_and_information_schema = ON */",
    "mariadb": "SET SESSION max_statement_time = 0",
}


class GoneError(SourceError):
    """A table or a column that was there before is gone: worth another try, which reads the definitions again."""


KEEP_LONGER = ". Let the server keep its log longer: binlog_expire_logs_seconds"


class LostLogError(SourceError):
    """The log does not have what comes next: only another copy of the tables can continue, see `snapshot.mode`."""

    def __init__(self, reason: str, also: str = "") -> None:
        super().__init__(
            f"{reason}. Set source.snapshot.mode to `when_needed`, which copies all tables again, or start a new pipeline{also}"
        )


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server, and the user; it is sent to Spark's workers.

    Attributes:
        ssl_mode, ssl_ca, ssl_cert, ssl_key: see `section.py`.
    """

    host: str
    port: int
    user: str
    password: str
    ssl_mode: str = "preferred"
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None

    def __repr__(self) -> str:
        return f"Address({self})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def connect(address: Address, *, seconds: float = CONNECT_SECONDS) -> Connection[Any]:
    """Opens a connection; each answer until it is open must come within `seconds`.

    Raises:
        MissingExtraError: PyMySQL is not installed.
        ConfigError: a file of the section's TLS options cannot be used.
        AccessError: the server refuses the user.
        SourceError: the server does not answer.
    """
    try:
        from pymysql.connections import Connection
    except ImportError as error:
        raise MissingExtraError("The source mysql", "mysql") from error

    class Preferring(Connection):  # type: ignore[misc]  # PyMySQL has no annotations
        """A connection that uses TLS if the server offers it, without loading the system's certificates."""

        def _create_ssl_ctx(self, options: Any) -> ssl.SSLContext | None:
            return context

    context = None if address.ssl_mode == "disabled" else _context(*_tls(address))
    preferred = address.ssl_mode == "preferred"
    tls: dict[str, Any] = {} if preferred else {"ssl_disabled": True} if context is None else {"ssl": context}
    with translated(address, connected=False):
        connection = (Preferring if preferred else Connection)(
            host=address.host, port=address.port, user=address.user, password=address.password.encode(),
            charset="utf8mb4", use_unicode=False, conv={}, autocommit=True, init_command=_SETTINGS,
            connect_timeout=seconds, read_timeout=seconds, write_timeout=_READ_SECONDS,
            program_name="changefeed", **tls,
        )  # fmt: skip
        _keep_alive(connection._sock)
        for statement in (_ISOLATION, _OWN_SETTINGS["mariadb" if is_mariadb(connection) else "mysql"]):
            rows(connection, statement)
        connection._read_timeout = _READ_SECONDS
        return connection


def _keep_alive(tcp: socket.socket) -> None:
    """Lets the system ask the peer of an idle connection whether it is there."""
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_mariadb(connection: Connection[Any]) -> bool:
    """Whether the server is MariaDB, by its greeting."""
    return "MariaDB" in connection.get_server_info()


def rows(connection: Connection[Any], sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """Returns the rows of a query; `values` are texts for its `%s`."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def texts(connection: Connection[Any], sql: str, values: Sequence[Any] = ()) -> list[tuple[str, ...]]:
    """Returns the rows of a query as texts; NULL is empty."""
    return [
        tuple("" if v is None else v.decode("utf-8", "replace") for v in row) for row in rows(connection, sql, values)
    ]


def received(connection: Connection[Any]) -> bytes:
    """Returns what the server sends next.

    Raises:
        pymysql.OperationalError: the connection is lost.
    """
    try:
        data = connection._rfile.read1(_RECEIVED_BYTES)
    except OSError as error:
        raise lost(f" ({error})") from error
    if not data:
        raise lost()
    return bytes(data)


def lost(reason: str = "") -> Exception:
    """PyMySQL's error for a connection that is lost."""
    from pymysql.err import OperationalError

    error: Exception = OperationalError(_LOST, f"Lost connection to MySQL server during query{reason}")
    return error


def check_end(payload: bytes, otherwise: str) -> None:
    """Checks that a packet is the end of rows or events.

    Args:
        payload: what the packet carries.
        otherwise: what it is if it is neither the end nor an error of the server.

    Raises:
        pymysql.MySQLError: the server reports an error.
        SourceError: `otherwise`.
    """
    from pymysql.err import raise_mysql_exception

    if payload[:1] == _ERROR:
        raise_mysql_exception(payload)
    if payload[:1] != _END or len(payload) >= _END_SIZE:
        raise SourceError(otherwise)


def _tls(address: Address) -> tuple[str, str | None, str | None, str | None]:
    return address.ssl_mode, address.ssl_ca, address.ssl_cert, address.ssl_key


@cache
def _context(mode: str, ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """A context; loading the system's certificates takes as long as a hundred queries, so it is kept.

    Raises:
        ConfigError: a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
    try:
        if ca is not None:
            context.load_verify_locations(ca)
        elif mode.startswith("verify"):
            context.load_default_certs()
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise ConfigError(f"source: the files of ssl-ca, ssl-cert and ssl-key cannot be used: {error}") from error
    return context


@contextmanager
def translated(address: Address, *, connected: bool = True) -> Iterator[None]:
    """Translates PyMySQL's errors; the server's error for a wrong password is also that for a missing right later.

    Raises:
        AccessError, SourceError: instead of each of them.
    """
    import pymysql

    try:
        yield
    except pymysql.MySQLError as error:
        raise _ours(address, error, connected=connected) from error
    except IndexError as error:  # PyMySQL, at the first question of the plugin `dialog`
        if connected:
            raise
        raise _other_plugin(address, "dialog") from error
    except RuntimeError as error:  # PyMySQL lacks a package for the user's authentication plugin
        if connected:
            raise
        raise MissingExtraError(f"The authentication of {address.user} at {address}", "mysql") from error


def code_of(error: Exception) -> int | None:
    """The number of the server's error that was translated; None if there is none."""
    code = error.__cause__.args[0] if error.__cause__ is not None and error.__cause__.args else None
    return code if isinstance(code, int) else None


def _ours(address: Address, error: Exception, *, connected: bool) -> Exception:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    message = str(error.args[1]) if len(error.args) > 1 else str(error)
    if code in _REFUSED and not connected:
        return AccessError(
            f"{address} refuses the user {address.user}: {message}. Correct user and password in the source"
        )
    if code in _PLUGIN:
        return _other_plugin(address, message)
    if code in _RIGHTS or code in _REFUSED:
        return AccessError(f"{message} at {address}. {grants(address.user)}")
    if code == _OF_LOG or (code == _SAME_SERVER_ID and "server_id" in message):
        return _of_log(address, message)
    if code in _GONE:
        return GoneError(f"{address}: {message}: a table was changed while it was read", transient=True)
    transient = code in _TRANSIENT or 2000 <= code < 3000
    return SourceError(f"{address}: {message}", transient=transient)


def _other_plugin(address: Address, message: str) -> AccessError:
    """The error of a user whose authentication plugin PyMySQL cannot answer."""
    return AccessError(
        f"{address} authenticates the user {address.user} by a plugin that PyMySQL cannot answer ({message}). Name another user "
        "in the source, with a password: CREATE USER … IDENTIFIED BY '…'"
    )


def grants(user: str) -> str:
    """A sentence with the statement that gives a user all rights that the source needs."""
    return (
        f"Let an administrator run: GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{user}'@'%'"
    )


def _of_log(address: Address, message: str) -> Exception:
    """The error of a server that does not send its log."""
    lower = message.lower()
    if "same server" in lower or "server_uuid" in lower or "server-id" in lower or "server_id" in lower:
        return SourceError(
            f"{address}: another replica has the same server id ({message}). Set source.server-id to a number that no replica "
            "uses",
            transient=True,
        )
    if "could not find" in lower or "purged" in lower or "impossible position" in lower or "not open" in lower:
        return LostLogError(
            f"{address} no longer has the part of its binary log that comes next ({message})", KEEP_LONGER
        )
    return SourceError(f"{address} does not send its binary log: {message}")
