r"""A schema registry in a file or a folder of files, for logs that are stored with their schemas.

    [{"id": 5, "subject": "shop_items-key", "schema": "{\"type\":\"record\",…}"}, …]

Rule 1. As in Confluent's schema registry, one text has one id, even if it is registered under several subjects.
Rule 2. If an id is unknown and the files have changed, they are read again before it is refused: they may grow while they
        are used.
Rule 3. A new schema gets the next id. It is written to the file, or to `registered.json` in the folder, atomically. Two
        encoders at the same time would take the same id: only one writer at a time is supported.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from changefeed.errors import SchemaRegistryError

_REGISTERED = "registered.json"


class Files:
    """A schema registry in a JSON file, or in a folder of such files."""

    def __init__(self, where: str) -> None:
        self._where = Path(where)
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._texts: dict[int, str] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._ids_of_texts: dict[str, int] = {}

    def get(self, schema_id: int) -> str:
        """Returns the text of the schema with this id.

        Raises:
            LookupError: no file has the id.
            SchemaRegistryError: a file cannot be read.
        """
        if schema_id not in self._texts:
            self._refresh()
        if schema_id not in self._texts:
            raise LookupError(f"{self._where} has no schema {schema_id}")
        return self._texts[schema_id]

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema text; a new text is stored.

        Raises:
            SchemaRegistryError: a file cannot be read or written.
        """
        if (subject, schema) not in self._ids:
            self._refresh(new=True)
        known = self._ids.get((subject, schema), self._ids_of_texts.get(schema))
        if known is not None:
            return known
        schema_id = max(self._texts, default=0) + 1
        self._append({"id": schema_id, "subject": subject, "schema": schema})
        self._add(schema_id, subject, schema)
        return schema_id

    def _refresh(self, *, new: bool = False) -> None:
        """Reads the files if they have changed; with `new`, there need not be a file yet."""
        try:
            paths = sorted(self._where.glob("*.json")) if self._where.is_dir() else [self._where]
            if new and not self._where.exists():
                paths = []
            seen = tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths)
            if seen == self._seen:
                return
            for path in paths:
                self._read(path)
        except OSError as error:
            raise SchemaRegistryError(f"schema registry {self._where}: {error.strerror}") from error
        self._seen = seen

    def _read(self, path: Path) -> None:
        for entry in _entries(path):
            self._add(entry["id"], entry["subject"], entry["schema"])

    def _add(self, schema_id: int, subject: str, schema: str) -> None:
        if self._texts.setdefault(schema_id, schema) != schema:
            raise SchemaRegistryError(f"schema registry {self._where}: two schemas have the id {schema_id}")
        self._ids.setdefault((subject, schema), schema_id)
        self._ids_of_texts.setdefault(schema, schema_id)

    def _append(self, entry: dict[str, Any]) -> None:
        path = self._where / _REGISTERED if self._where.is_dir() else self._where
        try:
            entries = [*(_entries(path) if path.exists() else ()), entry]
            with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as file:
                json.dump(entries, file, ensure_ascii=False, indent=1)
            os.chmod(file.name, path.stat().st_mode if path.exists() else 0o644)
            os.replace(file.name, path)
        except OSError as error:
            raise SchemaRegistryError(f"schema registry {path}: {error.strerror}") from error


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SchemaRegistryError(f"schema registry {path}: {error}") from error
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise SchemaRegistryError(
            f"schema registry {path}: expected a list of {{id, subject, schema}}, the id a number, the others strings"
        )
    return entries


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("id")) is int
        and isinstance(entry.get("subject"), str)
        and isinstance(entry.get("schema"), str)
    )
