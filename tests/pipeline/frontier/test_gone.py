"""Topics whose tables are gone hold the barrier: the holder has the reason and the way out, and the way out works."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from changefeed.api.results import Progress, Summary
from changefeed.cli.progress import table_words
from changefeed.cli.run_ import why_not_reached
from changefeed.model import text
from changefeed.model.batch import record_batch
from changefeed.model.table import canonical
from changefeed.pipeline.absorb import without
from changefeed.pipeline.config.load import read
from changefeed.pipeline.flow import Batch
from changefeed.pipeline.monitoring.holders import Holder, held_by_of, held_text
from changefeed.pipeline.run import RunResult
from changefeed.pipeline.state import State
from changefeed.protocols import protocol
from changefeed.sources.kafka.source_offset import SourceOffset
from changefeed.stages.decode import RecordReader
from changefeed.stores import stores_of
from tests.pipeline.kit.in_memory import Storage, memory_flow

PROTOCOLS: dict[str, dict[str, Any]] = {
    "ticdc-open": {},
    "canal-json": {"enable-tidb-extension": "true"},
    "ticdc-debezium": {"enable-tidb-extension": "true"},
    "ticdc-avro": {
        "enable-tidb-extension": "true",
        "avro-enable-watermark": "true",
        "schema-registry": "{}/schemas.json",
    },
}
WAY_OUT = "take d_a out of source.topics, and set source.removed-topics to `continue`"


@dataclass
class Changefeed:
    """A changefeed with a topic for each table of `d`, and the pipeline that reads them.

    Attributes:
        name: the protocol.
        source: the options of the source that name the topics.
        folder: of the file with schemas, if the protocol has one.
    """

    name: str = "ticdc-open"
    source: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def __post_init__(self) -> None:
        self.written = {name: value.format(self.folder) for name, value in PROTOCOLS[self.name].items()}
        options = {"name": self.name, **self.written}
        named = self.source or {"topics": ["d_a", "d_b"]}
        source = {"type": "kafka", "servers": "127.0.0.1:1", "protocol": options, **named}
        self.definition = read({"source": source, "sink": {"type": "delta", "path": "lake"}})
        self.known = protocol(self.name)
        self.options = self.known.read_options(self.written)
        self.stores = stores_of(self.options)
        self.storage = Storage()
        self.flow = memory_flow(self.storage, self.known.capabilities_of(self.options), self.definition)
        self.flow.begin()
        self.offsets: dict[str, int] = {}

    def ddl(self, ts: int, topic: str, table: str, statement: str) -> dict[str, Any]:
        names = {"database": "d", "table": table or None, "type": "other", "ddl": statement}
        return self._record(ts, topic, {"kind": "schema", **names})

    def create(self, ts: int, topic: str, table: str) -> dict[str, Any]:
        return self.ddl(ts, topic, table, f"CREATE TABLE `d`.`{table}` (`id` INT NOT NULL,PRIMARY KEY(`id`))")

    def row(self, ts: int, topic: str, table: str) -> dict[str, Any]:
        columns = [{"name": "id", "type": "int", "nullable": False, "key": True}]
        shape = {"kind": "shape", "shape": "s", "database": "d", "table": table, "columns": columns, "wire": None}
        row = {
            "kind": "row", "op": "insert", "database": "d", "table": table, "shape": "s", "keys": ["id"], "before": None,
            "after": {"id": ts},
        }  # fmt: skip
        return self._record(ts, topic, row, canonical(shape))

    def mark(self, ts: int, *topics: str) -> list[dict[str, Any]]:
        return [self._record(ts, topic, {"kind": "resolved", "partition": 0}) for topic in topics]

    def _record(self, ts: int, topic: str, document: dict[str, Any], *before: str) -> dict[str, Any]:
        encoder = self.known.encoder(self.options, self.stores)
        line = canonical({**document, "commit_ts": ts, "position": f"{topic}:0:0"})
        [events] = text.parse([*before, line])
        [record] = encoder.encode(events).to_pylist()
        offset = self.offsets[topic] = self.offsets.get(topic, -1) + 1
        return {**record, "topic": topic, "partition": 0, "offset": offset}

    def take(self, *records: dict[str, Any]) -> State:
        read, reader = record_batch(list(records)), RecordReader(self.name, self.written)
        chunks = [reader.pack(reader(read), read)]
        offsets = SourceOffset({topic: {"0": offset + 1} for topic, offset in self.offsets.items()}).text()
        self.flow.take(Batch(lambda dated, fragments: chunks, offsets, {(topic, 0) for topic in self.offsets}))
        return self.state

    @property
    def state(self) -> State:
        return self.flow.ledger.state

    def held_by(self) -> tuple[Holder, ...]:
        return held_by_of(self.definition, self.state)

    def begun(self) -> Changefeed:
        """With a row in each table."""
        self.take(
            self.create(10, "d_a", "a"), self.create(10, "d_b", "b"), self.row(11, "d_a", "a"), self.row(11, "d_b", "b"),
            *self.mark(12, "d_a", "d_b"),
        )  # fmt: skip
        assert self.state.barrier == 12
        return self


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_topic_of_a_dropped_table_is_named_and_left_out(name: str, tmp_path: Path) -> None:
    changefeed = Changefeed(name, folder=tmp_path).begun()
    changefeed.take(changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`"), changefeed.row(14, "d_b", "b"))
    assert [holder.way_out for holder in changefeed.held_by()] == [None]  # nothing shows yet that the others go on
    changefeed.take(*changefeed.mark(15, "d_b"))
    [holder] = changefeed.held_by()
    assert (holder.name, holder.commit_ts, holder.way_out) == ("d_a:0", 12, WAY_OUT)
    assert held_text([holder], "14:02:11") == (
        "held by d_a:0 (no resolved event after 12; its table d.a was dropped at 13), since 14:02:11 "
        f"(the way out: {WAY_OUT})"
    )
    assert changefeed.state.barrier == 12
    # what a run does with that option
    left = without(changefeed.state, ["d_a"], SourceOffset({"d_b": {"0": 5}}).text())
    changefeed.flow.step(left, {("d_b", 0)})
    assert (changefeed.state.barrier, list(changefeed.state.tables), changefeed.held_by()) == (15, ["d.b"], ())


def test_a_run_and_its_end_have_the_way_out() -> None:
    changefeed = Changefeed().begun()
    changefeed.take(changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`"), *changefeed.mark(15, "d_b"))
    held = held_text(changefeed.held_by())
    assert held.endswith(f"(the way out: {WAY_OUT})")
    assert held in list(table_words(Progress.of(changefeed.definition, changefeed.state), cuts=True, ages=False))
    result = RunResult(1, 2, State(), changefeed.state, False)
    done = Summary.of(changefeed.definition, result, 1.0, stopped=False)
    assert why_not_reached(done, 15) == f"--until 15 was not reached, the tables are at 12: {held}"


@pytest.mark.parametrize("last_mark", [12, 13])
@pytest.mark.parametrize(
    "statement, end",
    [
        ("RENAME TABLE `d`.`a` TO `d`.`c`", "renamed to d.c"),
        ("ALTER TABLE `d`.`a` RENAME TO `e`.`a`", "renamed to e.a"),
        ("DROP TABLE IF EXISTS `D`.`A`", "dropped"),
    ],
)
def test_the_reason_is_the_statement(statement: str, end: str, last_mark: int) -> None:
    """TiCDC sends the statement when its checkpoint has reached it, so its topic may have a resolved event of that commit_ts."""
    changefeed = Changefeed().begun()
    changefeed.take(*changefeed.mark(last_mark, "d_a"), changefeed.ddl(13, "d_a", "a", statement))
    changefeed.take(*changefeed.mark(15, "d_b"))
    [holder] = changefeed.held_by()
    assert holder.reason == f"no resolved event after {last_mark}; its table d.a was {end} at 13"


def test_the_statement_about_a_database_is_in_another_topic() -> None:
    changefeed = Changefeed(source={"topics-pattern": "d_.*|other"}).begun()
    changefeed.take(changefeed.ddl(13, "other", "", "DROP DATABASE `d`"))
    changefeed.take(*changefeed.mark(15, "other"))
    held = changefeed.held_by()
    assert [(holder.name, holder.reason) for holder in held] == [
        (f"d_{table}:0", f"no resolved event after 12; its table d.{table} was dropped with database d at 13")
        for table in "ab"
    ]
    assert held[0].way_out == WAY_OUT.replace("source.topics", "source.topics-pattern")
    assert held_text(held).count("the way out") == 2


def test_a_topic_without_a_resolved_event_since_it_is_read() -> None:
    changefeed = Changefeed()
    changefeed.take(changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`"), changefeed.row(14, "d_b", "b"))
    changefeed.take(*changefeed.mark(15, "d_b"))
    assert [holder.reason for holder in changefeed.held_by()] == [
        "no resolved event yet; its table d.a was dropped at 13"
    ]


def test_the_topic_that_tables_have_swapped_names_by() -> None:
    """TiCDC has created a topic for the name in between, and sends it one statement and no resolved event."""
    changefeed = Changefeed(source={"topics-pattern": "d_.*"}).begun()
    changefeed.take(
        changefeed.ddl(13, "d_a", "a", "RENAME TABLE `d`.`a` TO `d`.`c`"),
        changefeed.ddl(13, "d_b", "b", "RENAME TABLE `d`.`b` TO `d`.`a`"),
        changefeed.ddl(13, "d_c", "c", "RENAME TABLE `d`.`c` TO `d`.`b`"),
        *changefeed.mark(15, "d_a", "d_b"),
    )
    [holder, late] = changefeed.held_by()
    assert (holder.name, holder.reason) == ("d_c:0", "no resolved event yet; its table d.c was renamed to d.b at 13")
    assert (late.kind, late.name) == ("table", "d.c")
    left = without(changefeed.state, ["d_c"], SourceOffset({"d_a": {"0": 9}, "d_b": {"0": 9}}).text())
    changefeed.flow.step(left, {("d_a", 0), ("d_b", 0)})
    assert (changefeed.state.barrier, sorted(changefeed.state.tables)) == (15, ["d.a", "d.b"])
    changefeed.offsets.pop("d_c")
    changefeed.take(changefeed.row(16, "d_a", "a"), *changefeed.mark(17, "d_a"))
    assert [holder.reason for holder in changefeed.held_by()] == ["no resolved event after 15"]  # d_b has a table


def test_a_producer_that_restarts_sends_the_end_of_the_topic_again() -> None:
    changefeed = Changefeed().begun()
    drop = changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`")
    changefeed.take(drop, *changefeed.mark(15, "d_b"))
    again = [changefeed.row(11, "d_a", "a"), *changefeed.mark(11, "d_a"), {**drop, "offset": 9}]
    changefeed.take(*again, *changefeed.mark(14, "d_b"))
    assert [holder.way_out for holder in changefeed.held_by()] == [WAY_OUT]


def _another_table(changefeed: Changefeed) -> list[dict[str, Any]]:
    return [changefeed.row(13, "d_a", "z"), changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`")]


def _another_by_statement(changefeed: Changefeed) -> list[dict[str, Any]]:
    return [changefeed.create(13, "d_a", "z"), changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`")]


def _created_again(changefeed: Changefeed) -> list[dict[str, Any]]:
    return [changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`"), changefeed.create(14, "d_a", "a")]


def _rows_again(changefeed: Changefeed) -> list[dict[str, Any]]:
    return [changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`"), changefeed.row(14, "d_a", "a")]


def _marks_again(changefeed: Changefeed) -> list[dict[str, Any]]:
    """A topic that several tables share, of which only one has been seen."""
    return [changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`"), *changefeed.mark(14, "d_a")]


def _emptied(changefeed: Changefeed) -> list[dict[str, Any]]:
    return [changefeed.ddl(13, "d_a", "a", "TRUNCATE TABLE `d`.`a`")]


def _without_a_meaning(changefeed: Changefeed) -> list[dict[str, Any]]:
    return [changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a` ON THE FLOOR")]


@pytest.mark.parametrize(
    "records",
    [
        _another_table, _another_by_statement, _created_again, _rows_again, _marks_again, _emptied, _without_a_meaning,
    ],
)  # fmt: skip
def test_a_topic_that_has_tables_has_only_fallen_silent(records: Any) -> None:
    changefeed = Changefeed().begun()
    changefeed.take(*records(changefeed))
    changefeed.take(*changefeed.mark(19, "d_b"))
    [holder] = changefeed.held_by()
    assert (holder.name, holder.way_out) == ("d_a:0", None)
    assert holder.reason.startswith("no resolved event after 1")
    assert ";" not in holder.reason


def test_a_statement_that_is_sent_again_does_not_undo_a_later_one() -> None:
    changefeed = Changefeed().begun()
    drop = changefeed.ddl(13, "d_a", "a", "DROP TABLE `d`.`a`")
    changefeed.take(drop, changefeed.create(14, "d_a", "a"), *changefeed.mark(12, "d_b"))
    changefeed.take({**drop, "offset": 9}, *changefeed.mark(19, "d_b"))
    assert [holder.way_out for holder in changefeed.held_by()] == [None]
