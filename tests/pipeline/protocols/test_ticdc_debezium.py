"""TiCDC's Debezium through a pipeline: the columns that its schema changes describe have no defaults, and decimals no sign."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model import text
from changefeed.model.table import canonical
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from tests.pipeline.kit.record_runs import RecordRun

OPTIONS = {"enable-tidb-extension": "true"}
Columns = dict[str, str]
FIRST: Columns = {"id": "int", "price": "decimal(10,2) unsigned"}
CREATE = "CREATE TABLE `shop`.`t` (`id` INT NOT NULL,`price` DECIMAL(10,2) UNSIGNED,PRIMARY KEY(`id`))"


def described(columns: Columns) -> list[dict[str, Any]]:
    return [{"name": n, "type": t, "nullable": n != "id", "key": n == "id"} for n, t in columns.items()]


def sent(*changes: tuple[str, Columns] | tuple[dict[str, Any], Columns]) -> list[dict[str, Any]]:
    """The records of statements, each with the columns after it, and of inserted rows, each with its columns."""
    lines: list[dict[str, Any]] = []
    for at, (change, columns) in enumerate(changes):
        place = {"commit_ts": 450_000_000_000_000_000 + (at << 18), "position": f"shop:0:{at}"}
        head = {"database": "shop", "table": "t"}
        if isinstance(change, str):
            kind = "create_table" if change.startswith("CREATE") else "add_column"
            lines.append(
                {"kind": "schema", "type": kind, **head, "ddl": change, "columns": described(columns), **place}
            )
            continue
        lines.append({"kind": "shape", "shape": str(at), **head, "columns": described(columns), "wire": None})
        row = {"kind": "row", "op": "insert", **head, "shape": str(at), "keys": ["id"], "before": None, "after": change}
        lines.append({**row, **place})
    chosen = protocol("ticdc-debezium")
    encoder = chosen.encoder(chosen.read_options(OPTIONS), Stores())
    return [r for events in text.parse(map(canonical, lines)) for r in encoder.encode(events).to_pylist()]


def test_a_decimal_keeps_the_sign_that_its_statement_declares() -> None:
    after = {**FIRST, "n": "int"}
    records = sent(
        (CREATE, FIRST), ({"id": 1, "price": "1.50"}, FIRST), ("ALTER TABLE `shop`.`t` ADD COLUMN `n` INT", after),
        ({"id": 2, "price": "2.50", "n": 7}, after),
    )  # fmt: skip
    run = RecordRun({"name": "ticdc-debezium", **OPTIONS}).run(records)
    assert run.columns("shop.t") == ["id int", "price decimal(10,2) unsigned", "n int"]


@pytest.mark.parametrize("behavior", ["evolve", "try_evolve"])
def test_a_new_column_of_an_unreadable_statement_has_unknown_values(behavior: str) -> None:
    after = {**FIRST, "n": "int"}
    records = sent(
        (CREATE, FIRST), ({"id": 1, "price": "1.50"}, FIRST), ("ALTER TABLE `shop`.`t` FROBNICATE `n` DEFAULT 5", after),
        ({"id": 2, "price": "2.50", "n": 7}, after),
    )  # fmt: skip
    pipeline: dict[str, Any] = {"schema.change.behavior": behavior}
    run = RecordRun({"name": "ticdc-debezium", **OPTIONS}, **pipeline)
    if behavior == "evolve":
        with pytest.raises(UnsupportedError, match="column n: only the upstream has the values of existing rows"):
            run.run(records)
    else:
        assert [row[0] for row in run.run(records).rows("shop.t")] == [1, 2]
