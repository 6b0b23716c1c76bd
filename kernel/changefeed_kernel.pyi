"""The compiled twin of changefeed's decoders and encoders; `changefeed.codec.decoding` and `changefeed.codec.encoding` are its doors.

A decoder returns rows in batches of shapes with the same columns. Beside each batch is the number of its first row's shape; its
column `shape` has that of each row.
"""

from collections.abc import Sequence

import pyarrow as pa

__version__: str

class TicdcAvro:
    """Rows of TiCDC Avro, of the registered shapes. Not shared between threads."""

    def __init__(self, *, ahead: int | None) -> None:
        """No shape is registered yet.

        Args:
            ahead: microseconds by which the producer's clock is ahead of UTC, or None when that depends on the day:
                shapes with a TIMESTAMP are then not registered.
        """

    def register(self, shape: str) -> int | None:
        """The number of the shape that this JSON describes, met in one topic; None if the kernel does not support it."""

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None, *, topics: pa.Array
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Batches of rows, and the rows of the unmatched records.

        Args:
            keys, values, topics: binary or large_binary, one a record.
            rows: which of the records, in this order; all when None.
        """

class TicdcOpen:
    """Row messages of the TiCDC Open Protocol, of the registered shapes. Not shared between threads."""

    def __init__(self, *, upsert: bool, ahead: int | None) -> None:
        """No shape is registered yet.

        Args:
            upsert: whether a `u` without `p` is an upsert, not an insert.
            ahead: microseconds by which the producer's clock is ahead of UTC, or None when that depends on the day:
                shapes with a TIMESTAMP are then not registered.
        """

    def register(self, shape: str) -> int | None:
        """The number of the shape that this JSON describes, from 0, or None if the kernel does not support it."""

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Batches of rows, and the rows of the unmatched records.

        Args:
            keys, values: binary or large_binary, one a record.
            rows: which of the records, in this order; all when None.
        """

class TicdcDebezium:
    """Row messages of the TiCDC Debezium protocol, of the registered shapes. Not shared between threads."""

    def __init__(self) -> None:
        """No shape is registered yet."""

    def register(self, shape: str) -> int | None:
        """Like `TicdcOpen.register`."""

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Like `TicdcOpen.decode`."""

class DebeziumMysql:
    """Row messages of Debezium's MySQL and MariaDB connectors in JSON, of the registered shapes."""

    def __init__(self, *, placeholders: list[str], numeric: bool) -> None:
        """No shape is registered yet.

        Args:
            placeholders: texts that stand for columns that were not sent.
            numeric: whether decimals are numbers: shapes with a DECIMAL are then not registered.
        """

    def register(self, shape: str) -> int | None:
        """Like `TicdcOpen.register`."""

    def tables(self, values: pa.Array) -> pa.Int32Array:
        """The number of the table that each value probably belongs to, from 0; those of unknown tables have the next number."""

    def decode(
        self,
        keys: pa.Array,
        values: pa.Array,
        rows: pa.Int32Array | None = None,
        *,
        headers: pa.ListArray,
        numbers: pa.Int32Array | None = None,
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Like `TicdcOpen.decode`; headers are lists of (string, binary).

        Args:
            numbers: one a record, from 0: that of its topic if each topic contains one table, else that of its table; it is
                the same in each call. Decoding is faster with them.
        """

class DebeziumMysqlAvro:
    """Row messages of Debezium's MySQL and MariaDB connectors in Avro, of the registered shapes."""

    def __init__(self, *, placeholders: list[str], numeric: bool) -> None:
        """Like `DebeziumMysql`."""

    def register(self, shape: str) -> int | None:
        """Like `TicdcOpen.register`."""

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None, *, headers: pa.ListArray
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Like `DebeziumMysql.decode`, without the numbers."""

class TencentDts:
    """Rows and transaction marks of Tencent DTS subscriptions, of the registered shapes."""

    def __init__(self, *, signed: bool, most: int) -> None:
        """No shape is registered yet.

        Args:
            signed: whether a BIT(64) with its top bit set is a negative number.
            most: bytes of data that a plain record has at most.
        """

    def register(self, shape: str) -> int | None:
        """Like `TicdcOpen.register`."""

    def runs(
        self, keys: pa.Array, values: pa.Array, headers: pa.ListArray, topics: pa.Array, partitions: pa.Int32Array
    ) -> list[tuple[int, int, int, bytes | None]]:
        """Runs of plain records of one topic, partition and shard whose ps follow each other.

        A plain record is a whole group, with no key, and no headers but ps and ShardId. Of each run the first row, how
        many rows, the first ps, and the shard.
        """

    def decode(
        self,
        keys: pa.Array,
        values: pa.Array,
        rows: pa.Int32Array | None,
        *,
        headers: pa.ListArray,
        data: pa.Array | None = None,
        all: pa.Array | None = None,
        first: pa.Array | None = None,
        skips: Sequence[tuple[int, int]] = (),
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array, pa.RecordBatch, list[tuple[int, int, int] | None]]:
        """Batches of rows, the rows of the unmatched records, marks, and of each unmatched one the first unknown entry.

        Of that entry where it begins and ends in the data of the group, and the index of its first event.

        Args:
            keys, values: binary or large_binary, one a record.
            rows: which of the records, in this order; all when None.
            headers: lists of (string, binary).
            data: of records that are not plain, what their groups hold; NULL for others.
            all, first: of the same, JSON members for the origins of all their events, and of their first, a comma in front.
            skips: entries that the caller reads itself: where they begin, and how many events they have.
        """

class Templates:
    """Writes rows by the registered templates; see `changefeed.columnar.templates`. Not shared between threads."""

    def __init__(self, *, printable: list[tuple[int, int]]) -> None:
        """No template is registered yet.

        Args:
            printable: the code points that Go prints, as ranges in ascending order; both ends belong to a range.
        """

    def register(self, template: str) -> int | None:
        """The number of the template that this JSON describes, from 0, or None if the kernel does not support it."""

    def encode(self, number: int, rows: pa.RecordBatch) -> tuple[pa.Int32Array, pa.BinaryArray | None, pa.BinaryArray] | None:
        """Numbers of the rows that were written, their keys (None without any) and their values.

        Args:
            number: of the template.
            rows: `op`, `before`, `after` and `irregular` of a table batch, and the heads.

        Returns:
            None when the columns are not those of the template.
        """

class BinlogPackets:
    """Splits the packets that a server sends after COM_BINLOG_DUMP into the events of its log."""

    def __init__(self, sequence: int) -> None:
        """Before the packet with this number."""

    def split(self, received: bytes) -> tuple[bytes, bool, bytes | None]:
        """Returns the events in what was received, and what follows them.

        Returns:
            Events that follow each other; whether the numbers of the packets do, too; the payload of a packet that is not
            an event, or is one whose header declares another size.
        """

class TextRows:
    """Rows that a server sends for a SELECT, as columns of bytes. Not shared between threads."""

    def __init__(self, *, columns: int, sequence: int) -> None:
        """No row is read yet.

        Args:
            columns: their number.
            sequence: the number of the next packet.
        """

    def feed(self, received: bytes) -> None:
        """Adds what was received."""

    def run(self, most_rows: int, most_bytes: int) -> tuple[str, bytes | None]:
        """Reads rows.

        Returns:
            Why it stopped, and the payload of a packet that is not a row. `more`: all that was received is read; `full`: so
            many rows since `finish`, or so many bytes of their packets, or more; `other`: an error, the end, or values that
            are not those of the columns; `unexpected`: the numbers of the packets do not follow each other.
        """

    def finish(self) -> list[pa.BinaryArray]:
        """Returns the columns of all rows; none are left."""

class BinlogRows:
    """Rows of a binary log, of the registered tables. Not shared between threads."""

    def __init__(
        self, *, at: int, end: int, ignored: bytes, gtids: bytes, rows: bytes, kinds: Sequence[tuple[int, str, int, bool]]
    ) -> None:
        """No table is registered yet. Positions are `file number << 40 | position`.

        Args:
            at: the position of the first event.
            end: an event at this position, or behind it, is not read.
            ignored: types of events that are passed over.
            gtids: types of events that begin a transaction.
            rows: types of row events.
            kinds: of each row event that is read: type, op, version, and whether its rows are compressed.
        """

    at: int
    """The position after the last event."""
    open_rows: int
    """Number of rows in the open transaction."""
    count: int
    """Number of rows since `finish`."""

    def set_checksums(self, has_checksums: bool) -> None:
        """Sets whether events end with a checksum."""

    def register(self, body: bytes, *, captured: bool, description: str | None = None) -> int | None:
        """Registers the body of a table map, without checksum.

        Args:
            captured: whether rows of the table are read at all.
            description: its columns as JSON; None: the reference reads its rows.

        Returns:
            The number of the table, from 0; None if the kernel does not read its rows.
        """

    def add_map(self, event: bytes) -> bool:
        """Adds a table map of the open statement; returns whether it is registered."""

    def feed(self, events: bytes) -> None:
        """Adds bytes of events that follow each other."""

    def run(self, most_rows: int) -> tuple[str, bytes]:
        """Reads events until one of the reasons to stop.

        Returns:
            The reason, and the event before which it has stopped. `more`: all events were read. `full`: there are so many rows.
            `end`: the next event is at the end or behind it. `map`: the next event is a table map that is not registered.
            `event`: the reference has to read the next event; `resume` steps over it.
        """

    def payload(self, events: bytes, at: int) -> tuple[str, bytes]:
        """Reads the events of a transaction payload at a position. Returns `more`; or as `run`, after reading nothing."""

    def resume(self, at: int, open_rows: int) -> None:
        """Steps over an event that the reference has read, given the position after it and the rows of the open transaction."""

    def maps(self) -> list[bytes]:
        """Returns the table maps of the open statement."""

    def take_gtid(self) -> tuple[int, bytes] | None:
        """Returns position and bytes of the last GTID event, unless it was returned before."""

    def take_records(self) -> list[int]:
        """Returns the positions of the records that were not returned before."""

    def number_records(self, first: int) -> None:
        """Sets the number of the next record."""

    def finish(
        self,
    ) -> list[
        tuple[int, list[int] | None, list[int] | None, pa.RecordBatch, pa.Array, list[tuple[int, int, bytes]]]
    ]:
        """Returns all rows. None are left.

        Returns:
            For each table and shape its number, the columns of its images before and after (None: all, or no such image), its
            rows, the time of each, and values that columns cannot hold: row, index of the column in the image after, bytes.
        """
