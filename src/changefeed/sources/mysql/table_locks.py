"""Positions of MySQL's log that belong to queries, also where the user may not lock all tables of the server at once.

    FLUSH TABLES WITH READ LOCK     where the user may: no transaction commits while the position is read (`Server`)
    LOCK TABLES … READ              of the captured tables, where the server refuses that, as Amazon RDS and Aurora do

Rule 1. A transaction is in the log a moment before queries see its changes. It keeps the metadata lock of each table that it has
        written for longer than that; one that is prepared (XA) keeps it until it is committed or rolled back, also without
        its session, and after a restart. LOCK TABLES waits for these, and until it is released nobody writes the table.
Rule 2. `committed` needs a position of which all before it can be seen. It is read first. Then each table is locked and released,
        one after the other: by then, each transaction before the position has released the table. No lock is held while
        another one is waited for, so that the server rolls no transaction back because of a deadlock.
Rule 3. `begin_view` needs all tables locked at the same time, while the view begins and the position is read. A second connection
        has the locks: START TRANSACTION would release them. A table that is created or renamed just before has no lock, so
        the captured tables are listed again before the locks are released.
Rule 4. Transactions of other tables may be in the log before the position, and not yet among the GTIDs that the server has
        executed. They are taken from the log itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing

from changefeed.errors import AccessError, SourceError
from changefeed.mysql.gtid_set import parse
from changefeed.sources.mysql.connection import GoneError, code_of
from changefeed.sources.mysql.dump import GTIDS, dump_after
from changefeed.sources.mysql.failover import Executed
from changefeed.sources.mysql.server import LockRefusedError, Server, check_identity
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Name, listed, quoted

_log = logging.getLogger(__name__)
_SECONDS_OF_ONE = 60  # nobody waits for this connection meanwhile
_SECONDS_OF_ALL = 10  # writers of the tables that are locked already do
_TIMED_OUT = 1205
_TRIES = 5


def committed(server: Server, names: Sequence[Name]) -> tuple[LogPosition, str | None]:
    """Returns a position: a query of these tables that begins now sees every transaction before it. See `Server.committed`.

    Also returns the GTIDs of all transactions before it; None without GTIDs.

    Raises:
        AccessError: MySQL alone: the user may lock neither the server nor the tables.
        GoneError: a table does not exist any more.
        SourceError: a query or a transaction keeps a lock from being taken.
    """
    try:
        return server.committed()
    except LockRefusedError as error:
        _log.info(
            "%s: LOCK TABLES … READ locks each of %d captured tables for a moment, one after the other; writes to it wait",
            error, len(names),
        )  # fmt: skip
    at, executed = _end(server)
    for name in names:
        _lock(server, [name], _SECONDS_OF_ONE)
        server.rows("UNLOCK TABLES")
    return at, _gtids_before(server, at, executed)


def begin_view(server: Server, names: Callable[[Server], list[Name]]) -> tuple[LogPosition, str | None]:
    """Begins a consistent view on the server's connection; returns the position that belongs to it. See `Server.begin_view`.

    Where only tables can be locked, it belongs to the view of these tables: every change of them before the position is in the
    view, and none after it. Also returns the GTIDs of all transactions before it; None without GTIDs.

    Args:
        server: the server.
        names: returns the names of the tables at this moment, which it asks for on the connection that it is given.

    Raises:
        AccessError: MySQL alone: the user may lock neither the server nor the tables.
        SourceError: a query or a transaction keeps a lock from being taken, or tables are created or dropped at this moment.
    """
    try:
        return server.begin_view()
    except LockRefusedError as error:
        refusal = str(error)
    for _ in range(_TRIES):
        tables = names(server)
        _log.info(
            "%s: LOCK TABLES … READ locks all %d captured tables for a moment; writes to them wait",
            refusal,
            len(tables),
        )
        with closing(Server.open(server.address)) as locking:
            check_identity(server.address, locking.connection, server.identity)
            try:
                _lock(locking, tables, _SECONDS_OF_ALL)
            except GoneError:
                continue
            server.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            at, executed = _end(server)
            is_same = names(locking) == tables
            locking.rows("UNLOCK TABLES")
        if is_same:
            return at, _gtids_before(server, at, executed)
        server.rows("ROLLBACK")
    raise SourceError(
        f"{server.address}: tables are created or dropped again and again: start the run when that has ended",
        transient=True,
    )


def end(server: Server) -> tuple[LogPosition, str | None]:
    """Returns the end of the log, and the GTIDs of all transactions before it; None without GTIDs. Errors as of `Server.end`."""
    if server.kind == "mariadb":
        return server.end_with_gtids()
    at, executed = _end(server)
    return at, _gtids_before(server, at, executed)


def _lock(locking: Server, names: Sequence[Name], seconds: int) -> None:
    """Locks tables, so that nobody writes them.

    Args:
        locking: on its connection.
        names: of the tables.
        seconds: how long it waits for a table.

    Raises:
        AccessError: the user may not.
        GoneError: a table does not exist any more.
        SourceError: a transaction keeps the lock from being taken.
    """
    if not names:
        return
    tables = [".".join(map(quoted, name)) for name in names]
    locking.rows(f"SET SESSION lock_wait_timeout = {seconds}")
    try:
        locking.rows(f"LOCK TABLES {', '.join(f'{table} READ' for table in tables)}")
    except AccessError as error:
        reason = error.__cause__.args[1] if error.__cause__ is not None else error
        user = f"TO '{locking.address.user}'@'%'"
        raise AccessError(
            f"{locking.address}: to begin a copy, the server lets {locking.address.user} take neither FLUSH TABLES WITH READ "
            f"LOCK, which needs the right RELOAD, nor LOCK TABLES … READ of the captured tables ({reason}). Let an administrator "
            f"run: GRANT RELOAD ON *.* {user}; or, where the server refuses the first lock to every user, as Amazon RDS and "
            f"Aurora do: GRANT SELECT, LOCK TABLES ON *.* {user}"
        ) from error
    except SourceError as error:
        if code_of(error) != _TIMED_OUT:
            raise
        raise SourceError(
            f"{locking.address}: no lock of {listed(names)} after {seconds} s: a transaction that has written a table is open "
            "(XA RECOVER lists those that are prepared), or a schema change is running",
            transient=True,
        ) from error


def _end(server: Server) -> tuple[LogPosition, str | None]:
    """Returns the end of the log, and the GTIDs that had been executed just before; None without GTIDs."""
    [(executed,)] = server.texts("SELECT @@GLOBAL.gtid_executed")
    at, gtids = server.end_with_gtids()
    return at, None if gtids is None else executed.replace("\n", "")


def _gtids_before(server: Server, at: LogPosition, executed: str | None) -> str | None:
    """Returns the GTIDs of all transactions before a position: Rule 4.

    Args:
        server: the server.
        at: the position.
        executed: the GTIDs of transactions before it that had been executed; None without GTIDs.
    """
    if executed is None:
        return None
    gtids = Executed(executed)
    try:
        for event in dump_after(server.address, parse(executed), server.identity):
            if event.placed and event.at.number >= at.number:
                break
            if event.placed and event.code in GTIDS:
                gtids.add(event)
    except ValueError:  # GTIDs with a tag, by which no server can be asked
        return executed
    return gtids.text()
