"""A history: statements that a server has executed, what the engine has sent for them, and the tables at the end.

It is one file of JSON, so that it can be judged again without a server; the recorded tests have the same form.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.live.schema import Content
from tests.services.debezium import Event

_RENAMES = re.compile(r"\bRENAME (?!COLUMN|KEY|INDEX|TABLE)")
Columns = dict[str, list[tuple[str, str]]]  # `database.table` -> name and type of its columns


@dataclass(slots=True)
class Statement:
    """A statement of a history.

    Attributes:
        error: the server's, if it has refused the statement.
        phase: the number of engine starts before it.
        columns: of the tables that it has changed; empty if it has changed none.
    """

    text: str
    error: str | None = None
    phase: int = 0
    columns: Columns = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """A history; see the head of this file.

    Attributes:
        name: prefix of the names of its databases.
        server: `mariadb` or `mysql`.
        engine: the engine's modes in words.
        events: with the schema of each record.
        tables: `database.table` -> its content at the end.
        died: the reason why the engine has died of this history; None if it has not.
        log: what the server has logged, where no engine has read it; see `logged.py`.
    """

    name: str
    server: str
    engine: str
    lower_case: bool = False
    statements: list[Statement] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    tables: dict[str, Content] = field(default_factory=dict)
    died: str | None = None
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def executed(self) -> list[Statement]:
        """The statements without an error."""
        return [statement for statement in self.statements if statement.error is None]

    @property
    def keeps_old_name(self) -> bool:
        """Whether a statement has left a renamed table under its old name, too: a defect of MariaDB 10.11."""
        renames = [s for s in self.executed if "ALTER" in s.text and _RENAMES.search(s.text) and s.columns]
        return any(all(statement.columns.values()) for statement in renames)

    def save(self, path: Path) -> None:
        """Writes the file; it has its name only when it is complete."""
        unfinished = path.with_suffix(".tmp")
        with gzip.GzipFile(unfinished, "wb", compresslevel=6, mtime=0) as out:
            out.write(json.dumps(asdict(self), ensure_ascii=False).encode())
        unfinished.rename(path)

    @classmethod
    def load(cls, path: Path) -> History:
        """Reads a file."""
        with gzip.open(path) as file:
            fields: dict[str, Any] = json.load(file)
        fields["statements"] = [Statement(**statement) for statement in fields["statements"]]
        fields["tables"] = {
            name: Content(tuple(map(tuple, table["columns"])), tuple(map(tuple, table["rows"])))
            for name, table in fields["tables"].items()
        }
        return cls(**fields)
