"""Records in the files of the toy source."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.sources.conformance import Row


def write(folder: Path, records: list[Row]) -> None:
    """Appends records to the files of their partitions."""
    folder.mkdir(exist_ok=True)
    for row in records:
        line = {name: row[name] and base64.b64encode(row[name]).decode() for name in ("key", "value")}
        with (folder / f"{row['topic']}.{row['partition']}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
