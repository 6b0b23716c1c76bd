"""The log of a history as TiCDC and Tencent DTS send it: changes that the product's own encoders write as records.

TiCDC   One commit_ts for a transaction, which has the last state of each row: a row that is written and deleted in it is not
        sent, and a row that changes its key is deleted and inserted. Virtual columns have no values. Statements are TiDB's own
        text, one for each table, with the table's columns. Marks come now and then, and at the end.
DTS     The log as it is, with the session's database beside each statement. Checkpoints come from the encoder.

A producer changes values that its protocol cannot hold. A history with such values is lost for this protocol: see `lost_value`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from changefeed.codec.encoding import encoder
from changefeed.model import text
from changefeed.model.table import canonical
from changefeed.model.types import ColumnType
from changefeed.protocols import protocol
from changefeed.protocols.base import ClosingEncoder
from changefeed.stages.image import BEFORE
from changefeed.stores import stores_of
from tests.live.history import History

Line = dict[str, Any]
Record = dict[str, Any]
_State = tuple[dict[str, Any], dict[str, str]]
_TSO_BITS = 18  # of a TSO behind its milliseconds
_BASE = 454_000_000_000_000_000
_EXTENDED = {"enable-tidb-extension": True}
# protocol -> options of the producer, one of which a history is sent with
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "ticdc-open": [{}, {"only-output-updated-columns": True}, {"max-batch-size": 1, "profile": "classic"}],
    "ticdc-avro": [
        {**_EXTENDED, "avro-enable-watermark": True},
        {**_EXTENDED, "avro-enable-watermark": True, "avro-decimal-handling-mode": "string",
         "avro-bigint-unsigned-handling-mode": "string", "integrity-check-level": "correctness"},
    ],
    "ticdc-debezium": [
        {**_EXTENDED, "null-with-default": "null"},
        {**_EXTENDED, "null-with-default": "null", "debezium-disable-schema": True},
    ],
    "canal-json": [_EXTENDED, {**_EXTENDED, "content-compatible": True}],
    "tencent-dts": [{"checkpoint_interval": 1}, {"checkpoint_interval": 1, "merge_entries": False}],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sent:
    """The records that a producer has sent.

    Attributes:
        options: with which the records are read.
        records: with the columns of `model.batch.RECORDS`.
    """

    protocol: str
    options: dict[str, Any]
    records: list[Record]


def sent_as(name: str, history: History, folder: Path, random: Random, *, most: int, keyed: bool) -> Sent:
    """A history's log as records of a protocol.

    Args:
        name: of the protocol.
        history: with its log.
        folder: an empty one, for a schema registry.
        random: chooses the options, the marks, and the topics and partitions.
        most: partitions of a topic, at most; with 1, there is one topic.
        keyed: all changes of a row are in one partition.
    """
    options = dict(random.choice(OPTIONS[name]))
    if name == "ticdc-avro":
        options["schema-registry"] = str(folder / "schemas.json")
    partitions = random.randint(1, most)
    if name == "tencent-dts":
        lines = list(dts_lines(history))
        spread: dict[str, Any] = {"partitions": partitions}
    else:
        lines = list(ticdc_lines(history.log, random))
        spread = {
            "partition-num": partitions,
            "partition": random.choice(["table", "index-value", *([] if keyed else ["ts"])]),
        }
        if most > 1 and random.random() < 0.5:
            spread["topic"] = "{schema}_{table}"
    has_keys = all(line["keys"] for line in lines if line["kind"] == "row")
    records = list[Record]()
    if name != "tencent-dts" and "topic" not in spread and (has_keys or not keyed) and random.random() < 0.5:
        records = _with_restart(name, options | spread, lines, random)
    return Sent(name, options, records or _Producer(name, options | spread).records(lines))


class _Producer:
    """A producer from its start to its end."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        settings = protocol(name).read_options(options)
        self._encoder = encoder(name, settings, stores_of(settings))

    def records(self, lines: Iterable[Line]) -> list[Record]:
        """The records of further lines."""
        batches = [self._encoder.encode(events) for events in text.parse(map(canonical, lines))]
        if isinstance(self._encoder, ClosingEncoder):
            batches.append(self._encoder.finish())
        return [record for batch in batches for record in batch.to_pylist()]


def _with_restart(name: str, options: dict[str, Any], lines: list[Line], random: Random) -> list[Record]:
    """The records of a TiCDC that stops somewhere, and sends everything above a mark again; empty without a mark before that.

    What it had sent last is in some partitions, and in others not yet.
    """
    end = random.randrange(len(lines))
    marks = [number for number, line in enumerate(lines[:end]) if line["kind"] == "resolved"]
    if not marks:
        return []
    mark = random.choice(marks[-3:])
    shapes = [line for line in lines[:mark] if line["kind"] == "shape"]
    first = _Producer(name, options)
    records, unsure = first.records(lines[: mark + 1]), first.records(shapes + lines[mark + 1 : end])
    counts = Counter((record["topic"], record["partition"]) for record in unsure)
    left = {at: random.randint(0, count) for at, count in counts.items()}
    for record in unsure:
        at = record["topic"], record["partition"]
        left[at] -= 1
        records += [record] if left[at] >= 0 else []
    records += _Producer(name, options).records(shapes + lines[mark:])
    offsets = Counter[tuple[str, int]]()
    for record in records:
        at = record["topic"], record["partition"]
        record["offset"] = offsets[at]
        offsets[at] += 1
    return records


def lost_value(name: str, log: Iterable[Line]) -> str:
    """A value that a protocol cannot hold, of those in the rows of a log; empty if there is none.

    TiCDC's Debezium sends decimals as doubles, and has neither years before 100 nor zero dates.
    """
    if name != "ticdc-debezium":
        return ""
    kinds: dict[str, dict[str, str]] = {}
    for line in log:
        if line["kind"] == "shape":
            kinds[line["shape"]] = {c["name"]: ColumnType.parse(c["type"]).name for c in line["columns"]}
        if line["kind"] != "row":
            continue
        if line["irregular"]:
            return f"irregular: {line['irregular']}"
        for image in (line["before"] or {}, line["after"] or {}):
            for column, value in image.items():
                if value is not None and _is_lost(kinds[line["shape"]][column], value):
                    return f"{column}: {value}"
    return ""


def _is_lost(kind: str, value: Any) -> bool:
    match kind:
        case "decimal":
            return Decimal(repr(float(value))) != Decimal(value)
        case "date" | "datetime":
            return int(value[:4]) < 100
        case "timestamp":
            return str(value) < "1970-01-01T00:00:01"
    return False


def dts_lines(history: History) -> Iterator[Line]:
    """The log's lines, as they are."""
    for number, line in enumerate(history.log):
        if line["kind"] == "shape":
            yield line
            continue
        line = {**line, "position": f"log:0:{number}"}
        if line["kind"] == "schema":
            seconds = line.pop("seconds")
            line = {name: line[name] for name in ("kind", "type", "database", "ddl", "commit_ts", "position")}
            line |= {"commit_time": _time(seconds), "origin": {"connector": history.server}}
        yield line


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ticdc_lines(log: Iterable[Line], random: Random) -> Iterator[Line]:
    """The log's lines as TiCDC sends them; see the head of this file."""
    number, ts = 0, _BASE

    def placed(line: Line) -> Line:
        nonlocal number
        number += 1
        resolved = {"partition": 0} if line["kind"] == "resolved" else {}
        return {**line, **resolved, "commit_ts": ts, "position": f"log:0:{number}"}

    for lines in _together(_without_virtual(log)):
        if lines[0]["kind"] == "shape":
            yield lines[0]
            continue
        ts += random.randint(1, 5) << _TSO_BITS
        changes = _statements(lines[0]) if lines[0]["kind"] == "schema" else _final_states(lines)
        yield from map(placed, changes)
        if random.random() < 0.2:
            yield placed({"kind": "resolved"})
    ts += 1 << _TSO_BITS
    yield placed({"kind": "resolved"})


def _without_virtual(log: Iterable[Line]) -> Iterator[Line]:
    """The log without the values of virtual columns."""
    shapes: dict[str, Line] = {}
    virtual: dict[str, frozenset[str]] = {}  # `database.table` -> the columns that it has now
    seen = set[str]()
    for line in log:
        if line["kind"] == "shape":
            shapes[line["shape"]] = line
            continue
        if line["kind"] == "schema":
            for name, columns in line["defined"].items():
                virtual[name] = frozenset(column["name"] for column in columns if column["virtual"])
        if line["kind"] == "row":
            shape, left_out = shapes[line["shape"]], virtual[f"{line['database']}.{line['table']}"]
            own = [column for column in shape["columns"] if column["name"] not in left_out]
            name = canonical([line["database"], line["table"], own])
            if name not in seen:
                seen.add(name)
                yield {**shape, "shape": name, "columns": own, "wire": None}
            images = {side: line[side] and _rest(line[side], left_out) for side in ("before", "after")}
            irregular = _rest(line["irregular"], {*left_out, *(BEFORE + column for column in left_out)})
            line = {**line, **images, "irregular": irregular, "shape": name}
        yield line


def _rest(image: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in image.items() if name not in left_out}


def _together(log: Iterable[Line]) -> Iterator[list[Line]]:
    """A shape or a statement, or the rows of a transaction."""
    rows: list[Line] = []
    for line in log:
        if line["kind"] == "row":
            rows.append(line)
        elif line["kind"] == "transaction":
            if rows and line["status"] == "end":
                yield rows
                rows = []
        else:
            yield [line]
    assert not rows, "the log ends inside of a transaction"


def _statements(line: Line) -> Iterator[Line]:
    """The events of a statement."""
    for one in line["restored"] or ():
        database, table = one["database"].lower(), one["table"].lower()
        defined = line["defined"].get(f"{database}.{table}")
        yield {
            "kind": "schema", "type": line["type"], "database": database, "table": table or None, "ddl": one["query"],
            "columns": defined and [_rest(column, ("virtual",)) for column in defined],
        }  # fmt: skip


@dataclass(slots=True)
class _Row:
    """The first and the last state of a row in a transaction, each with its irregular values, and the line with the last one."""

    first: _State | None
    last: _State | None
    line: Line


def _final_states(lines: list[Line]) -> list[Line]:
    """The rows of a transaction: deletes first, then updates, then inserts."""
    rows: dict[str, _Row] = {}
    for number, line in enumerate(lines):
        before, after = _states(line)
        for state, is_before in ((before, True), (after, False)):
            if state is None:
                continue
            key = [line["database"], line["table"], [state[0][name] for name in line["keys"]] or number]
            row = rows.setdefault(json.dumps(key), _Row(state if is_before else None, None, line))
            row.last, row.line = (None if is_before else state), line
    final = [_final(row) for row in rows.values() if row.first is not None or row.last is not None]
    return sorted(final, key=lambda line: ("delete", "update", "insert").index(line["op"]))


def _states(line: Line) -> tuple[_State | None, _State | None]:
    """The row before and after a change."""
    before, after, irregular = line["before"], line["after"], line["irregular"]
    if before is None or after is None:
        return (before and (before, irregular)), (after and (after, irregular))
    prefixed = {name for name in irregular if name.startswith(BEFORE)}
    its = {name.removeprefix(BEFORE): irregular[name] for name in prefixed}
    return (before, its), (after, {name: irregular[name] for name in irregular.keys() - prefixed})


def _final(row: _Row) -> Line:
    """The one change from the first state to the last."""
    op = "delete" if row.last is None else "insert" if row.first is None else "update"
    before, its = row.first or (None, {})
    after, irregular = row.last or (None, {})
    prefix = BEFORE if op == "update" else ""
    return {
        **{name: row.line[name] for name in ("kind", "database", "table", "shape", "keys")}, "op": op, "before": before,
        "after": after, "irregular": {**{prefix + name: value for name, value in its.items()}, **irregular},
    }  # fmt: skip
