"""The histories of `tests/data/debezium-snapshots`, which `debezium_histories.py` has recorded, and a pipeline that reads one."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.status import status
from tests.pipeline.kit.databases import Content, check_equal
from tests.pipeline.kit.debezium_histories import DATA, SHOP, TWICE
from tests.pipeline.kit.running import definition
from tests.services.debezium import Event


@dataclass(frozen=True)
class Recorded:
    """A recorded history, by its name `server-history`."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def _whole(self) -> dict[str, Any]:
        with gzip.open(DATA / f"{self.name}.json.gz") as file:
            content: dict[str, Any] = json.load(file)
        return content

    @property
    def events(self) -> list[Event]:
        return list(self._whole["events"])

    @property
    def tables(self) -> dict[str, Content]:
        return {name: (columns, lines) for name, (columns, lines) in self._whole["tables"].items()}


ALL = [Recorded(path.name.removesuffix(".json.gz")) for path in sorted(DATA.glob("*.json.gz"))]
# Of a table without a key a blocking snapshot sends everything again: none of these has one.
MANY = [history for history in ALL if "mysql" not in history.name]


def pipeline(log: Path, lake: Path, **options: Any) -> Definition:
    # a table without a key is never updated in these histories, but rows of it are deleted
    return definition(log, lake, protocol="debezium-mysql", **({"keyless": "inserts"} | options))


def check(pipe: Definition, history: Recorded) -> None:
    by_key = pipe.pipeline.consistency == "key"
    check_equal(pipe, SHOP, history.tables, TWICE.get(history.name.rpartition("-")[2], ()) if by_key else ())
    counts = status(pipe).to_dict()["counts"]
    # without transactions, nothing shows that the marker's last row is the last of its event
    pending = int(history.name.endswith("-silent") and not by_key)
    assert (counts["dead"], counts["rows"]) == (0, counts["applied"] + counts["repeated"] + pending)
