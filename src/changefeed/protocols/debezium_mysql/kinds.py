"""The kind of a record, by the members of its value.

    kind            members                                           also, where values are rows without envelope
    row             op and source                                     the source is a struct, which no column is
    schema change   ddl, source and databaseName                      the same
    transaction     status and event_count                            exactly those of a mark; not in a table's topic
    heartbeat       ts_ms alone                                       the key's member is serverName, or not in a table's topic
    notification    aggregate_type                                    exactly those of a notification; not in a table's topic
    signal          type and data alone, maybe id, without a schema   not in a table's topic
    unwrapped                                                         everything else

Rule 1. Without the option `unwrap` each value has an envelope: its members are the connector's.
Rule 2. With it, the members are columns that may have any name. The name of the schema decides, where there is one: a mark's is
        the connector's own, a row's ends with `.Value`. Otherwise the topic does: a table's has three parts.
"""

from __future__ import annotations

from typing import Any, Literal

from changefeed.connect.parts import ConnectPart
from changefeed.protocols.debezium_mysql import marks, notices
from changefeed.protocols.debezium_mysql.options import Options

Kind = Literal["row", "schema change", "transaction", "heartbeat", "notification", "signal", "unwrapped"]
_CHANGE, _MARK = {"ddl", "source", "databaseName"}, {"status", "event_count"}
_COMMON = "io.debezium.connector.common."
_SCHEMAS: dict[Kind, str] = {
    "transaction": _COMMON + "TransactionMetadataValue",
    "heartbeat": _COMMON + "Heartbeat",
    "notification": _COMMON + "Notification",
}


def kind(key: ConnectPart | None, value: ConnectPart, topic: str, options: Options) -> Kind | None:
    """Returns the kind of a record whose value is an object; None if it is not an event."""
    tree = value.payload
    if options.unwrap:
        return _kind_beside_rows(key, value, topic, options)
    if notices.is_signal(value):
        return "signal"
    if "op" in tree and "source" in tree:
        return "row"
    if tree.keys() >= _CHANGE:
        return "schema change"
    if tree.keys() >= _MARK:
        return "transaction"
    if tree.keys() == {"ts_ms"}:
        return "heartbeat"
    return "notification" if "aggregate_type" in tree else None


def _kind_beside_rows(key: ConnectPart | None, value: ConnectPart, topic: str, options: Options) -> Kind:
    tree = value.payload
    if isinstance(tree.get("source"), dict) and not tree["source"].keys().isdisjoint({"db", "connector"}):
        if "op" in tree:
            return "row"
        if tree.keys() >= _CHANGE:
            return "schema change"
    likely = _mark(value)
    if likely is None:
        return "unwrapped"
    name = "" if value.schema is None else value.schema.name
    if name == _SCHEMAS.get(likely):
        return likely
    if name.endswith(".Value"):
        return "unwrapped"
    is_of_table = len(topic.rsplit(options.topic_delimiter, 2)) == 3
    return likely if not is_of_table or _has_own_topic(likely, key, tree, topic, options) else "unwrapped"


def _mark(value: ConnectPart) -> Kind | None:
    """Returns the kind of event, other than a row, whose members are exactly those of the value; None if there is none."""
    tree = value.payload
    if tree.keys() == {"ts_ms"}:
        return "heartbeat"
    if tree.keys() == set(marks.TRANSACTION_MEMBERS):
        return "transaction"
    if tuple(tree) == notices.MEMBERS:
        return "notification"
    return "signal" if notices.is_signal(value) else None


def _has_own_topic(likely: Kind, key: ConnectPart | None, tree: dict[str, Any], topic: str, options: Options) -> bool:
    """Whether a topic of three parts is that of a kind of event: the logical name has several parts, too."""
    if likely == "heartbeat":
        own = topic.startswith(options.topic_heartbeat_prefix + options.topic_delimiter)
        return own or (key is not None and key.names == ("serverName",))
    if likely == "transaction":
        own = topic.endswith(options.topic_delimiter + options.topic_transaction)
        return own and tree["status"] in ("BEGIN", "END") and type(tree["data_collections"]) is not str
    return False


def not_an_event(tree: dict[str, Any]) -> str:
    """Returns the error for a value of no kind."""
    members = ", ".join(tree)
    error = f"value is not an event: it has {members[:80] or 'nothing'}"
    return error + ('; if it is a row without envelope, set the option "unwrap"' if tree else "")
