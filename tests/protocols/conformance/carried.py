"""Keys that events have, and keys that came through a protocol: the measure for the losses that protocols declare.

A slice of a history is a few events of every kind. `there` returns its keys: for each key of the vocabulary the values
that stand for it. A key came through if all its values are on the other side. Events are sent one by one, so that no
event helps another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from changefeed.model import text
from changefeed.model.batch import Decoded
from changefeed.model.event import SchemaChange
from changefeed.model.keys import KEYS
from changefeed.model.table import canonical
from changefeed.protocols.base import ClosingEncoder, Protocol, Stores
from tests.protocols.conformance.cases import History, Schemas, decode, lines

Event = dict[str, Any]
EACH = 1  # of the events of one kind and table in a slice
# Options without which a protocol cannot write most columns of other protocols; they do not change the keys that it carries.
TEXTS = {"ticdc-avro": {"avro-decimal-handling-mode": "string"}}
_SMALL = {"max-message-bytes": 300}  # so that rows are too large for a message
_TIME = re.compile(r"-?(\d{4}-\d\d-\d\d[ T])?\d+:\d\d:\d\d\.\d+Z?$")
_UNUSUAL = re.compile(r"\W")
_ZEROS = re.compile(r"\.?0+(?=Z?$)")
_GTID = re.compile(r"[0-9a-f-]{36}:[0-9]+|[0-9]+-[0-9]+-[0-9]+")

SHAPE = {"kind": "shape", "shape": "made", "database": "shop", "table": "made", "wire": None}
COLUMNS = [
    {"name": "id", "type": "bigint", "nullable": False, "key": True},
    {"name": "day", "type": "date", "nullable": True, "key": False},
    {"name": "color", "type": "enum('red','blue')", "nullable": True, "key": False},
]
ROW: dict[str, Any] = {
    "kind": "row",
    "database": "shop",
    "table": "made",
    "shape": "made",
    "keys": ["id"],
    "before": None,
}
ROW |= {"after": {"id": 1, "day": "2026-01-02", "color": "red"}, "commit_ts": 463267587983154927}
ROW |= {"commit_time": "2026-01-01T00:00:01.132Z", "transaction": None, "origin": None, "irregular": {}}
GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:6"
# Events that occur in no history.
MADE: tuple[Event, ...] = (
    {**ROW, "op": "read"},
    {**ROW, "op": "upsert"},
    {**ROW, "op": "insert", "after": {**ROW["after"], "day": None}, "irregular": {"day": "2026-02-31"}},
    {**ROW, "op": "insert", "transaction": {"id": "463267587983154926", "order": 2, "table_order": 1}},
    {**ROW, "op": "insert", "origin": {"gtid": GTID}},
    {**ROW, "op": "insert", "transaction": {"id": GTID}},
    {
        **{"kind": "schema", "type": "create_table", "database": "shop", "table": "made"},
        **{"ddl": "CREATE TABLE `made` (`id` BIGINT PRIMARY KEY)", "columns": COLUMNS[:1]},
        **{"commit_ts": ROW["commit_ts"], "commit_time": ROW["commit_time"], "origin": None},
    },
    {"kind": "heartbeat", "commit_time": ROW["commit_time"], "origin": None},
)


_parts: dict[str, tuple[tuple[str, ...], ...]] = {}


def part(history: History) -> tuple[tuple[str, ...], ...]:
    """Lines of a history, a few of each kind, each event with the shape that it names; no row moves to another key."""
    if history.file not in _parts:
        _parts[history.file] = tuple(_chosen(history))
    return _parts[history.file]


def _chosen(history: History) -> Iterator[tuple[str, ...]]:
    shapes: dict[str, str] = {}
    chosen: dict[tuple[Any, ...], list[tuple[str, ...]]] = {}
    for line in lines(decode(history)):
        event = json.loads(line)
        if event["kind"] == "shape":
            shapes[event["shape"]] = line
            continue
        like = (
            event["kind"],
            event.get("op"),
            event.get("status"),
            event.get("table"),
            "checkpoint" in (event["origin"] or {}),
        )
        if event["kind"] == "schema" and event["table"] is None and not event["type"].endswith("_database"):
            continue  # a statement that changes no table, such as SET or USE
        if len(chosen.setdefault(like, [])) < EACH and not moves(event):
            chosen[like].append((shapes[event["shape"]], line) if event["kind"] == "row" else (line,))
    return (one for several in chosen.values() for one in several)


@cache
def made() -> tuple[tuple[str, ...], ...]:
    """The lines of `MADE`."""
    shape = canonical({**SHAPE, "columns": COLUMNS})
    placed = ({**event, "position": f"made:0:{n}"} for n, event in enumerate(MADE))
    return tuple((shape, canonical(e)) if e["kind"] == "row" else (canonical(e),) for e in placed)


def unusual_name() -> tuple[str, ...]:
    """The lines of a row whose table name has other characters than letters and digits; it is a witness for names alone."""
    named = {"table": "ma-de"}
    row = {**ROW, **named, "op": "insert", "position": f"made:0:{len(MADE)}"}
    return canonical({**SHAPE, **named, "columns": COLUMNS}), canonical(row)


def moves(event: Event) -> bool:
    """Whether a row leaves its handle key: some protocols write two rows for that."""
    old, new = event.get("before"), event.get("after")
    return bool(old and new and any(old.get(k) != new.get(k) for k in event["keys"]))


def foreign(line: str) -> str:
    """A line as if it had been decoded from an unknown protocol."""
    event = json.loads(line)
    if event["kind"] == "shape":
        return canonical({**event, "wire": None})
    origin = event["origin"] or {}
    gtid = {"gtid": origin["gtid"]} if "gtid" in origin else {}
    checkpoint = {"checkpoint": origin["checkpoint"]} if "checkpoint" in origin else {}
    return canonical({**event, "origin": {**gtid, **checkpoint} or None})


class Trip:
    """Sends events through a protocol with some options, and schemas in memory."""

    def __init__(self, chosen: Protocol, options: dict[str, Any]) -> None:
        small = _SMALL if "large-message-handle-option" in options else {}
        self.chosen, self.options = chosen, chosen.read_options({**TEXTS.get(chosen.name, {}), **small, **options})
        schemas = Schemas()
        self._stores = Stores(get_schema=schemas.get, register_schema=schemas.register)

    def __call__(self, event: Iterable[str]) -> list[Decoded]:
        """Encodes one event by a new encoder and decodes the records by a new decoder; the encoder may refuse it."""
        encoder = self.chosen.encoder(self.options, self._stores)
        decoder = self.chosen.decoder(self.options, self._stores)
        written = [encoder.encode(changes) for changes in text.parse(event)]
        if isinstance(encoder, ClosingEncoder):
            written.append(encoder.finish())
        return [decoder.decode(records) for records in written]


def there(changes: Iterable[Decoded]) -> dict[str, set[str]]:
    """Key -> the values that stand for it in these changes."""
    values: dict[str, set[str]] = {}
    for decoded in changes:
        assert not decoded.dead, decoded.dead[0].error
        shapes: dict[str, Event] = {}
        for event in map(json.loads, lines(decoded)):
            if event["kind"] == "shape":
                shapes[event["shape"]] = {c["name"]: c["type"] for c in event["columns"]}
                continue
            marks = _row(event, shapes[event["shape"]]) if event["kind"] == "row" else _control(event)
            for key, value in marks:
                assert key in KEYS
                values.setdefault(key, set()).add(canonical([event.get("database"), event.get("table"), value]))
        for what, ordered in _ordered(decoded):
            values.setdefault("order", set()).add(what if ordered else "")
    return values


def _ordered(decoded: Decoded) -> Iterator[tuple[str, bool]]:
    """Table or schema change, and whether it has a commit_ts or a sequence."""
    for table in decoded.tables:
        numbers = zip(table.rows.column("commit_ts"), table.rows.column("sequence"), strict=True)
        yield f"{table.shape.table} {table.rows.column('op')}", all(a.is_valid or b.is_valid for a, b in numbers)
    for event in decoded.control:
        if isinstance(event, SchemaChange):
            yield event.type, event.commit_ts is not None or event.sequence is not None


def _row(event: Event, types: dict[str, str]) -> Iterator[tuple[str, Any]]:
    deleted = event["op"] == "delete"
    image = event["before"] if deleted else event["after"]
    key = [name for name in event["keys"] if name in image]
    yield f"op.{event['op']}", True
    names = [event["database"], event["table"], *sorted(image)]
    yield from [("names", names)] if any(map(_UNUSUAL.search, names)) else []
    yield from [("keys", sorted(key))] if key else []
    if deleted:
        yield from [("delete.keys", sorted(key))] if key else []
        yield "delete.before", [column for column in _columns(image) if column[0] not in key]
    else:
        yield "after", _columns(image)
        yield from [("before", _columns(event["before"]))] if event["before"] else []
        yield "values", {name: _value(value) for name, value in image.items() if not _has_members(types[name])}
        yield from (("members", [name, v]) for name, v in image.items() if _has_members(types[name]) and type(v) is str)
    yield from (("types", [name, types[name]]) for name in image)
    yield from [("irregular", event["irregular"])] if event["irregular"] else []
    yield from _when(event, "delete." if deleted else "")
    yield from _transaction(event)


def _columns(image: Event) -> list[tuple[str, bool]]:
    """The columns of an image, with whether they are NULL."""
    return sorted((name, value is None) for name, value in image.items())


def _value(value: Any) -> Any:
    """A value to compare: a time without trailing zeros, as their number depends on the type, and an integer as its digits."""
    if type(value) is str and _TIME.match(value):
        return _ZEROS.sub("", value)
    return str(value) if type(value) is int else value


def _has_members(kind: str) -> bool:
    return kind.startswith(("enum", "set"))


def _when(event: Event, prefix: str) -> Iterator[tuple[str, Any]]:
    ts, time = event["commit_ts"], event["commit_time"]
    yield from [(f"{prefix}commit_ts", ts)] if ts is not None else []
    yield from [(f"{prefix}commit_time", time[:19])] if time is not None else []
    if not prefix and time is not None and len(time) > len("2026-01-01T00:00:01Z"):
        yield "commit_time.ms", time[:23]


def _transaction(event: Event) -> Iterator[tuple[str, Any]]:
    transaction = event["transaction"] or {}
    gtid = (event["origin"] or {}).get("gtid") or transaction.get("id") or ""
    if _GTID.fullmatch(gtid):
        yield "gtid", gtid
    elif "id" in transaction:
        yield "transaction.id", transaction["id"]
    yield from ((f"transaction.{name}", transaction[name]) for name in ("order", "table_order") if name in transaction)


def _control(event: Event) -> Iterator[tuple[str, Any]]:
    match event["kind"]:
        case "schema":
            yield "schema", True
            yield from [("schema.ddl", event["ddl"])] if event["ddl"] else []
            yield from [("schema.columns", [c["name"] for c in event["columns"]])] if event["columns"] else []
            yield from _when(event, "schema.")
        case "resolved":
            yield "resolved", event["commit_ts"]
        case "transaction":
            yield "transaction-mark", [event["status"], event["id"]]
        case "heartbeat" if "checkpoint" in (event["origin"] or {}):
            yield "checkpoint", True
        case "heartbeat":
            yield "heartbeat", event["commit_time"][:19]
