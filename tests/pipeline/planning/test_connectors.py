"""Two connectors whose topics a pipeline reads."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.pipeline.planning.connectors import sent_twice
from tests.pipeline.kit.downstream import noted
from tests.pipeline.kit.record_runs import RecordRun, json_record

END = (
    "if they read different servers, their positions have no order relative to each other, and changes of one are lost. Each "
    "server needs its own pipeline"
)


def sent(prefix: str, file: str, server: int, database: str = "shop") -> list[dict[str, Any]]:
    """A table, and a row of it."""
    source = {"connector": "mysql", "name": prefix, "db": database, "table": "t", "server_id": server, "file": file}
    ddl = {"source": source | {"pos": 4}, "databaseName": database, "ddl": "CREATE TABLE t (id INT PRIMARY KEY)"}
    row = {"before": None, "after": {"id": server}, "op": "c", "source": source | {"pos": 90, "row": 0}}
    return [
        json_record(prefix, 0, {"databaseName": database}, ddl),
        json_record(f"{prefix}.{database}.t", 0, {"id": server}, row),
    ]


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_tables_of_one_name_from_two_connectors_are_named_once(size: int) -> None:
    notes: list[str] = []
    run = RecordRun({"name": "debezium-mysql"})
    with noted(notes):
        run.run([*sent("eu", "bin.000100", 1), *sent("us", "bin.000002", 2)], size)
        run.run([row | {"offset": 1} for row in sent("us", "bin.000003", 2)[1:]])
    assert [note for note in notes if "connectors" in note] == [f"the connectors eu and us both send shop.t: {END}"]


def test_connectors_with_tables_of_other_names_are_no_matter() -> None:
    notes: list[str] = []
    with noted(notes):
        run = RecordRun({"name": "debezium-mysql"}).run([*sent("eu", "bin.000100", 1), *sent("us", "bin.2", 2, "crm")])
    assert run.tables() == ["crm.t", "shop.t"]
    assert notes == []


@pytest.mark.parametrize(
    "topics, known, wanted",
    [
        (["a.transaction", "b.transaction", "a.d.t", "b.d.t"], [], ["the connectors a and b both send d.t"]),
        (["a", "b", "a.d.t", "b.d.t", "a.d.u", "b.d.u"], ["a.d.t", "a.d.u"], ["the connectors a and b both send d.t, d.u"]),
        (["a", "b", "a.d.t", "b.d.t"], ["a.d.t", "b.d.t"], []),
        (["x.a", "x.b", "x.a.d.t", "x.b.d.t"], [], ["the connectors x.a and x.b both send d.t"]),
        (["a", "b", "a.transaction", "b.transaction", "a.d.t", "b.d.u"], [], []),
        (["a.d.t", "b.d.t"], [], []),  # without schema changes and transactions, a part of a name is not known to be a prefix
        (["a", "b", *(f"{p}.d.t{n}" for p in "ab" for n in range(7))], [],
         ["the connectors a and b both send d.t0, d.t1, d.t2, d.t3, d.t4 and 2 more"]),
    ],
)  # fmt: skip
def test_topics_of_two_connectors(topics: list[str], known: list[str], wanted: list[str]) -> None:
    assert sent_twice(topics, known) == [f"{text}: {END}" for text in wanted]
