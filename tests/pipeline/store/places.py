"""Ledgers of files for tests, on this machine's disk."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from changefeed.pipeline.store.base import Keep, StoreReader
from changefeed.pipeline.store.files import FileStore
from changefeed.pipeline.store.folder import WritableFolder
from changefeed.pipeline.store.reading import FileReader
from changefeed.storage.local import LocalFolder
from tests.pipeline.store.conformance import Clock, Kind


class Files(Kind):
    """A folder."""

    def __init__(self, path: Path) -> None:
        self.path = path / "ledger"
        self.folder: WritableFolder = LocalFolder(str(self.path))

    def store(self, pipeline: str = "shop", keep: Keep | None = None, now: Clock | None = None) -> FileStore:
        return FileStore(self.folder, pipeline, keep, **({"now": now} if now else {}))

    def reading(self, pipeline: str = "shop") -> StoreReader:
        return FileReader(LocalFolder(str(self.path)), pipeline)

    def make_newer(self) -> str:
        for path in self.files():
            body = json.loads(path.read_text())["body"]
            write(path, body, 99, "7.0.0")
        return str(self.path)

    def files(self) -> list[Path]:
        """Every file, by name."""
        return sorted(path for path in self.path.rglob("*") if path.is_file())

    def entries(self) -> list[Path]:
        """The log, oldest first."""
        return sorted((self.path / "log").iterdir())


def write(path: Path, body: object, format: int = 1, version: str = "0.1.0") -> None:
    """Writes a file with a right checksum."""
    path.write_text(sealed_text(body, format, version))


def sealed_text(body: object, format: int, version: str) -> str:
    """Returns a file's text with a right checksum."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    sum = hashlib.sha256(f"{format} {version} {text}".encode()).hexdigest()
    return f'{{"format":{format},"version":"{version}","sum":"{sum}","body":{text}}}\n'
