r"""Reads the offset of a Debezium connector, so that a pipeline continues where the connector ended.

    ac ed 00 05 … HashMap … 75 <class [B> length bytes …         offsets.dat of Kafka Connect: keys and values as byte arrays
    ["engine",{"server":"srv1"}]                                  a key
    {"ts_sec":…,"file":"mysql-bin.000003","pos":14159,"gtids":"0-1-51","row":1,"server_id":1,"event":3}          its value

Rule 1. Of the topic of offsets, the file has the values as text, a line each, perhaps behind their keys: the last one counts.
Rule 2. `pos` is where the connector's transaction began, `event` the number of its events that were read, and `row` the number of
        rows that were sent of the event after them. MariaDB sends the statements of rows only to a connector that asks for
        them, so they count or not: the event with the rows decides.
Rule 3. An offset without `row` is that of a transaction's mark: of the beginning, or of the end, in front of the event XID.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changefeed.errors import ConfigError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources.mysql.dump import LogEvent
from changefeed.sources.mysql.source_offset import LogPosition

_SERIALIZED = b"\xac\xed\x00\x05"
_ARRAY = re.compile(rb"\x75(?:\x72\x00\x02\[B.{8}\x02\x00\x00\x78\x70|\x71\x00\x7e..)(.{4})", re.DOTALL)
_MOST_BYTES = 1 << 24
_FILE = re.compile(r"[^:\s]+\.\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DebeziumOffset:
    """The place at which a connector ended.

    Attributes:
        at: the beginning of its transaction, or the end of the last one.
        events: number of events of the transaction that it had read.
        rows: number of rows of the next event that it had sent.
        gtids: of all transactions before it; None if it has none.
    """

    at: LogPosition
    events: int = 0
    rows: int = 0
    gtids: str | None = None


def read_offset(path: str) -> DebeziumOffset:
    """Reads the offset in a file.

    Raises:
        ConfigError: the file cannot be read, or has no offset at which a pipeline can continue.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"source.from-debezium: {error}") from error
    texts = _arrays(data) if data.startswith(_SERIALIZED) else data.decode("utf-8", "replace").splitlines()
    trees = [tree for text in texts for tree in _trees(text)]
    offsets = [tree for tree in trees if isinstance(tree, dict) and "file" in tree and "pos" in tree]
    servers = {str(tree[1].get("server")) for tree in trees if _is_key(tree)}
    if not offsets:
        raise ConfigError(
            f"source.from-debezium: {path} has no offset of a MySQL or MariaDB connector, with `file` and `pos`"
        )
    if len(servers) > 1:
        raise ConfigError(
            f"source.from-debezium: {path} has the offsets of several connectors ({', '.join(sorted(servers))}): keep the one"
        )
    return _offset(offsets[-1], path)


def _offset(value: dict[str, Any], path: str) -> DebeziumOffset:
    if value.get("snapshot") not in (None, False, "false"):
        raise ConfigError(
            f"source.from-debezium: {path} is an offset inside of the connector's snapshot: let the connector finish it, or "
            "start with snapshot.mode `initial`"
        )
    file, numbers = value["file"], [value["pos"], value.get("event", 0), value.get("row", 0)]
    if not (isinstance(file, str) and _FILE.fullmatch(file) and all(type(n) is int and n >= 0 for n in numbers)):
        raise ConfigError(f"source.from-debezium: {path}: {json.dumps(value):.200} is not a position in a binary log")
    gtids = value.get("gtids")
    return DebeziumOffset(
        LogPosition(file, numbers[0]), numbers[1], numbers[2], gtids if isinstance(gtids, str) else None
    )


def _arrays(data: bytes) -> list[str]:
    """The byte arrays of a serialized map, as texts."""
    texts, start = [], 0
    while (match := _ARRAY.search(data, start)) is not None:
        size = int.from_bytes(match[1], "big")
        start = match.end() + size
        texts.append(data[match.end() : start].decode("utf-8", "replace"))
    return texts


def _trees(text: str) -> list[Any]:
    """The JSON values on a line, one behind the other."""
    decoder, trees, at = json.JSONDecoder(), list[Any](), 0
    while (at := min((i for i in (text.find("{", at), text.find("[", at)) if i >= 0), default=-1)) >= 0:
        try:
            tree, at = decoder.raw_decode(text, at)
            trees.append(tree)
        except ValueError:
            at += 1
    return trees


def _is_key(tree: Any) -> bool:
    return isinstance(tree, list) and len(tree) == 2 and isinstance(tree[1], dict) and "server" in tree[1]


def first_unsent(events: Iterable[LogEvent], offset: DebeziumOffset) -> tuple[LogPosition, int]:
    """Returns the event whose rows were not all sent, and the number of those that were: Rules 2 and 3.

    Args:
        events: the log from `offset.at` on.
        offset: of the connector.
    """
    following: list[LogEvent | None] = [None, None]  # counting all events; without the statements of rows
    counts, at = [0, 0], offset.at
    for event in events:
        if not event.placed:
            continue
        at, is_statement = event.end, event.code == codes.ANNOTATE_ROWS
        for way, counted in enumerate((True, not is_statement)):
            if following[way] is None and counted and counts[way] == offset.events:
                following[way] = event
            counts[way] += counted
        if counts[1] > offset.events:
            break
    known = [event for event in following if event is not None]
    if offset.rows:
        return next((event.at for event in known if event.code in KINDS), known[0].at if known else at), offset.rows
    if ends := [event for event in known if event.code == codes.XID]:
        return ends[0].end, 0
    return (known[0].at if known else at), 0
