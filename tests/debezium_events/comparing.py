"""Compares the records of Debezium's engine with those of an event pipeline, for the same statements on one server.

    server ─┬─ engine ──────────────▶ records ┐
            └─ event pipeline ▶ files ▶ records ┴─ topic by topic, in order ─▶ equal, explained, or different

Rule 1. Compared are topic, key, value and headers, byte for byte, except for what two runs of the connector differ in, too: its
        clock, the id of the run, and the time of a snapshot, which each took at its own moment.
Rule 2. A difference is explained if every value in which two records differ is a known defect of the connector: `EXPLAINED`.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from changefeed import record_log
from changefeed.api.events import EventPipeline
from tests.debezium_events.cases import Case
from tests.services.database import Database
from tests.services.debezium import MARKER, VERSIONS, Debezium

DATABASE, PREFIX = "inv", "srv1"
_PASSED_ON = frozenset({
    "decimal.handling.mode", "time.precision.mode", "bigint.unsigned.handling.mode", "binary.handling.mode",
    "tombstones.on.delete", "provide.transaction.metadata", "include.schema.changes", "include.query", "skipped.operations",
    "schema.name.adjustment.mode", "field.name.adjustment.mode", "extended.headers.enabled", "message.key.columns",
})  # fmt: skip
_CLOCK = re.compile(r'("op":"[a-z]"),"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+\}')
_CHANGE_CLOCK = re.compile(r'(\},"ts_ms":)\d+(,"databaseName")')
_COUNTS = re.compile(r'(?<="data_collections":\[\{).*?(?=\}\])')  # in the order of a hash map
_HIDDEN = re.compile(r'("ts_(?:ms|us|ns)"):X')
_TIMES = re.compile(r'"ts_(ms|us|ns)":\d+')


@dataclass(frozen=True)
class Record:
    """A record, with texts."""

    topic: str
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]

    def comparable(self) -> Record:
        """The record without what differs between two runs of the connector: Rule 1."""
        value = self.value
        if value is not None:
            value = _CHANGE_CLOCK.sub(r"\1X\2", _CLOCK.sub(r"\1}", value))
            if '"snapshot":"' in value and '"snapshot":"false"' not in value:
                value = _TIMES.sub(r'"ts_\1":X', value)
            if self.topic.endswith(".transaction"):
                times = _TIMES.sub(r'"ts_\1":X', value)
                value = _COUNTS.sub(lambda match: "},{".join(sorted(match[0].split("},{"))), times)
        headers = tuple((name, None if name.endswith(".runId") else text) for name, text in self.headers)
        return Record(self.topic, self.key, value, headers)


@dataclass
class Compared:
    """The result of a case.

    Attributes:
        equal: number of equal records.
        explained: explanation -> number of records that differ by known defects alone.
        different: pairs of records that differ otherwise; None for a record that is not there.
    """

    case: Case
    equal: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    different: list[tuple[Record | None, Record | None]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of records."""
        return self.equal + sum(self.explained.values()) + len(self.different)


def compare(case: Case, database: Database, folder: Path) -> Compared:
    """Runs a case on a server, with an empty database, and compares the records."""
    database.execute(f"DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE}")
    database.execute(case.text("setup"), DATABASE)
    if case.pre:
        database.execute(case.text("pre"), DATABASE)
    pipeline = EventPipeline.from_dict(_definition(case, database), base=folder)
    pipeline.run()
    with Debezium(database, folder / "engine", _settings(case)) as engine:
        log = folder / "engine" / "engine.log"
        engine.wait_for(lambda: "Connected to 127.0.0.1" in log.read_text(errors="replace"), "streaming")
        if case.streams:
            database.execute(case.text("workload"), DATABASE)
        events = engine.follow(DATABASE)
    pipeline.run()
    theirs = [Record(e["topic"], e["key"], e["value"], tuple((n, v) for n, v in e["headers"])) for e in events]
    return by_topic(case, theirs, list(written(folder / "events")))


def _settings(case: Case) -> dict[str, str]:
    schemas = case.options.get("converter.schemas.enable", "true")
    converters = {
        f"{prefix}converter.{name}": value
        for prefix in ("", "key.", "value.", "header.")
        for name, value in (("schemas.enable", schemas), ("replace.null.with.default", "true"))
    }
    return {
        "topic.prefix": PREFIX, "database.include.list": DATABASE, "provide.transaction.metadata": "false",
        **converters, **case.options,
    }  # fmt: skip


def _definition(case: Case, database: Database) -> dict[str, Any]:
    options: dict[str, Any] = {
        name: {"true": True, "false": False}.get(value, value)
        for name, value in case.options.items()
        if name in _PASSED_ON
    }
    connector = database.connector
    protocol = {
        "name": "debezium-mysql", "connector": connector, "topic.prefix": PREFIX, "replace-null-with-default": True,
        "source-version": VERSIONS[connector], "schemas.enable": case.options.get("converter.schemas.enable") != "false",
        "decimal.format": case.options.get("converter.decimal.format", "BASE64"), "enable.time.adjuster": True,
        "event.converting.failure.handling.mode": "warn", **options,
    }  # fmt: skip
    source = {
        "type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz",
        "tables": [f"{DATABASE}.*"], "snapshot.mode": case.options.get("snapshot.mode", "initial"),
        **case.source,
    }  # fmt: skip
    return {
        "source": source,
        "sink": {"type": "files", "path": "events", "protocol": protocol},
        "pipeline": {"name": "compared", "folder": "state"},
    }


def written(folder: Path) -> Iterator[Record]:
    """Yields the records that an event pipeline has written into a folder."""
    for batch in record_log.read(folder) if folder.is_dir() else ():
        for row in batch.select(["topic", "key", "value", "headers"]).to_pylist():
            headers = tuple((header["key"], _text(header["value"])) for header in row["headers"])
            yield Record(row["topic"], _text(row["key"]), _text(row["value"]), headers)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def by_topic(case: Case, theirs: list[Record], ours: list[Record]) -> Compared:
    """Compares the records topic by topic, in order."""
    topics: dict[str, tuple[list[Record], list[Record]]] = defaultdict(lambda: ([], []))
    for side, records in enumerate((theirs, ours)):
        for record in records:
            if MARKER not in record.topic and MARKER not in (record.value or ""):
                topics[record.topic][side].append(record.comparable())
    result = Compared(case)
    for topic, (expected, written) in sorted(topics.items()):
        if topic.endswith(".transaction"):
            expected, written = _ended(expected, written, result)
        missing = [None] * abs(len(expected) - len(written))
        longer: list[list[Record | None]] = [
            [*records, *(missing if len(records) < max(len(expected), len(written)) else ())]
            for records in (expected, written)
        ]
        for pair in zip(*longer, strict=True):
            _judge(pair[0], pair[1], result)
    return result


def _ended(expected: list[Record], written: list[Record], result: Compared) -> tuple[list[Record], list[Record]]:
    """The marks of transactions that have an end: not those of MariaDB's schema changes, and of the marker at the end."""
    ended = {mark.key for mark in expected if '"status":"END"' in (mark.value or "")}
    last = expected[-1].key if expected else None
    if count := sum(mark.key not in ended and mark.key != last for mark in expected):
        result.explained["a schema change of MariaDB has a BEGIN without END"] += count
    return [mark for mark in expected if mark.key in ended], [mark for mark in written if mark.key in ended]


def _judge(expected: Record | None, written: Record | None, result: Compared) -> None:
    if expected == written:
        result.equal += 1
        return
    reason = None if expected is None or written is None else explanation(expected, written)
    if reason is None:
        result.different.append((expected, written))
    else:
        result.explained[reason] += 1


def explanation(expected: Record, written: Record) -> str | None:
    """Returns the known defects by which alone two records differ; None if there are others: Rule 2."""
    reasons = dict[str, None]()
    for path, theirs, ours in differences(expected, written):
        known = next((name for name, holds in EXPLAINED.items() if holds(path, theirs, ours)), None)
        if known is None:
            return None
        reasons[known] = None
    return "; ".join(reasons)


def unexplained(expected: Record, written: Record) -> list[tuple[str, Any, Any]]:
    """Returns the values in which two records differ and that no known defect explains, with their paths."""
    return [one for one in differences(expected, written) if not any(holds(*one) for holds in EXPLAINED.values())]


def differences(expected: Record, written: Record) -> Iterator[tuple[str, Any, Any]]:
    """Yields the values in which two records differ, with their paths."""
    names = [[name for name, _ in record.headers] for record in (expected, written)]
    if names[0] != names[1]:
        yield "headers", names[0], names[1]
        return
    pairs = [("key", expected.key, written.key), ("value", expected.value, written.value)]
    pairs += [(name, old, new) for (name, old), (_, new) in zip(expected.headers, written.headers, strict=True)]
    for name, old, new in pairs:
        if old is None or new is None:
            if old != new:
                yield name, old, new
        else:
            yield from _differences(tree_of(old), tree_of(new), name)


def tree_of(text: str) -> Any:
    """Returns the JSON of a comparable record; times that were taken out are 0."""
    return json.loads(_HIDDEN.sub(r"\1:0", text))


def _differences(theirs: Any, ours: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict) and [n for n in ours if n in theirs] == list(theirs):
        for name in ours:
            yield from _differences(theirs.get(name), ours[name], f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (old, new) in enumerate(zip(theirs, ours, strict=True)):
            yield from _differences(old, new, f"{path}[{number}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield path, theirs, ours


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(",", "\\,")


def _holds_default(path: str, theirs: Any, ours: Any) -> bool:
    """Whether a default is clamped at the largest number of 64 bits with a sign."""
    return (path.endswith("default") or ".after." in path) and theirs == 2**63 - 1 and ours in (-1, 2**64 - 1)


def _holds_binary(path: str, theirs: Any, ours: Any) -> bool:
    """Whether a default of bytes is the text of its SQL, or lacks the zeros at its end; a NULL is printed as the default."""
    if not (isinstance(theirs, str) and isinstance(ours, str) and (path.endswith("default") or ".after." in path)):
        return False
    for read in (base64.b64decode, bytes.fromhex):
        with suppress(ValueError):
            text, value = read(theirs), read(ours)
            if text.replace(b"\\0", b"\0").rstrip(b"\0") == value.rstrip(b"\0"):
                return True
    return False


def _holds_trimmed(path: str, theirs: Any, ours: Any) -> bool:
    """Whether a snapshot leaves out the zeros at the end of a fraction."""
    if not (isinstance(theirs, str) and isinstance(ours, str) and ours.endswith("Z")):
        return False
    whole, point, fraction = ours[:-1].partition(".")
    return bool(point) and theirs[:-1] == f"{whole}.{fraction.rstrip('0')}".rstrip(".")


def _holds_year_0(path: str, theirs: Any, ours: Any) -> bool:
    """Whether a date of the year 0 is read as one of 2000 or 2001."""
    if ours is not None or not isinstance(theirs, int):
        return False
    return any(theirs // unit in range(10957, 11688) for unit in (1, 86_400_000, 86_400_000_000))


def _holds_quotes(path: str, theirs: Any, ours: Any) -> bool:
    is_text = path.endswith(("default", ".defaultValueExpression", ".comment", ".doc")) or ".after." in path
    return is_text and isinstance(ours, str) and theirs == ours.replace("'", "''")


Holds = Callable[[str, Any, Any], bool]
EXPLAINED: dict[str, Holds] = {
    "labels of ENUM and SET keep the escapes of `allowed`": lambda path, theirs, ours: (
        isinstance(ours, str) and theirs in (_escaped(ours), ours.replace("\\", "\\\\"))
    ),
    "YEAR 0 becomes 1900": lambda path, theirs, ours: (theirs, ours) == (1900, 0),
    "the default of a BIGINT UNSIGNED above 2^63 is 2^63 - 1": _holds_default,
    "a default of BINARY is the text of its SQL, or is not padded": _holds_binary,
    "a snapshot leaves out zeros at the end of a fraction": _holds_trimmed,
    "a snapshot reads a date of the year 0 as one of the year 2000": _holds_year_0,
    "a quote in a default or a comment is doubled": _holds_quotes,
    "a zero TIMESTAMP that may be NULL is 1970-01-01, before version 3.6": lambda path, theirs, ours: (
        ours is None and str(theirs).startswith("1970-01-01T00:00:00")
    ),
    "the default of a UUID is left out": lambda path, theirs, ours: (
        path.endswith(".default") and theirs is None and isinstance(ours, str) and len(ours) == 36
    ),
    "a TIME outside of a day is NULL in the modes connect and isostring": lambda path, theirs, ours: (
        (".after.t" in path or path.endswith(".default"))
        and ((theirs is None and (isinstance(ours, int) or str(ours).endswith("Z"))) or ours == "24:00:00Z")
    ),
    "BOOLEAN is boolean after a statement of the log, and int16 after a snapshot": lambda path, theirs, ours: (
        (theirs, ours) == ("boolean", "int16") or (type(theirs) is bool and theirs == ours)
    ),
    "a UUID that ends with a byte 0 is shifted": lambda path, theirs, ours: (
        ".after." in path
        and all(isinstance(text, str) and len(text) == 36 for text in (theirs, ours))
        and bytes.fromhex(ours.replace("-", "")).rstrip(b"\0") == bytes.fromhex(theirs.replace("-", "")).lstrip(b"\0")
    ),
    "nanoseconds outside of 64 bits overflow, before version 3.6": lambda path, theirs, ours: (
        ".after." in path and ours is None and isinstance(theirs, int) and abs(theirs) > 2**62
    ),
    "a number of rows is left over from the row event before": lambda path, theirs, ours: (
        path.endswith(".source.row") and ours == 0
    ),
}
