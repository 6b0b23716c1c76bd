"""Reads the envelope of a row (source block, clock, transaction) into an origin, and writes it from one.

    ≤ 2.5  before after source op ts_ms transaction
    2.6    before after source op ts_ms ts_us ts_ns transaction
    ≥ 2.7  before after source transaction op ts_ms ts_us ts_ns

    source  version connector name ts_ms snapshot db sequence [ts_us ts_ns] table server_id gtid file pos row thread query

Rule 1. The origin has the members of the source block by name, except db, table and the time, which are attributes of the
        event. A member that the origin lacks is null, or "false" for `snapshot`.
Rule 2. The time is `ts_us`, else `ts_ms`. The other two are in the origin if they differ from it.
Rule 3. The connector's clock (`ts_ms`, `ts_us`, `ts_ns` of the envelope) is the origin's `envelope`: only `ts_ns`, if the
        other two are the same reading, truncated.
Rule 4. Unknown members are kept verbatim in the origin's `sent`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from changefeed.connect import java_json
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.event import Instant
from changefeed.protocols.debezium_mysql.values.reading import show
from changefeed.protocols.debezium_mysql.values.times import as_number

OPS = {"c": "insert", "u": "update", "d": "delete", "r": "read", "t": "truncate"}
CLOCK = ("ts_ms", "ts_us", "ts_ns")
ENVELOPE = frozenset({"before", "after", "source", "transaction", "op", *CLOCK})
CONNECTORS = frozenset({"mysql", "mariadb"})
TEXTS = ("version", "connector", "name", "sequence", "gtid", "file", "query")
INTEGERS = ("server_id", "pos", "row", "thread")
_SOURCE = frozenset({*TEXTS, *INTEGERS, *CLOCK, "snapshot", "db", "table"})
_FILE = re.compile(r".*?(\d{1,12})", re.ASCII | re.DOTALL)
_LONGEST_FILE = 512
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
TRANSACTION = {"id": "id", "total_order": "order", "data_collection_order": "table_order"}


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """The content of a source block.

    Attributes:
        time: time of the change.
        sequence: `file number << 40 | pos`; None if the block has no such position.
        origin: see rule 1.
        sent: see rule 4; names begin with `source.`.
    """

    database: str
    table: str | None
    time: Instant | None
    sequence: int | None
    origin: dict[str, Any]
    sent: dict[str, str]


def read_source(tree: Any) -> SourceBlock:
    """Reads the source block of a value.

    Raises:
        SchemaError: the value has no source block, or a member has a wrong type.
    """
    if not isinstance(tree, dict):
        raise SchemaError("value has no source block")
    origin: dict[str, Any] = {}
    for name in (*TEXTS, *INTEGERS):
        value = text(tree, name, "source") if name in TEXTS else integer(tree, name, "source")
        if value is not None:
            origin[name] = value
    if origin.get("connector", "mysql") not in CONNECTORS:
        message = f"connector {show(tree['connector'])} is neither mysql nor mariadb - at `source.connector`"
        raise ProtocolError(message, reason="unknown-kind")
    snapshot = tree.get("snapshot", "false")
    if type(snapshot) not in (str, bool, type(None)):
        raise SchemaError(f"{show(snapshot)} is not a snapshot mark - at `source.snapshot`")
    if snapshot != "false":
        origin["snapshot"] = snapshot
    time = _time(tree, origin)
    return SourceBlock(
        text(tree, "db", "source") or "",
        text(tree, "table", "source"),
        time,
        place(origin),
        origin,
        {f"source.{name}": java_json.write(value) for name, value in tree.items() if name not in _SOURCE},
    )


def _time(tree: dict[str, Any], origin: dict[str, Any]) -> Instant | None:
    ms, us, ns = (integer(tree, name, "source") for name in CLOCK)
    if us is None and ms is None:
        instant = None
    else:
        instant = Instant(us, 6) if us is not None else Instant((ms or 0) * 1000, 3)
        if not _FIRST_US <= instant.us <= _LAST_US:
            raise SchemaError("the time lies outside of the years 1 to 9999 - at `source`")
    derived = _times(instant)
    for name, value in (("ts_ms", ms), ("ts_us", us), ("ts_ns", ns)):
        if name in tree and value != derived[name]:
            origin[name] = value
    return instant


def _times(time: Instant | None) -> dict[str, int | None]:
    if time is None:
        return dict.fromkeys(CLOCK)
    fine = time.digits == 6
    return {"ts_ms": time.us // 1000, "ts_us": time.us if fine else None, "ts_ns": time.us * 1000 if fine else None}


def place(origin: dict[str, Any]) -> int | None:
    """Returns `file number << 40 | pos`, the order of changes; None without a numbered file or a position in it."""
    file, pos = origin.get("file"), origin.get("pos")
    match = _FILE.fullmatch(file) if isinstance(file, str) and len(file) <= _LONGEST_FILE else None
    if match is None or not isinstance(pos, int) or not 0 <= pos < 1 << 40:
        return None
    number = int(match[1])
    return number << 40 | pos if number < 1 << 24 else None


def write_source(
    names: Iterable[str], database: str, table: str | None, time: Instant | None, origin: dict[str, Any]
) -> dict[str, Any]:
    """Returns the source block with these members."""
    times, sent = _times(time), origin.get("sent", {})
    tree: dict[str, Any] = {}
    for name in names:
        if name == "db":
            tree[name] = database
        elif name == "table":
            tree[name] = table
        elif name in times:
            tree[name] = origin.get(name, times[name])
        elif name == "snapshot":
            tree[name] = origin.get(name, "false")
        elif name in _SOURCE:
            tree[name] = origin.get(name)
        else:
            tree[name] = java_json.read(sent.get(f"source.{name}", "null").encode(), "origin")
    return tree


def read_clock(tree: dict[str, Any]) -> dict[str, Any]:
    """Reads the connector's clock; returns the origin's `envelope`."""
    clock = {name: integer(tree, name, "envelope") for name in CLOCK if name in tree}
    ns = clock.get("ts_ns")
    if len(clock) == 3 and ns is not None and clock["ts_us"] == ns // 1000 and clock["ts_ms"] == ns // 1_000_000:
        return {"ts_ns": ns}
    return clock


def write_clock(envelope: dict[str, Any], time: Instant | None) -> dict[str, Any]:
    """Returns the members of the clock; without a reading, they are the time of the change."""
    if not envelope:
        return _times(time)
    ns = envelope.get("ts_ns")
    if envelope.keys() == {"ts_ns"} and isinstance(ns, int):
        return {"ts_ms": ns // 1_000_000, "ts_us": ns // 1000, "ts_ns": ns}
    return {name: envelope.get(name) for name in CLOCK}


def read_transaction(tree: Any) -> dict[str, Any] | None:
    """Reads the transaction block; None for null.

    Raises:
        SchemaError: the value is not a transaction block.
    """
    if tree is None:
        return None
    if not isinstance(tree, dict) or tree.keys() != TRANSACTION.keys():
        raise SchemaError(f"{show(tree)} is not a transaction block")
    counts = {ours: integer(tree, name, "transaction") for name, ours in TRANSACTION.items() if name != "id"}
    return {"id": text(tree, "id", "transaction"), **counts}


def write_transaction(transaction: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the transaction block of an event's transaction."""
    if transaction is None or all(value is None for value in transaction.values()):
        return None
    return {name: transaction.get(ours) for name, ours in TRANSACTION.items()}


def text(tree: dict[str, Any], name: str, path: str) -> str | None:
    """Returns a member that must be a string, or None if it is null or missing.

    Raises:
        SchemaError: the member is not a string.
    """
    value = tree.get(name)
    if value is not None and type(value) is not str:
        raise SchemaError(f"{show(value)} is not a string - at `{path}.{name}`")
    return value


def integer(tree: dict[str, Any], name: str, path: str) -> int | None:
    """Returns a member that must be an integer of 64 bits, or None if it is null or missing.

    Raises:
        SchemaError: the member is not such an integer.
    """
    value = tree.get(name)
    if value is None:
        return None
    if not as_number(value):
        raise SchemaError(f"{show(value)} is not an integer - at `{path}.{name}`")
    return int(value)


def required(value: Any, name: str, path: str) -> Any:
    """Returns the value, after checking that it is not None."""
    if value is None:
        raise SchemaError(f"{path} has no {name}")
    return value
