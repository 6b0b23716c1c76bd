"""The parts of an event that a protocol can carry or lose, by the keys that capabilities and losses use.

The keys are those of `decode --json`. A key that begins with `delete.` applies to deletes, the same key without it to all
other rows. `position` and `origin` are not listed: the first always comes from the record, the second is what only one
protocol has.
"""

from __future__ import annotations

# key -> what survives where it does, in the order in which tables show them
KEYS: dict[str, str] = {
    "op.insert": "an insert stays an insert",
    "op.update": "an update stays an update",
    "op.delete": "a delete stays a delete",
    "op.read": "a row of a snapshot stays a row of a snapshot",
    "op.upsert": "an upsert stays an upsert",
    "names": "names of databases, tables and columns, verbatim",
    "keys": "the names of the handle key's columns",
    "before": "the before image of an update, with all its columns",
    "after": "the after image, with all its columns",
    "delete.keys": "the handle key of a deleted row",
    "delete.before": "the other columns of a deleted row",
    "values": "values as they were: digits, sign, bytes",
    "types": "the columns' MySQL types with length, precision and members",
    "members": "values of ENUM and SET as texts, not as numbers",
    "irregular": "values that their type cannot hold, verbatim",
    "commit_ts": "the upstream's number of the transaction",
    "commit_time": "when it committed, to the second",
    "commit_time.ms": "its milliseconds",
    "delete.commit_ts": "the number of the transaction of a delete",
    "delete.commit_time": "when a delete committed, to the second",
    "order": "a commit_ts or a sequence in every row and schema change",
    "gtid": "the GTID of the transaction, in `transaction.id` or `origin.gtid`",
    "transaction.id": "the transaction's name, whatever it is: start ts, xid",
    "transaction.order": "the row's number in its transaction",
    "transaction.table_order": "its number among the transaction's rows of its table",
    "transaction-mark": "begin and end of transactions",
    "schema": "schema changes, with their table",
    "schema.ddl": "the statement",
    "schema.columns": "the table's columns after the change",
    "schema.commit_ts": "its commit_ts",
    "schema.commit_time": "when it committed, to the second",
    "resolved": "resolved events",
    "checkpoint": "promises that nothing follows below their sequence number",
    "heartbeat": "heartbeats",
}
