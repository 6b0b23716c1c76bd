"""Tables of which the log does not say what a reader of rows takes it to say.

binlog_do_db, binlog_ignore_db       the server logs no changes of a database
foreign key with CASCADE, SET NULL   the storage engine changes rows of the child, and logs nothing: InnoDB before MySQL 9.6
generated column                     the log of an update does not have it: MariaDB 11.8
MERGE                                a change through it is logged under its name, and changes rows of the tables that it unites
FEDERATED, CONNECT, SPIDER           the rows are on another server or in files, and change without this server
MariaDB's system versioning          the log has a row event for each old row that the table keeps, too
MariaDB's sequence                   a table of one row, in the log alone
"""

from __future__ import annotations

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.names import full_name
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.mysql.ddl.tables import table_name
from changefeed.mysql.ddl.tokens import Tokens
from changefeed.mysql.ddl.unlogged import VERSIONED
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.signals import missing_table
from changefeed.sources.mysql.tables import is_captured, list_tables, listed
from changefeed.ticdc.dispatch.matcher import TableFilter

SEQUENCE = (
    "next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size", "cycle_option",
    "cycle_count",
)  # fmt: skip
_LOGGED_SINCE = (9, 6)  # of MySQL: its SQL layer carries out the actions of foreign keys
_ACTIONS = """\
SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
ORDER BY 1, 2, 3"""
_UNLOGGED_SINCE = (11, 8)  # of MariaDB: 10.11 logs generated columns
_GENERATED = """\
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE IS_GENERATED = 'ALWAYS'
ORDER BY 1, 2, ORDINAL_POSITION"""
_ENGINES = """\
SELECT TABLE_SCHEMA, TABLE_NAME, UPPER(ENGINE) FROM information_schema.TABLES
WHERE ENGINE IN ('MRG_MYISAM', 'FEDERATED', 'CONNECT', 'SPIDER') ORDER BY 1, 2"""
_NO_ACTION = ("NO ACTION", "RESTRICT")


def is_sequence(table: TableMap) -> bool:
    """Whether a table of the log is a sequence of MariaDB: by its columns, which all sequences have."""
    return tuple(column.name for column in table.columns) == SEQUENCE


def sequence_of(statement: str, database: str | None) -> str | None:
    """Returns `database.name` of the sequence that a statement creates; None for another statement."""
    if "SEQUENCE" not in statement.upper():
        return None
    tokens = Tokens(statement)
    try:
        if not tokens.accept("CREATE"):
            return None
        tokens.accept("OR", "REPLACE")
        tokens.accept("TEMPORARY")
        if not tokens.accept("SEQUENCE"):
            return None
        tokens.accept("IF", "NOT", "EXISTS")
        return full_name(*table_name(tokens, database))
    except UnsupportedError:
        return None


def check_tables(server: Server, selector: TableFilter, signal_table: str | None = None) -> list[str]:
    """Checks that the log has the rows of all captured tables; returns a sentence for each of which it lacks some.

    Args:
        server: the server.
        selector: of the captured tables.
        signal_table: `database.table` of the signals; there is a sentence if the server does not have it.

    Raises:
        ConfigError: the server does not log the database of a captured table.
        UnsupportedError: a captured table has system versioning.
    """
    if unlogged := unlogged_databases(server, selector):
        raise ConfigError(f"{server.address} is not set up for capture: {'; '.join(unlogged)}")
    _refuse_versioned(server, selector)
    signals = [] if signal_table is None else missing_table(server, signal_table)
    return [*signals, *unlogged_rows(server, selector)]


def _refuse_versioned(server: Server, selector: TableFilter) -> None:
    if server.kind != "mariadb":
        return
    names = server.texts(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'SYSTEM VERSIONED' ORDER BY 1, 2"
    )
    if versioned := [(database, table) for database, table in names if is_captured(selector, database, table)]:
        patterns = ", ".join(f"'!{database}.{table}'" for database, table in versioned)
        raise UnsupportedError(
            f"{listed(versioned)} cannot be captured: {VERSIONED}. Add {patterns} to source.tables to leave it out"
        )


def unlogged_databases(server: Server, selector: TableFilter) -> list[str]:
    """Returns a sentence for each database that has captured tables and that the server keeps from its log."""
    option_of = server.unlogged_databases
    databases = {database for database, _ in list_tables(server, selector)}
    return [
        f"its log has no changes of the database {database} ({option}). Take the option out of the server's configuration, or "
        f"leave {database}.* out of source.tables"
        for database in sorted(databases)
        if (option := option_of(database)) is not None
    ]


def unlogged_rows(server: Server, selector: TableFilter) -> list[str]:
    """Returns a sentence for each captured table, and each reason for which the log lacks some of its rows or values."""
    replicated = (
        "the server has replicated, and log_slave_updates is OFF: if it still is a replica, changes of its primary will be "
        "missing in the sink. Set log_slave_updates=ON in its configuration, or read the primary"
    )
    return [
        *([replicated] if server.may_lack_replicated_changes else []),
        *_unlogged_actions(server, selector),
        *_unlogged_generated(server, selector),
        *_unlogged_engines(server, selector),
    ]


def _unlogged_actions(server: Server, selector: TableFilter) -> list[str]:
    """Returns a sentence for each captured table whose rows the server changes by a foreign key without logging it."""
    if _logs_actions(server):
        return []
    actions: dict[str, list[str]] = {}
    for database, table, constraint, on_update, on_delete in server.texts(_ACTIONS):
        if is_captured(selector, database, table):
            rules = (("ON UPDATE", on_update), ("ON DELETE", on_delete))
            named = " ".join(f"{event} {rule}" for event, rule in rules if rule not in _NO_ACTION)
            actions.setdefault(f"{database}.{table}", []).append(f"{constraint} {named}")
    return [
        f"{table}: rows that its foreign key changes ({'; '.join(of_table)}) will be wrong in the sink, because the server logs "
        "only the change of the parent's row. Let the application change such rows itself; MySQL logs them from 9.6 on"
        for table, of_table in actions.items()
    ]


def _unlogged_generated(server: Server, selector: TableFilter) -> list[str]:
    """Returns a sentence for each captured table with generated columns of which the log of an update has no values."""
    if server.kind != "mariadb" or server.release < _UNLOGGED_SINCE:
        return []
    columns: dict[str, list[str]] = {}
    for database, table, column in server.texts(_GENERATED):
        if is_captured(selector, database, table):
            columns.setdefault(f"{database}.{table}", []).append(column)
    return [
        f"{table}: an update that changes what {', '.join(of_table)} is computed from will stop the run, because MariaDB "
        f"{server.version.partition('-')[0]} does not log the new value. Compute such columns in a view, or leave the table out"
        for table, of_table in columns.items()
    ]


def _unlogged_engines(server: Server, selector: TableFilter) -> list[str]:
    """Returns a sentence for each table whose storage engine has its rows in other tables, or on another server."""
    tables = server.texts(_ENGINES)
    merges = [(database, table) for database, table, engine in tables if engine == "MRG_MYISAM"]
    databases = {database for database, _ in list_tables(server, selector)} if merges else set()
    sentences = [
        f"{database}.{table}: the log has changes through a MERGE table under its own name, and other changes under the names of "
        "the tables that it unites, so that both will be wrong in the sink. Write to the united tables alone, and leave "
        f"{database}.{table} out of source.tables"
        for database, table in merges
        if database in databases
    ]
    return sentences + [
        f"{database}.{table}: its rows will be wrong in the sink: its storage engine {engine} reads them from another server "
        "or from files, and the log has only changes that were made on this server. Leave the table out of source.tables"
        for database, table, engine in tables
        if engine != "MRG_MYISAM" and is_captured(selector, database, table)
    ]


def _logs_actions(server: Server) -> bool:
    if server.kind != "mysql" or server.release < _LOGGED_SINCE:
        return False
    return ("innodb_native_foreign_keys", "ON") not in server.texts(
        "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"
    )
