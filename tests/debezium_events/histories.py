"""Random histories of DDL and rows: the records of Debezium's engine beside those of an event pipeline, over one binary log.

    python bench/debezium_events.py --server mysql --histories 40 --seed 7

Rule 1. A history during which the engine has died, or misunderstood a statement, is skipped.
Rule 2. Records are compared that have the same topic and place in the log. Marks of transactions are not: those of a history that
        is skipped have no place of their own.
Rule 3. A difference is explained if every value in which two records differ is a known defect of the connector: `comparing`, and
        `DEFECTS`. Records of tables that are in the character set `binary`, or have lost an index, are not compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from changefeed.api.events import EventPipeline
from tests.debezium_events.comparing import Record, tree_of, unexplained, written
from tests.live.engine import misunderstood
from tests.live.history import History
from tests.live.recording import Job, Modes, Round, split
from tests.live.session import Session
from tests.live.writing import Drawing, Repeating
from tests.services.database import Database
from tests.services.debezium import MARKER, PREFIX, VERSIONS, Event

_MODES = Modes("streamed", ("none", "none"), True, False)
_UNSHOWN = re.compile(r"(?:/\*.*?\*/\s*)?(FLUSH|ANALYZE|OPTIMIZE|CHECK|REPAIR)\b", re.IGNORECASE | re.DOTALL)
_BINARY = re.compile(r"CHARACTER SET binary|CHARSET=binary", re.IGNORECASE)
_INDEX = re.compile(r"DROP (?:INDEX|KEY|PRIMARY KEY)|/\*!|INVISIBLE", re.IGNORECASE)
Holds = Callable[[str, Any, Any], bool]
DEFECTS: dict[str, Holds] = {
    "a default is as it is written, not as the server stores it": lambda path, theirs, ours: (
        path.endswith(("default", "defaultValueExpression"))
    ),
    "a change of the log has no mark, not the mark `false`": lambda path, theirs, ours: (
        path.endswith(".source.snapshot") and (theirs, ours) == (None, "false")
    ),
    "a truncate of MariaDB is in the transaction that its BEGIN without END begins": lambda path, theirs, ours: (
        path.endswith("payload.transaction") and ours is None and theirs["total_order"] == 1
    ),
    "CREATE UNIQUE INDEX loses its first word": lambda path, theirs, ours: (
        path.endswith(".ddl") and f"CREATE {theirs}" == ours
    ),
    "INTEGER UNSIGNED of MariaDB is taken for a signed one": lambda path, theirs, ours: (
        (theirs, ours) == ("int32", "int64") or (isinstance(theirs, int) and theirs + 2**32 == ours)
    ),
    "the comment of a table of MariaDB is not that of the statement": lambda path, theirs, ours: path.endswith("table.comment"),
    "texts of MariaDB stay in double quotes": lambda path, theirs, ours: (
        path.endswith(".ddl") and theirs.replace('"', "'") == ours.replace('"', "'")
    ),
    "ALTER DATABASE and the character set of a table are not followed": lambda path, theirs, ours: (
        path.endswith(("harsetName", ".databaseName", "source.db"))
    ),
}  # fmt: skip


@dataclass
class Beside:
    """The comparison of some histories.

    Attributes:
        compared: number of records that were compared.
        equal: of these, the ones that are equal byte for byte.
        skipped: history -> what the engine has done to it.
        defects: known defect -> number of records that show it.
        different: values that differ otherwise: record, path, value of the connector, value of the pipeline.
        missing: records that only one of both has: `connector` or `pipeline`, and the record.
    """

    compared: int = 0
    equal: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    defects: Counter[str] = field(default_factory=Counter)
    different: list[tuple[Record, str, Any, Any]] = field(default_factory=list)
    missing: list[tuple[str, Record]] = field(default_factory=list)


class _Round(Round):
    """A round that an event pipeline follows, too."""

    def __init__(self, database: Database, folder: Path) -> None:
        super().__init__(database, _MODES, folder / "engine")
        self.written = folder / "events"
        self._pipeline = EventPipeline.from_dict(_definition(database), base=folder)

    def _write(self, session: Session, writers: Sequence[Drawing | Repeating]) -> None:
        self._pipeline.run()  # takes its position, in front of the first statement
        super()._write(session, writers)
        self._pipeline.run()


def compare_histories(database: Database, numbers: Sequence[int], folder: Path) -> Beside:
    """Draws a history from each number, executes all on the server, and compares the records."""
    folder.mkdir(parents=True, exist_ok=True)
    beside_engine = _Round(database, folder)
    histories = beside_engine.record([Job(number) for number in numbers])
    ours = [History(history.name, history.server, history.engine) for history in histories]
    split([_event(record) for record in written(beside_engine.written)], ours)
    result = Beside()
    for theirs, its in zip(histories, ours, strict=True):
        if why := theirs.died or "; ".join(f"{name}: {what}" for name, what in misunderstood(theirs).items()):
            result.skipped[theirs.name] = why
        elif any(_BINARY.search(s.text) or _INDEX.search(s.text) for s in theirs.executed):
            result.skipped[theirs.name] = "a statement that the connector is known not to understand"
        else:
            _compare(_by_place(theirs), _by_place(its), result)
    return result


def _definition(database: Database) -> dict[str, Any]:
    protocol = {
        "name": "debezium-mysql", "connector": database.connector, "topic.prefix": PREFIX, "replace-null-with-default": False,
        "source-version": VERSIONS[database.connector], "enable.time.adjuster": False, "skipped.operations": "none",
        "provide.transaction.metadata": True, "event.converting.failure.handling.mode": "warn",
        "key.converter.schemas.enable": False,
    }  # fmt: skip
    source = {
        "type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz",
        "tables": ["h*.*", "zz.*"], "snapshot.mode": "no_data",
    }  # fmt: skip
    return {
        "source": source,
        "sink": {"type": "files", "path": "events", "protocol": protocol},
        "pipeline": {"name": "compared", "folder": "state"},
    }


def _event(record: Record) -> Event:
    return {
        "topic": record.topic,
        "key": record.key,
        "value": record.value,
        "headers": [list(h) for h in record.headers],
    }


def _by_place(history: History) -> dict[tuple[Any, ...], Record]:
    """The records of a history, by topic, place in the log, and number at that place."""
    records: dict[tuple[Any, ...], Record] = {}
    counted = Counter[tuple[Any, ...]]()
    before: tuple[Any, ...] = ()
    for event in history.events:
        headers = tuple((name, text) for name, text in event["headers"])
        record = Record(event["topic"], event["key"], event["value"], headers).comparable()
        if record.topic.endswith(".transaction") or MARKER in record.topic + (record.value or ""):
            continue
        if record.value is not None:  # a tombstone has the place of its delete
            source = tree_of(record.value)["payload"]["source"]
            before = (record.topic, source["file"], source["pos"])
        counted[before] += 1
        records[*before, counted[before]] = record
    return records


def _compare(theirs: dict[tuple[Any, ...], Record], ours: dict[tuple[Any, ...], Record], result: Beside) -> None:
    result.missing += [("connector", record) for place, record in ours.items() if place not in theirs]
    result.missing += [
        ("pipeline", record) for place, record in theirs.items() if place not in ours and not _is_unshown(record)
    ]
    for place in theirs.keys() & ours.keys():
        expected, its = theirs[place], ours[place]
        result.compared += 1
        if expected == its:
            result.equal += 1
            continue
        defects = dict[str, None]()
        for path, old, new in unexplained(expected, its):
            known = next((name for name, holds in DEFECTS.items() if holds(path, old, new)), None)
            if known is None:
                result.different.append((expected, path, old, new))
            else:
                defects[known] = None
        result.defects.update(list(defects))


def _is_unshown(record: Record) -> bool:
    """Whether a record is a statement that changes no table, which the pipeline leaves out."""
    ddl = tree_of(record.value or "{}").get("payload", {}).get("ddl", "")
    return _UNSHOWN.match(ddl) is not None
