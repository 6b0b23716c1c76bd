"""Events of the log to changes: rows as Arrow columns of each table and shape, schema changes, and marks of complete points.

    ROWS      rows of a table, with the op of the event            commit_ts = file number << 40 | position of the event
    QUERY     a schema change, if it concerns a captured table     the same
    commit    nothing: `LogDecoder.decoded` marks the end of what was read, if no transaction is open there

Rule 1. All changes are of one partition. Their offset is their commit_ts, their index the number of the row in the event;
        the rows of a compressed transaction, which is one event, are numbered through.
Rule 2. Row events of tables that are not captured are passed over before they are read. Their schema changes are not, for
        tables: such a table may be the copy of a captured one, and take its place.
Rule 3. What the log does not have as rows is refused by name: statements that change rows. So are a rollback of rows that
        `rolled_back.py` does not find, and an XA transaction in two phases that `xa.py` does not. Nothing is skipped silently.
Rule 4. A partial update of JSON is applied to the document before, which the row's image before has.
Rule 5. Events without a meaning here, and the BEGIN of a transaction, are not parsed. Of GTIDs, only those of a schema change and
        of a mark are. With `Transactions`, all of these are: changes that are written as events carry their details.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pyarrow as pa

from changefeed.errors import ConfigError, SchemaError, SourceError, UnsupportedError
from changefeed.model.batch import TRANSACTION, Decoded, TableBatch, no_irregular, record_columns, table_schema
from changefeed.model.event import Control, Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.mysql.binlog import BinlogError, Parser, Rows, TableMap, codes
from changefeed.mysql.binlog.events import (
    FormatDescription,
    Gtid,
    Image,
    Incident,
    MariaDbGtid,
    Query,
    RowsQuery,
    TableMapped,
    XaPrepare,
    Xid,
)
from changefeed.mysql.binlog.framing import HEADER_SIZE
from changefeed.mysql.binlog.json_diff import JsonDiff
from changefeed.mysql.binlog.rows import KINDS
from changefeed.mysql.ddl import TIME_ZONE
from changefeed.mysql.ddl.kind import kind
from changefeed.mysql.ddl.modes import cuts_other_fractions, without_modes
from changefeed.mysql.ddl.tables import database_charset
from changefeed.mysql.ddl.unlogged import VERSIONED
from changefeed.mysql.zone import zone
from changefeed.protocols.origin import COPIED_AGAIN, NAMES_RULE
from changefeed.sources.mysql.column_rules import ColumnRules
from changefeed.sources.mysql.columns import array, columns_of, hidden_columns
from changefeed.sources.mysql.definitions import Definitions, Effect
from changefeed.sources.mysql.dump import GTIDS, LogEvent
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.statement_text import altered_table
from changefeed.sources.mysql.statements import begins_transaction, done_by_failed, meaning
from changefeed.sources.mysql.tables import SYSTEM, Captured, is_captured
from changefeed.sources.mysql.transactions import (
    RowDetails,
    Transactions,
    moved,
    origin_column,
    time_column,
    transaction_column,
)
from changefeed.sources.mysql.unlogged import is_sequence

TOPIC, PARTITION = "binlog", 0
_ID_SIZE = 6
_NAMES_AT = HEADER_SIZE + _ID_SIZE + 2
_OF_TRANSACTIONS = frozenset({codes.XID, codes.ROWS_QUERY, codes.ANNOTATE_ROWS, codes.QUERY})
WITHOUT_MEANING = frozenset({
    codes.ROTATE, codes.XID, codes.STOP, codes.HEARTBEAT, codes.HEARTBEAT_V2, codes.ROWS_QUERY, codes.ANNOTATE_ROWS,
    codes.PREVIOUS_GTIDS, codes.MARIADB_GTID_LIST, codes.BINLOG_CHECKPOINT,
    codes.START_ENCRYPTION,  # of the file: the server has decrypted what follows
})  # fmt: skip


@dataclass(slots=True)
class ShapeRows:
    """Rows of one shape, as lists that become Arrow columns together."""

    records: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    commit_ts: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    before: list[Image | None] = field(default_factory=list)
    after: list[Image | None] = field(default_factory=list)
    details: list[RowDetails] = field(default_factory=list)  # of all rows, or empty

    def built(self, shape: TableShape) -> TableBatch:
        """The rows as a table batch."""
        count = len(self.ops)
        irregular: list[dict[str, bytes]] = [{} for _ in range(count)]
        schema = table_schema(shape, "us" if self.details else "s")
        columns = {
            "record": pa.array(self.records, pa.int32()),
            "topic": pa.repeat(TOPIC, count),
            "partition": pa.repeat(pa.scalar(PARTITION, pa.int32()), count),
            "offset": pa.array(self.offsets, pa.int64()),
            "index": pa.array(self.indexes, pa.int32()),
            "op": pa.array(self.ops, pa.string()),
            "commit_ts": pa.array(self.commit_ts, pa.uint64()),
            "sequence": pa.nulls(count, pa.uint64()),
            "commit_time": pa.array(self.times, pa.timestamp("s", tz="UTC")),
            "transaction": pa.nulls(count, TRANSACTION),
            "origin": pa.nulls(count, pa.string()),
            "before": _images(self.before, shape, shape.before_type, shape.before_columns, None),
            "after": _images(self.after, shape, shape.after_type, shape.after_columns, irregular),
            "irregular": no_irregular(count),
        }
        if self.details:
            columns |= {
                "commit_time": time_column(self.details),
                "transaction": transaction_column(self.details),
                "origin": origin_column(self.details),
            }
        if any(irregular):
            columns["irregular"] = pa.array([list(row.items()) for row in irregular], schema.field("irregular").type)
        return TableBatch(shape, pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))


def _images(
    images: list[Image | None],
    shape: TableShape,
    kind: pa.StructType,
    columns: Any,
    irregular: list[dict[str, bytes]] | None,
) -> pa.StructArray:
    """The column of one image; what its types cannot hold is added to `irregular`."""
    if all(image is None for image in images):
        return pa.nulls(len(images), kind)
    if not columns:  # an update of nothing but parts of JSON, with binlog_row_image=MINIMAL
        return pa.array([None if image is None else {} for image in images], kind)
    missing = (None,) * len(columns)
    values = zip(*(missing if image is None else image for image in images), strict=True)
    arrays = []
    for column, cells in zip(columns, values, strict=True):
        try:
            cells_array, kept = array(cells, column.type)
        except SchemaError as error:
            raise SchemaError(f"{shape.database}.{shape.table}: column {column.name}: {error}") from error
        arrays.append(cells_array)
        if irregular is not None:
            for row, data in kept.items():
                irregular[row][column.name] = data
    absent = pa.array([image is None for image in images])
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)


def _time_zone(query: Query) -> str | None:
    """The time zone of a statement's session; None if it is that of the server's system, or unknown here."""
    name = query.status.time_zone
    if name is None:
        return None
    try:
        zone(name)
    except ConfigError:
        return None
    return name


class LogDecoder:
    """Collects the changes of consecutive events of the log.

    Attributes:
        server: `mysql` or `mariadb`, by the log's format description.
    """

    def __init__(
        self,
        captured: Captured,
        maps: Iterable[bytes] = (),
        transactions: Transactions | None = None,
        definitions: Definitions | None = None,
        prepared: Collection[LogPosition] = (),
        undone: Collection[LogPosition] = (),
    ) -> None:
        """Begins at an event.

        Args:
            captured: the tables to read.
            maps: the table maps before the event, if it is inside of a statement.
            transactions: adds the details that events carry to the changes, and marks of transactions; None: tables are written.
            definitions: adds what table maps do not have to the shapes of rows; statements are applied to it.
            prepared: the ends of the XA transactions whose rows are taken for what they are, see `xa.py`; others are refused.
            undone: the statements that roll back rows which the caller drops, see `rolled_back.py`; others are refused.
        """
        self._transactions, self._definitions = transactions, definitions
        self.server, self._name = "", ""
        self._prepared, self._undone = prepared, undone
        self._gtid: LogEvent | None = None  # of the last transaction, if it was not read yet
        self._captured, self._selector = captured, captured.selector()
        self._rules = ColumnRules(captured.columns, of_events=transactions is not None)
        self._parser = Parser(complete=captured.completed)
        self._maps = tuple(maps)
        self._rows: dict[TableShape, ShapeRows] = {}
        self._shapes: dict[Any, TableShape] = {}
        self._tables: dict[int, tuple[TableMap, tuple[Column, ...]]] = {}  # by `id`, of captured tables
        self._hidden: dict[int, frozenset[int]] = {}
        self._names: dict[bytes, bool] = {}  # names in a table map -> whether the table is captured
        self._skipped: set[bytes] = set()
        self._records: list[int] = []
        self._control: list[Control] = []
        self._index, self._open_rows = 0, len(self._maps)

    def add(self, event: LogEvent) -> None:
        """Reads one event.

        Raises:
            SourceError: the bytes contradict the format of a log, or the server reports that changes are missing.
            UnsupportedError: Rule 3.
        """
        if self._passes_over(event):
            return
        self._index = 0
        try:
            for part in self._parser.feed(event.data, event.at.position if event.placed else None):
                self._part(part, event)
            if event.code == codes.FORMAT_DESCRIPTION and self._maps:
                for table_map in filter(self._maps_captured, self._maps):
                    for part in self._parser.feed(table_map):
                        self._part(part, event)
                self._maps = ()
        except BinlogError as error:
            raise SourceError(f"the binary log cannot be read at {event.at}: {error}") from error

    def _passes_over(self, event: LogEvent) -> bool:
        """Whether an event needs no parser: see Rules 2 and 5."""
        code, data = event.code, event.data
        if code in KINDS:
            return data[HEADER_SIZE : HEADER_SIZE + _ID_SIZE] in self._skipped
        if code == codes.TABLE_MAP:
            return not self._maps_captured(data)
        if code in GTIDS:
            self._gtid, self._open_rows = event, 0
            return self._transactions is None
        if self._transactions is not None and code in _OF_TRANSACTIONS:
            return False
        return code in WITHOUT_MEANING or event.is_begin

    def _maps_captured(self, data: bytes) -> bool:
        """Whether a table map is of a captured table; of another one, its columns may be of unknown types."""
        try:
            middle = _NAMES_AT + 1 + data[_NAMES_AT]
            end = middle + 2 + data[middle + 1]
            names = data[_NAMES_AT:end]
            database, table = names[1 : 1 + names[0]].decode(), data[middle + 2 : end].decode()
        except (IndexError, UnicodeDecodeError):
            return True  # the parser names what is wrong
        captured = self._names.get(names)
        if captured is None:
            captured = self._names[names] = is_captured(self._selector, database, table)
        key = data[HEADER_SIZE : HEADER_SIZE + _ID_SIZE]
        if captured:
            self._skipped.discard(key)
        else:
            self._skipped.add(key)
        return captured

    @property
    def name(self) -> str:
        """GTID of the last transaction that has begun; empty if there was none."""
        event, self._gtid = self._gtid, None
        if event is None:
            return self._name
        for part in Parser(checksum=event.has_checksum).feed(event.data):  # a new file may have begun since
            if isinstance(part, Gtid | MariaDbGtid):
                self._name = part.gtid or ""
        return self._name

    def _part(self, part: Any, event: LogEvent) -> None:
        match part:
            case Rows():
                self._add_rows(part, event)
            case TableMapped():
                self._map(part)
            case Query():
                self._query(part, event)
            case XaPrepare() if not part.one_phase and self._open_rows and event.end not in self._prepared:
                self._refuse("XA PREPARE", _without_prepared(event), event)
            case XaPrepare():
                self._open_rows = 0
                self._mark("end", event)
            case FormatDescription():
                self.server = "mariadb" if part.mariadb else "mysql"
            case Gtid() | MariaDbGtid() if self._transactions is not None and self._transactions.gtid(part, event.at):
                self._mark("begin", event)
            case RowsQuery() if self._transactions is not None:
                self._transactions.statement(part)
            case Xid():
                self._mark("end", event)
            case Incident():
                raise SourceError(
                    f"the server reports that its log lacks changes at {event.at} ({part.message}): start a new pipeline with a "
                    "first copy"
                )

    def _map(self, part: TableMapped) -> None:
        """Adds a captured table; in a compressed transaction, other tables have their maps, too."""
        table, name = part.table, (part.table.database, part.table.table)
        if id(table) not in self._tables and is_captured(self._selector, *name) and not is_sequence(table):
            try:
                columns = columns_of(table)
            except UnsupportedError:
                if name in self._captured.replaced:
                    return
                raise
            self._tables[id(table)] = (table, columns)
            if hidden := hidden_columns(table):
                self._hidden[id(table)] = hidden

    def _add_rows(self, rows: Rows, event: LogEvent) -> None:
        if not rows.rows or id(rows.table) not in self._tables:
            return
        if hidden := self._hidden.get(id(rows.table)):
            rows = _without(rows, hidden)
        shape = self._shape(rows.table, rows.before_columns, rows.after_columns)
        into = self._rows.setdefault(shape, ShapeRows())
        count, place = len(rows.rows), event.at.number
        record = self._record(place)
        into.records += [record] * count
        into.offsets += [place] * count
        into.commit_ts += [place] * count
        into.indexes += range(self._index, self._index + count)
        into.ops += [rows.op] * count
        into.times += [rows.header.timestamp] * count
        if self._transactions is not None:
            into.details.append(self._transactions.details(rows.header, moved(rows, shape), event.at, shape))
        before, after = zip(*_merged(rows, shape), strict=True)
        into.before += before
        into.after += after
        self._index += count
        self._open_rows += count

    def _shape(self, table: TableMap, before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> TableShape:
        """The shape of rows with these columns in their images: images with all columns share one with those that have none."""
        key = (id(table), before, after)
        shape = self._shapes.get(key)
        if shape is None:
            columns = self._tables[id(table)][1]
            shape = TableShape(
                table.database, table.table, columns, carried(table, columns, before), carried(table, columns, after)
            )
            if self._definitions is not None:
                shape = self._definitions.completed(shape)
            self._shapes[key] = shape
        return shape

    def _query(self, query: Query, event: LogEvent) -> None:
        if not query.is_executed:
            return
        text = query.text if self._definitions is not None else without_modes(query.text, query.status.sql_mode)
        database = query.database or None
        what = meaning(text, database, self._selector, all_changes=self._definitions is None)
        if what == "none" and self._definitions is not None and self._is_shown(text, database):
            what = "change"
        match what:
            case "begin" if self._transactions is not None and self._transactions.begin(query, event.at):
                self._mark("begin", event)
            case "begin" | "none":
                pass
            case "commit":
                self._open_rows = 0
                self._mark("end", event)
            case "rollback" if self._open_rows and event.at not in self._undone:
                self._refuse(
                    "a transaction that was rolled back has rows",
                    "use transactional tables alone in transactions",
                    event,
                )
            case "rows":
                self._refuse(f"a statement changes rows: {text[:200]}", "SET GLOBAL binlog_format = ROW", event)
            case "history":
                self._refuse(VERSIONED, f"leave the table of this statement out of source.tables: {text[:200]}", event)
            case "change" if query.error:
                done = done_by_failed(text, database)
                if done is None:
                    self._refuse(
                        f"a statement failed (error {query.error}), and the log does not say what it has changed: {text[:200]}",
                        "start a new pipeline with a first copy",
                        event,
                    )
                self._change(done, database, query, event)
            case "change":
                self._change(text.rstrip(), database, query, event)

    def _is_shown(self, text: str, database: str | None) -> bool:
        """Whether a statement that changes no rows and columns is a schema change for Debezium's connector nevertheless."""
        if (table := altered_table(text, database)) is not None:
            return is_captured(self._selector, *table)
        altered = database_charset(text, database)
        return altered is not None and altered[0].lower() not in SYSTEM

    def _changes(self, text: str, database: str | None, query: Query, event: LogEvent) -> None:
        """Adds a schema change for each table of a statement, with the whole table."""
        assert self._definitions is not None
        assert self._transactions is not None
        self._shapes = {}
        self._parser.complete_again()
        origin, instant = self._transactions.of_statement(query, event.at, self.server)
        for effect in self._definitions.apply(text, database):
            if effect.table is not None and not is_captured(self._selector, effect.database, effect.table):
                continue
            place = Place(TOPIC, PARTITION, event.at.number, self._index, self._record(event.at.number))
            self._index += 1
            self._control.append(schema_change(effect, self._definitions, place, instant, origin, database))

    def _change(self, text: str, database: str | None, query: Query, event: LogEvent) -> None:
        if self._definitions is not None:
            self._changes(text, database, query, event)
            return
        if begins_transaction(text):
            text = text[: text.upper().rindex("START")].rstrip()
        place = Place(TOPIC, PARTITION, event.at.number, self._index, self._record(event.at.number))
        self._index += 1
        name = self.name
        origin: dict[str, Any] = {NAMES_RULE: self._captured.names_rule}
        # without a server's name, a conversion stops that is another one in MySQL and in MariaDB
        if not cuts_other_fractions(query.status.sql_mode, self.server):
            origin["connector"] = self.server
        if (time_zone := _time_zone(query)) is not None:
            origin[TIME_ZONE] = time_zone
        if name:
            origin["gtid"] = name
        if self._captured.replaced:
            origin[COPIED_AGAIN] = sorted(self._captured.replaced)
        instant = Instant(query.header.timestamp * 1_000_000, 0)
        self._control.append(
            SchemaChange(
                kind(text, database),
                database,
                None,
                text,
                place,
                commit_ts=event.at.number,
                instant=instant,
                origin=origin,
            )
        )

    def _mark(self, status: str, event: LogEvent) -> None:
        """Adds the mark of a transaction's beginning or end."""
        if self._transactions is None or self._transactions.open is None:
            return
        place = Place(TOPIC, PARTITION, event.at.number, self._index, self._record(event.at.number))
        self._index += 1
        self._control.append(self._transactions.mark(status, place, event.timestamp))
        if status == "end":
            self._transactions.open = None

    def _record(self, offset: int) -> int:
        """The number of the record of an event: the next one, unless it has one already."""
        if not self._records or self._records[-1] != offset:
            self._records.append(offset)
        return len(self._records) - 1

    def _refuse(self, what: str, fix: str, event: LogEvent) -> NoReturn:
        raise UnsupportedError(f"{what}, at {event.at} of the binary log: {fix}. What was logged before cannot be read")

    def mark(self, at: LogPosition) -> None:
        """Adds the promise that everything before a position was read."""
        place = Place(TOPIC, PARTITION, at.number - 1, None, self._record(at.number - 1))
        name = self.name
        origin = {"checkpoint": {"syncedGtid": name}} if name else {}
        self._control.append(Resolved(at.number, place, origin=origin))

    def decoded(self) -> tuple[Decoded, pa.RecordBatch]:
        """Returns the changes that were collected, and a record for each event that had some; none are left."""
        tables = [self._rules.batch(rows.built(shape)) for shape, rows in self._rows.items()]
        decoded = Decoded(tables, self._control)
        records = records_at(self._records)
        self._rows, self._control, self._records = {}, [], []
        return decoded, records

    @property
    def count(self) -> int:
        """Number of rows that were collected."""
        return sum(len(rows.ops) for rows in self._rows.values())


def schema_change(
    effect: Effect,
    definitions: Definitions,
    place: Place,
    instant: Instant,
    origin: dict[str, Any],
    database: str | None = None,
) -> SchemaChange:
    """The schema change of a stream of events: with the table as it is after the statement, in the origin's `definition`.

    `database`: that of the session, where the statement is one that Debezium's connector passes over.
    """
    columns = None
    if effect.table is not None:
        kept = {} if effect.kind == "DROP" else definitions.described(effect.database, effect.table)
        origin = {**origin, "definition": {"type": effect.kind, **kept}}
        if effect.is_passed_over:
            origin["definition"]["passed_over_in"] = database
        columns = definitions.columns(effect.database, effect.table)
    if effect.tables is not None:
        origin = {**origin, "definition": {**origin.get("definition", {}), "tables": effect.tables}}
    return SchemaChange(
        kind(effect.text, effect.database), effect.database, effect.table, effect.text, place, columns,
        commit_ts=place.offset, instant=instant, origin=origin,
    )  # fmt: skip


def records_at(offsets: list[int]) -> pa.RecordBatch:
    """The records of these offsets, as chunks count them; their bytes are not kept."""
    count = len(offsets)
    columns = {"topic": pa.repeat(TOPIC, count), "partition": pa.repeat(PARTITION, count)}
    return record_columns(
        count, offset=pa.array(offsets, pa.int64()), value=pa.repeat(pa.scalar(b"", pa.binary()), count), **columns
    )


def carried(table: TableMap, columns: tuple[Any, ...], indexes: Sequence[int] | None) -> tuple[str, ...] | None:
    """The names of the columns that an image carries; None if it carries all, or if there is no such image."""
    if indexes is None or len(indexes) == len(columns):
        return None
    return tuple(table.columns[index].name or "" for index in indexes)


def _without_prepared(event: LogEvent) -> str:
    """The way out of an XA transaction that is not read."""
    if event.code == codes.TRANSACTION_PAYLOAD:
        return (
            "SET GLOBAL binlog_transaction_compression = OFF, or let applications commit XA transactions in one phase"
        )
    return "let applications commit XA transactions in one phase"


def _without(rows: Rows, hidden: frozenset[int]) -> Rows:
    """The rows without hidden columns."""
    kept = [
        None if indexes is None else [i for i, index in enumerate(indexes) if index not in hidden]
        for indexes in (rows.before_columns, rows.after_columns)
    ]
    before, after = (
        None if of is None or indexes is None else tuple(indexes[i] for i in of)
        for of, indexes in zip(kept, (rows.before_columns, rows.after_columns), strict=True)
    )
    images = tuple(
        (
            None if old is None else tuple(old[i] for i in kept[0] or ()),
            None if new is None else tuple(new[i] for i in kept[1] or ()),
        )
        for old, new in rows.rows
    )
    return replace(rows, before_columns=before, after_columns=after, rows=images)


def _merged(rows: Rows, shape: TableShape) -> Iterator[tuple[Image | None, Image | None]]:
    """The images of the rows: Rule 4."""
    if rows.op != "update" or not any(column.code == codes.JSON for column in rows.table.columns):
        yield from rows.rows
        return
    places = {column: i for i, column in enumerate(rows.before_columns or ())}
    for before, after in rows.rows:
        if before is not None and after is not None and any(isinstance(value, JsonDiff) for value in after):
            values = list(after)
            for i, column in enumerate(rows.after_columns or ()):
                if isinstance(diff := values[i], JsonDiff):
                    values[i] = _applied(diff, before[places[column]] if column in places else None, shape)
            after = tuple(values)
        yield before, after


def _applied(diff: JsonDiff, document: str | None, shape: TableShape) -> str | None:
    if document is None:
        raise UnsupportedError(
            f"a partial update of JSON in {shape.database}.{shape.table} has no document before it: SET GLOBAL "
            "binlog_row_image = FULL"
        )
    return diff.apply(document)
