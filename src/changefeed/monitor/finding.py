"""Lists the pipelines that the page shows: by their definitions, or by their own folders, below the places that were named.

    a definition            a YAML file with the sections `source` and `sink`
    a pipeline's folder     one with `ledger/log`, such as `_changefeed` beside the tables

A definition that cannot be read is a pipeline with an error. If a folder has both, the definition counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from changefeed.errors import ChangefeedError, ConfigError
from changefeed.local_files import local_path
from changefeed.pipeline.config import load, yaml_file
from changefeed.pipeline.config.events import AnyDefinition
from changefeed.pipeline.paths import own_folder
from changefeed.storage import Folder
from changefeed.storage.folders import folder_at

DEPTH = 4  # levels of folders that are searched
_OWN = "_changefeed"
_YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FoundPipeline:
    """A pipeline.

    Attributes:
        name: its name, or that of its file or folder.
        folder: its own folder; None if the definition cannot be read.
        path: the file of its definition; None without one.
        definition: None if there is none, or if it cannot be read.
        error: why the definition cannot be read; empty if it can.
    """

    name: str
    folder: str | None = None
    path: Path | None = None
    definition: AnyDefinition | None = None
    error: str = ""

    @property
    def id(self) -> str:
        """Its name in URLs: it stays the same as long as name and place do."""
        place = self.folder if self.folder is not None else str(self.path)
        readable = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "-" for c in self.name)
        return f"{readable}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def find(places: Iterable[str]) -> list[FoundPipeline]:
    """Returns the pipelines at and below places, sorted by name.

    Args:
        places: paths of definitions; paths or URLs of folders.

    Raises:
        ConfigError: a place does not exist, or is on a file system that only Spark reaches.
        SinkError: a folder cannot be listed.
    """
    pipelines: dict[str, FoundPipeline] = {}
    for place in places:
        for pipeline in _at(place):
            key = pipeline.folder or str(pipeline.path)
            if key not in pipelines or pipelines[key].definition is None:
                pipelines[key] = pipeline
    return sorted(pipelines.values(), key=lambda pipeline: (pipeline.name, pipeline.id))


def _at(place: str) -> Iterator[FoundPipeline]:
    local = local_path(place)
    if local is not None and Path(local).is_file():
        yield _of_file(Path(local).absolute())
        return
    if local is not None and not Path(local).is_dir():
        raise ConfigError(f"{place} is neither a definition nor a folder")
    folder = folder_at(str(Path(local).absolute()) if local is not None else place.rstrip("/"))
    if folder is None:
        raise ConfigError(
            f"{place} is on a file system that only Spark reaches; the page reads local folders and object stores"
        )
    yield from _below(folder, DEPTH)


def _below(folder: Folder, depth: int) -> Iterator[FoundPipeline]:
    local = local_path(folder.path)
    if local is not None:
        for name in folder.names():
            path = Path(local, name)
            if name.endswith(_YAML) and _is_definition(path):
                yield _of_file(path)
    names = folder.folders()
    if "ledger" in names and folder.names("ledger/log"):
        yield FoundPipeline(_name_of(folder.path), folder.path.rstrip("/"))
        return
    for name in [_OWN] if _OWN in names else names:
        if depth and (name == _OWN or not name.startswith(("_", "."))):
            yield from _below(folder.subfolder(name), depth - 1)


def _name_of(path: str) -> str:
    parts = [part for part in path.rstrip("/").split("/") if part]
    return parts[-2] if parts[-1] == _OWN and len(parts) > 1 else parts[-1]


def _is_definition(path: Path) -> bool:
    """Whether a file has the sections of a definition; other YAML files are not pipelines, not even ones with an error."""
    try:
        written, _ = yaml_file.read(path)
    except ConfigError:
        return False
    return isinstance(written, dict) and "source" in written and "sink" in written


def _of_file(path: Path) -> FoundPipeline:
    try:
        definition = load.load_any(path)
    except ChangefeedError as error:
        return FoundPipeline(path.stem, None, path, None, str(error))
    return FoundPipeline(definition.pipeline.name, own_folder(definition), path, definition)
