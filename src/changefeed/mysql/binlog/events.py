"""The events of a binlog as values. Every event has its `header`; the names are those of MySQL's documentation.

`Skipped` stands for events without a meaning for row changes. It is not a fallback: the parser lists their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from changefeed.errors import SchemaError
from changefeed.mysql import charsets
from changefeed.mysql.binlog import codes, collations
from changefeed.mysql.binlog.table_map import TableMap

Image = tuple[Any, ...]
"""Values of the columns that an image carries, in their order; None is NULL."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first 19 bytes of an event.

    Attributes:
        timestamp: seconds since 1970; 0 in artificial events.
        code: type of the event, see `codes`.
        server_id: the server on which the event originated.
        size: bytes of the event with header and checksum.
        next_position: lower 32 bits of the offset of the next event in the file; 0 in artificial events and inside of a payload.
        flags: see `codes`.
        position: offset of the event in its file; None if the caller did not pass one and the event carries none.
    """

    timestamp: int
    code: int
    server_id: int
    size: int
    next_position: int
    flags: int
    position: int | None = None

    @property
    def name(self) -> str:
        """The name of the event's type, such as `TABLE_MAP_EVENT`."""
        return codes.name_of(self.code)

    @property
    def artificial(self) -> bool:
        """Whether the server made the event for this connection; it is in no file."""
        return bool(self.flags & codes.ARTIFICIAL)


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """The first event of a file.

    Attributes:
        version: the binlog's version, always 4.
        server_version: such as `8.0.33` or `10.11.19-MariaDB-log`.
        created: seconds since 1970 if the server started with this file, else 0.
        header_sizes: for each event type, from 1: bytes of its fixed part.
        checksum: whether the events after it end with a CRC32.
    """

    header: Header
    version: int
    server_version: str
    created: int
    header_sizes: bytes
    checksum: bool

    @property
    def mariadb(self) -> bool:
        """Whether the server is a MariaDB."""
        return "MariaDB" in self.server_version


@dataclass(frozen=True, slots=True)
class Rotate:
    """The log goes on in another file. An artificial one opens a connection: it names the file that is sent."""

    header: Header
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The server was shut down; the file ends."""

    header: Header


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The server is alive and has nothing to send after this position of this file."""

    header: Header
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Incident:
    """Something on the server has not been logged: the log is incomplete here."""

    header: Header
    incident: int
    message: str


@dataclass(frozen=True, slots=True)
class Ignorable:
    """An event of an unknown type that carries the flag that it may be ignored."""

    header: Header


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that has no meaning for row changes: variables of statements, files of LOAD DATA, group replication."""

    header: Header


@dataclass(frozen=True, slots=True)
class StatusVars:
    """The session in which a statement ran; None: the event does not carry it.

    Attributes:
        flags: FLAGS2, such as foreign_key_checks.
        sql_mode: as a bitmap.
        catalog: `std` or empty.
        auto_increment: increment and offset.
        client, connection, server: collation ids of character_set_client, collation_connection and collation_server.
        time_zone: the session's, such as `SYSTEM`, `+02:00` or `Europe/Berlin`.
        lc_time_names, database_collation, default_utf8mb4_collation: numbers of a locale and of collations.
        table_map_for_update: bitmap of the tables of a multi-table update.
        invoker: user and host.
        updated_databases: databases that the statement changes; None also if they are too many for the event.
        microseconds: of the second in which it ran.
        explicit_defaults, require_primary_key, default_encryption: settings of the session.
        ddl_xid: transaction id of an atomic DDL statement.
        alter: MariaDB: extra flags of a two-phase ALTER and the sequence number of its start.
        character_set_collations: MariaDB: pairs of collation ids.
        unread: the bytes from the first variable on that is unknown; nothing after it can be read.
    """

    flags: int | None = None
    sql_mode: int | None = None
    catalog: str | None = None
    auto_increment: tuple[int, int] | None = None
    client: int | None = None
    connection: int | None = None
    server: int | None = None
    time_zone: str | None = None
    lc_time_names: int | None = None
    database_collation: int | None = None
    default_utf8mb4_collation: int | None = None
    table_map_for_update: int | None = None
    invoker: tuple[str, str] | None = None
    updated_databases: tuple[str, ...] | None = None
    microseconds: int | None = None
    explicit_defaults: bool | None = None
    require_primary_key: bool | None = None
    default_encryption: bool | None = None
    ddl_xid: int | None = None
    alter: tuple[int, int | None] | None = None
    character_set_collations: tuple[tuple[int, int], ...] | None = None
    unread: bytes = b""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement: BEGIN, COMMIT, XA, SAVEPOINT, DDL, or a change that is logged as a statement.

    Attributes:
        statement: the bytes, in the character set `status.client`.
    """

    header: Header
    thread_id: int
    seconds: int
    error: int
    database: str
    statement: bytes
    status: StatusVars

    @property
    def is_executed(self) -> bool:
        """Whether the server has executed the statement; False for the start of a two-phase ALTER, and for its rollback."""
        return self.status.alter is None or bool(self.status.alter[0] & codes.ALTER_COMMITTED)

    @property
    def text(self) -> str:
        """The statement as text.

        Raises:
            SchemaError: its character set is unknown, or the bytes are not of it.
        """
        if self.status.client is None:
            raise SchemaError("the event does not carry the character set of the statement")
        charset = collations.charset(self.status.client)
        known = None if charset is None else charsets.known(charset)
        if known is None:
            raise SchemaError(f"character set {charset or self.status.client} of the statement is unknown")
        return charsets.decode(self.statement, "utf8mb4" if known == charsets.BINARY else known)


@dataclass(frozen=True, slots=True)
class Xid:
    """The commit of a transaction, with the number that the storage engine gave it."""

    header: Header
    xid: int


@dataclass(frozen=True, slots=True)
class XaPrepare:
    """XA PREPARE, or XA COMMIT ONE PHASE."""

    header: Header
    one_phase: bool
    format_id: int
    gtrid: bytes
    bqual: bytes


@dataclass(frozen=True, slots=True)
class Gtid:
    """The GTID of the transaction that follows, by MySQL.

    Attributes:
        gtid: `uuid:number` or `uuid:tag:number`; None for an anonymous transaction.
        may_have_sbr: the transaction may contain statements.
        last_committed, sequence_number: logical clock of parallel replication; None if absent.
        commit_us, original_commit_us: microseconds since 1970, on this and on the first server; None if absent.
        transaction_size: bytes of the transaction in the log, this event included; None if absent.
        server_version, original_server_version: such as 80033; None if absent.
    """

    header: Header
    gtid: str | None
    may_have_sbr: bool
    last_committed: int | None = None
    sequence_number: int | None = None
    commit_us: int | None = None
    original_commit_us: int | None = None
    transaction_size: int | None = None
    server_version: int | None = None
    original_server_version: int | None = None


@dataclass(frozen=True, slots=True)
class MariaDbGtid:
    """The GTID of the transaction or statement that follows, by MariaDB; without `standalone` it also begins a transaction.

    Attributes:
        gtid: `domain-server-number`.
        flags: the event's bitmap: 1 standalone, 2 group commit, 4 transactional, 8 allow parallel, 16 waited, 32 DDL,
            64 XA prepared, 128 XA completed.
        commit_id: number of the group commit; None if absent.
        xid: format id, gtrid and bqual of an XA transaction; None if absent.
        alter: extra flags of a two-phase ALTER, and the number of its start; None if absent.
    """

    header: Header
    gtid: str
    flags: int
    commit_id: int | None = None
    xid: tuple[int, bytes, bytes] | None = None
    alter: tuple[int, int | None] | None = None

    @property
    def standalone(self) -> bool:
        """Whether a single statement follows, without a commit of its own."""
        return bool(self.flags & 1)


@dataclass(frozen=True, slots=True)
class PreviousGtids:
    """All GTIDs before this file, by MySQL: a GTID set as the server prints it, on one line."""

    header: Header
    gtids: str


@dataclass(frozen=True, slots=True)
class MariaDbGtidList:
    """The last GTIDs before this file, by MariaDB, of each domain and server."""

    header: Header
    flags: int
    gtids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BinlogCheckpoint:
    """MariaDB: the oldest file that crash recovery needs."""

    header: Header
    file: str


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """The statement whose row events follow: ROWS_QUERY of MySQL, ANNOTATE_ROWS of MariaDB. Its character set is not sent."""

    header: Header
    statement: bytes


@dataclass(frozen=True, slots=True)
class TableMapped:
    """A table that row events of the statement name by its number."""

    header: Header
    table: TableMap


@dataclass(frozen=True, slots=True)
class Rows:
    """Changes of rows of one table.

    Attributes:
        op: `insert`, `update` or `delete`.
        table: the table map; `table.columns` are all columns.
        statement_end: the last row event of the statement.
        before_columns, after_columns: indexes of the columns that images carry; None if the op has no such image.
        rows: before and after image of each row.
        flags: bit 0 statement end, 1 no foreign key checks, 2 no unique checks, 3 complete rows.
        partition: partition of the rows, and for updates the one before; None if absent.
        ndb: extra information of NDB; None if absent.
    """

    header: Header
    op: str
    table: TableMap
    statement_end: bool
    before_columns: tuple[int, ...] | None
    after_columns: tuple[int, ...] | None
    rows: tuple[tuple[Image | None, Image | None], ...]
    flags: int = 0
    partition: tuple[int, int | None] | None = None
    ndb: bytes | None = None

    def images(self) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
        """The images as column -> value; columns that an image does not carry are absent.

        Raises:
            SchemaError: the names of the columns are unknown.
        """
        names = self.table.names
        before = [names[i] for i in self.before_columns or ()]
        after = [names[i] for i in self.after_columns or ()]
        return [
            (
                None if old is None else dict(zip(before, old, strict=True)),
                None if new is None else dict(zip(after, new, strict=True)),
            )
            for old, new in self.rows
        ]


@dataclass(frozen=True, slots=True)
class TransactionPayload:
    """A compressed transaction. The parser yields it before the events that it contains.

    Attributes:
        compression: `zstd` or `none`.
        compressed_size, size: bytes in the file, and of the events.
    """

    header: Header
    compression: str
    compressed_size: int
    size: int


Event = (
    FormatDescription | Rotate | Stop | Heartbeat | Incident | Ignorable | Skipped | Query | Xid | XaPrepare | Gtid
    | MariaDbGtid | PreviousGtids | MariaDbGtidList | BinlogCheckpoint | RowsQuery | TableMapped | Rows | TransactionPayload
)  # fmt: skip
