"""A random upstream's history as a record log, and the expected tables at every cut that a pipeline publishes of it.

The upstream is that of `upstream.py`: tables with keys and without, transactions over several tables, rows that swap
their keys, DDL of every kind. Its events go to partitions that lag behind each other. One seed makes one log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from changefeed import record_log
from changefeed.model import text
from changefeed.model.names import full_name
from changefeed.model.table import canonical
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.state import State
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from tests.pipeline.kit.running import published
from tests.pipeline.kit.tables import sink_rows
from tests.pipeline.kit.upstream import KINDS, MEMBERS, Change, Ddl, Row, Upstream

_BASE, _STEP = 450_000_000_000_000_000, 1 << 18  # a TSO, and a millisecond of one


@dataclass
class Faults:
    """Differences between published cuts and the history, as counts, and a description of the first ones.

    Attributes:
        cuts: cuts that were read.
        tables: tables of these cuts.
        lost: rows that are missing.
        doubled: rows that occur too often.
        torn: rows of another commit_ts than the cut's.
        words: descriptions of the differences.
    """

    cuts: int = 0
    tables: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    words: list[str] = field(default_factory=list)

    def add(self, where: str, actual: list[Row], wanted: list[Row]) -> None:
        """Compares one table of one cut."""
        self.tables += 1
        left, right = (Counter(json.dumps(row, sort_keys=True) for row in rows) for rows in (actual, wanted))
        surplus, missing = left - right, right - left
        if not surplus and not missing:
            return
        doubled = sum(n for row, n in surplus.items() if row in right)
        torn = surplus.total() - doubled
        self.doubled += doubled
        self.torn += torn
        self.lost += max(0, missing.total() - torn)
        self.words.append(f"{where}: surplus {list(surplus.elements())[:2]}, missing {list(missing.elements())[:2]}")

    def wrong(self, words: str) -> None:
        """Counts a difference that is not in rows as torn."""
        self.torn += 1
        self.words.append(words)


@dataclass(frozen=True)
class RandomLog:
    """A log, and the history that it has."""

    path: Path
    upstream: Upstream
    records: int
    rows: int

    def at(self, commit_ts: int | None) -> dict[str, list[Row]]:
        """`database.table` -> rows after all events up to and including `commit_ts`; None for the end."""
        upto = None if commit_ts is None else (commit_ts - _BASE) // _STEP
        past = [ts for ts in self.upstream.history if upto is None or ts <= upto]
        tables = self.upstream.history[max(past)] if past else {}
        return {
            full_name(*name): [_canonical(row, table.columns) for row in table.all()] for name, table in tables.items()
        }

    @property
    def end(self) -> int:
        """The last commit_ts, which every partition's last mark names."""
        return _BASE + self.upstream.ts * _STEP

    def faults(self, pipeline: Definition) -> Faults:
        """Reads every published cut back, and the newest one as the end of the log."""
        faults, cuts = Faults(), published(pipeline)
        known: dict[tuple[str, int | None, str], list[Row]] = {}
        if [cut.step for cut in cuts] != list(range(1, len(cuts) + 1)):
            faults.wrong(f"steps {[cut.step for cut in cuts]}: one twice, or one missing")
        barriers = [cut.state.barrier for cut in cuts if cut.state.barrier is not None]
        if barriers != sorted(barriers):
            faults.wrong(f"barriers {barriers} go back")
        for cut in cuts:
            last = cut is cuts[-1]
            if cut.state.barrier is None and not last:
                continue  # by key, tables may be ahead of each other until all is read
            self._compare(pipeline, cut.state, f"step {cut.step}", faults, known)
        self._account(cuts[-1].state if cuts else State(), faults)
        return faults

    def _compare(self, pipeline: Definition, state: State, where: str, faults: Faults, known: dict[Any, Any]) -> None:
        faults.cuts += 1
        wanted = self.at(state.barrier)
        if set(state.tables) != set(wanted):
            faults.wrong(f"{where}: tables {sorted(state.tables)} for {sorted(wanted)}")
        for name, current in state.tables.items():
            place = (current.path, current.version, repr(current.table))
            if place not in known:
                known[place] = sink_rows(pipeline, current.path, current.version, current.table)
            faults.add(f"{where}: {name} at {state.barrier}", known[place], wanted.get(name, []))

    def _account(self, state: State, faults: Faults) -> None:
        """Checks that all records were read, and that every row that was read is counted as applied, repeated or pending."""
        counts = state.counts
        if (counts.records, counts.rows, counts.dead) != (self.records, self.rows, 0):
            faults.wrong(f"{counts} for {self.records} records with {self.rows} rows")
        if (counts.applied, counts.repeated, state.pending) != (self.rows, 0, ()):
            faults.wrong(f"{counts}, pending in {state.pending}: not all rows applied, each once")
        if state.barrier not in (None, self.end):
            faults.wrong(f"barrier {state.barrier} for {self.end}")


def random_log(path: Path, seed: int, steps: int, partitions: int = 2, *, moves: bool = True) -> RandomLog:
    """Writes the history of `steps` statements and transactions.

    Args:
        path: of the log.
        seed: of all that is random.
        steps: how many statements and transactions.
        partitions: of the topic.
        moves: rows may change their key, and with it their partition; without it a key stays where it is.
    """
    random = Random(seed)
    upstream = Upstream(random, moves=moves)
    for _ in range(steps):
        upstream.step()
    lines, count = [], 0
    for line in _lines(upstream, partitions, random):
        lines.append(canonical(line))
        count += line["kind"] == "row"
    ticdc_open = protocol("ticdc-open")
    encoder = ticdc_open.encoder(ticdc_open.read_options({"max-batch-size": 1}), Stores())
    records = record_log.write(path, [encoder.encode(events) for events in text.parse(lines)])
    return RandomLog(path, upstream, records, count)


def _lines(upstream: Upstream, partitions: int, random: Random) -> Iterator[dict[str, Any]]:
    """The events as lines of JSON, in stretches of one partition at a time, each partition in the order of commit_ts."""
    logs: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
    for number, event in enumerate(upstream.events):
        at, end = _BASE + event.ts * _STEP, number + 1 == len(upstream.events)
        if isinstance(event, Ddl):
            line = {"kind": "schema", "type": "other", "database": event.database, "table": event.table}
            for log in logs:
                log.append({**line, "ddl": event.text, "commit_ts": at})
        else:
            image = event.after or event.before or {}
            to = (image.get("id") or 0) % partitions if event.keyed else random.randrange(partitions)
            logs[to].append(_row(event, at))
        last_of_ts = end or upstream.events[number + 1].ts > event.ts
        for log in logs:
            if end or (last_of_ts and random.random() < 0.2):
                log.append({"kind": "resolved", "commit_ts": _BASE + upstream.ts * _STEP if end else at})
    yield from _taking_turns(logs, random)


def _taking_turns(logs: list[list[dict[str, Any]]], random: Random) -> Iterator[dict[str, Any]]:
    """Lines of all partitions, each partition in its order, with their positions and the shapes before them."""
    offsets = [0] * len(logs)
    while left := [p for p, log in enumerate(logs) if offsets[p] < len(log)]:
        partition = random.choice(left)
        for line in logs[partition][offsets[partition] :][: random.randint(1, 25)]:
            place = f"log:{partition}:{offsets[partition]}"
            offsets[partition] += 1
            if line["kind"] == "resolved":
                line = {**line, "partition": partition}
            if "columns" in line:
                line = dict(line)
                head = {"database": line["database"], "table": line["table"], "columns": line.pop("columns")}
                line["shape"] = canonical([head["database"], head["table"], head["columns"]])
                yield {"kind": "shape", "shape": line["shape"], **head, "wire": None}
            yield {**line, "position": place}


def _row(change: Change, at: int) -> dict[str, Any]:
    images = [i for i in (change.before, change.after) if i is not None]
    names = [c for c in change.kinds if any(c in i for i in images)]
    columns = [
        {
            "name": c,
            "type": KINDS[change.kinds[c]][1],
            "nullable": c != "id",
            "key": change.keyed and c == "id",
        }
        for c in names
    ]
    op = "insert" if change.before is None else "delete" if change.after is None else "update"
    before, after = (_image(i, change.kinds) for i in (change.before, change.after))
    return {
        "kind": "row", "op": op, "database": change.database, "table": change.table, "columns": columns,
        "keys": ["id"] if change.keyed else [], "before": before, "after": after, "commit_ts": at,
    }  # fmt: skip


def _image(image: Row | None, kinds: dict[str, str]) -> Row | None:
    """The row as records have it: an enum by its index."""
    if image is None:
        return None
    return {c: {"index": v} if kinds[c] == "enum" and v is not None else v for c, v in image.items()}


def _canonical(row: Row, kinds: dict[str, str]) -> Row:
    """The row as tables have it: an enum by its name."""
    return {c: MEMBERS[v - 1] if kinds[c] == "enum" and v is not None else v for c, v in row.items()}
