"""The messages of `subscribe.proto` as tables with number, name and kind of every field, for reading and writing.

    Envelope { version total index data }      one per record
    Entries  { Entry { Header, Event } … }     what the data of a group's envelopes make together
    Event    { one body, chosen by Header.messageType, never by which one is there }

Messages that are read piece by piece (entries, their parts, columns, rows, images) are spans: positions in the bytes.
"""

from __future__ import annotations

from changefeed.wire.protobuf import Field, MessageDescriptor

BEGIN, COMMIT, DML, DDL, ROLLBACK, HEARTBEAT, CHECKPOINT = range(7)
INSERT, UPDATE, DELETE = range(3)
OPS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}
SOURCES = {"oracle": 0, "mysql": 1, "pgsql": 2, "mariadb": 3}
MAX_COLUMNS = 4_096

PAIR = MessageDescriptor("KVPair", (Field(1, "key", "string"), Field(2, "value", "string")))
PROPERTIES = Field(15, "properties", PAIR, most=32)
ENVELOPE = MessageDescriptor(
    "Envelope",
    (
        Field(1, "version", "int32"),
        Field(2, "total", "uint32"),
        Field(3, "index", "uint32"),
        Field(4, "data", "span"),
        PROPERTIES,
    ),
)
ENTRIES = MessageDescriptor("Entries", (Field(1, "items", "span", most=65_536),))
ENTRY = MessageDescriptor("Entry", (Field(1, "header", "span"), Field(2, "event", "span")))
HEADER = MessageDescriptor(
    "Header",
    (
        Field(1, "version", "int32"),
        Field(2, "sourceType", "int32"),
        Field(3, "messageType", "int32"),
        Field(4, "timestamp", "uint32"),
        Field(5, "serverId", "int64"),
        Field(6, "fileName", "string"),
        Field(7, "position", "uint64"),
        Field(8, "gtid", "string"),
        Field(9, "schemaName", "string"),
        Field(10, "tableName", "string"),
        Field(11, "seqId", "uint64"),
        Field(12, "eventIndex", "uint64"),
        Field(13, "isLast", "bool"),
        PROPERTIES,
    ),
)
_BEGIN = MessageDescriptor("BeginEvent", (Field(1, "transactionId", "string"), Field(2, "threadId", "int64")))
_COMMIT = MessageDescriptor("CommitEvent", (Field(1, "transactionId", "string"),))
_HEARTBEAT = MessageDescriptor("HeartbeatEvent", (Field(1, "epoch", "int64"),))
_CHECKPOINT = MessageDescriptor(
    "CheckpointEvent",
    (
        Field(1, "syncedGtid", "string"),
        Field(2, "fakeGtid", "bool"),
        Field(3, "fileName", "string"),
        Field(4, "position", "uint64"),
    ),
)
_DDL = MessageDescriptor(
    "DDLEvent", (Field(1, "schemaName", "string"), Field(2, "sql", "string"), Field(3, "executionTime", "uint32"))
)
EVENT = MessageDescriptor(
    "Event",
    (
        Field(1, "beginEvent", _BEGIN),
        Field(2, "dmlEvent", "span"),
        Field(3, "commitEvent", _COMMIT),
        Field(4, "ddlEvent", _DDL),
        Field(5, "rollbackEvent", MessageDescriptor("RollbackEvent")),
        Field(6, "heartbeatEvent", _HEARTBEAT),
        Field(7, "checkpointEvent", _CHECKPOINT),
        PROPERTIES,
    ),
)
BODIES = {
    BEGIN: "beginEvent",
    COMMIT: "commitEvent",
    DML: "dmlEvent",
    DDL: "ddlEvent",
    ROLLBACK: "rollbackEvent",
    HEARTBEAT: "heartbeatEvent",
    CHECKPOINT: "checkpointEvent",
}
COLUMN = MessageDescriptor(
    "Column",
    (Field(1, "name", "string"), Field(2, "originalType", "string"), Field(3, "isKey", "bool"), PROPERTIES),
)
DATA = MessageDescriptor(
    "Data",
    (Field(1, "dataType", "int32"), Field(2, "charset", "string"), Field(3, "sv", "string"), Field(4, "bv", "bytes")),
)
CHANGE = MessageDescriptor(
    "RowChange",
    (
        Field(1, "oldColumns", "span", most=MAX_COLUMNS),
        Field(2, "newColumns", "span", most=MAX_COLUMNS),
        PROPERTIES,
    ),
)
DML_EVENT = MessageDescriptor(
    "DMLEvent",
    (
        Field(1, "dmlEventType", "int32"),
        Field(2, "columns", "span", most=MAX_COLUMNS),
        Field(3, "rows", "span", most=131_072),
    ),
)
