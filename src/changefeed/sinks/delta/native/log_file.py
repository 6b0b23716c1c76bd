"""Writes commits as files of a table's log.

    ┌ 00000000000000000007.json ──────────────────────────────────────────────────────────────────────────┐
    │ {"commitInfo": …}                                         with the checksum of the other lines      │
    │ {"txn": {"appId": …, "version": …}}                       the write id; not in a compaction         │
    │ {"protocol": …}  {"metaData": …}                          of a table that gets a feature, or columns │
    │ {"remove": {"path": "part-1", "deletionVector": old}}     a file whose vector is replaced …         │
    │ {"add": {"path": "part-1", "deletionVector": new}}        … is removed with the old, added with the new │
    │ {"add": {"path": "part-2"}}                               new rows                                  │
    └─────────────────────────────────────────────────────────────────────────────────────────────────────┘

The file is written under a temporary name and gets its final name by a hard link, which fails if the name is taken, so a
version is committed only once. delta-rs does the same on local disks. For local folders only.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from changefeed.errors import SinkError
from changefeed.sinks.apply.files import Added
from changefeed.sinks.apply.merge import Marked
from changefeed.sinks.delta.actions import CHECKSUM, LogAction
from changefeed.sinks.delta.native import vectors
from changefeed.storage import Folder
from changefeed.storage.local import LocalFolder

FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"
NTZ, NTZ_TYPE = "timestampNtz", "timestamp_ntz"
_LEGACY = {"appendOnly", "invariants"}  # what writer version 2 comes to in table features
_JSON = msgspec.json.Encoder(decimal_format="number")


def put(folder: Folder, version: int, actions: Iterable[LogAction]) -> None:
    """Commits actions as a version of the table; the first one is its `commit_info`.

    Raises:
        FileExistsError: the version exists already.
        OSError, SinkError: the file cannot be written.
    """
    info, *others = actions
    content = b"".join(_JSON.encode(action) + b"\n" for action in others)
    summed = {"commitInfo": info["commitInfo"] | {CHECKSUM: crc32(content)}}
    content = _JSON.encode(summed) + b"\n" + content
    if isinstance(folder, LocalFolder):
        _link(Path(folder.path) / "_delta_log", version, content)
    elif not folder.create(f"_delta_log/{version:020d}.json", content):
        raise FileExistsError(f"version {version} exists")


def _link(log: Path, version: int, content: bytes) -> None:
    """Creates a commit in a local folder. It is on disk after the step's `Flow.sync`, together with the step's other files."""
    if not version:
        log.mkdir(parents=True, exist_ok=True)
    temporary = log / f".{version:020d}.{uuid.uuid4()}.tmp"
    try:
        temporary.write_bytes(content)
        os.link(temporary, log / f"{version:020d}.json")
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def commit_info(operation: str, parameters: Mapping[str, str], read: int | None, note: str | None = None) -> LogAction:
    """Returns the action that describes a commit, for people and for `DESCRIBE HISTORY`."""
    info = {
        "timestamp": _now(),
        "operation": operation,
        "operationParameters": dict(parameters),
        "isBlindAppend": False,
    }
    info |= {"engineInfo": "changefeed", "txnId": str(uuid.uuid4())}
    if read is not None:
        info["readVersion"] = read
    if note is not None:
        info["userMetadata"] = note
    return {"commitInfo": info}


def transaction(application: str, version: int) -> LogAction:
    """Returns the action that carries a write id."""
    return {"txn": {"appId": application, "version": version, "lastUpdated": _now()}}


def added(file: Added, *, changes_rows: bool = True, has_vectors: bool) -> LogAction:
    """Returns the action that adds a new data file; `has_vectors`: to a table with the feature for deletion vectors."""
    values = json.loads(file.partition or "{}")
    fields = {
        "path": file.path,
        "partitionValues": values,
        "size": file.size,
        "modificationTime": file.modification_time,
    }
    stats = _stats(file.stats, file.rows, tight=True) if has_vectors else file.stats
    return {"add": fields | {"dataChange": changes_rows, "stats": stats}}


def removed(file: LogAction, *, changes_rows: bool = True) -> LogAction:
    """Returns the action that removes a data file, with its deletion vector in the log."""
    fields = {
        "path": file["path"],
        "deletionTimestamp": _now(),
        "dataChange": changes_rows,
        "extendedFileMetadata": True,
    }
    kept = ("partitionValues", "size", "tags", "deletionVector")
    if stats := file.get("stats"):
        fields["stats"] = _JSON.encode({"numRecords": json.loads(stats).get("numRecords")}).decode()
    return {"remove": fields | {name: file[name] for name in kept if file.get(name) is not None}}


def marked(folder: Folder, files: Mapping[str, LogAction], marks: Sequence[Marked]) -> list[LogAction]:
    """Writes new deletion vectors to a file, and returns the actions that assign them to their data files.

    Raises:
        SinkError: the file of vectors cannot be written.
    """
    actions = []
    for mark, descriptor in zip(marks, _in_a_file(folder, marks), strict=True):
        file = files[mark.path]
        stats = _stats(file.get("stats"), mark.rows, tight=False)
        entry = {**file, "dataChange": True, "stats": stats, "deletionVector": descriptor}
        actions += [removed(file), {"add": entry}]
    return actions


def new_table(schema: str, *, has_vectors: bool) -> list[LogAction]:
    """Returns the actions for protocol and metadata of a new table, as Spark writes them.

    Args:
        schema: the columns, as a Delta schema in JSON.
        has_vectors: whether the table gets the feature for deletion vectors.
    """
    has_ntz = any(field["type"] == NTZ_TYPE for field in json.loads(schema)["fields"])
    features = [*([FEATURE] if has_vectors else []), *([NTZ] if has_ntz else [])]
    protocol: LogAction = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
        protocol["writerFeatures"] = [*features, *sorted(_LEGACY, reverse=True)]
    metadata: LogAction = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {PROPERTY: "true"} if has_vectors else {},
        "createdTime": _now(),
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def upgrade(protocol: LogAction, metadata: LogAction) -> list[LogAction]:
    """Returns the actions that enable deletion vectors; none if the table has them."""
    actions = _with_feature(protocol, FEATURE)
    configuration = metadata.get("configuration") or {}
    if configuration.get(PROPERTY, "false").lower() != "true":
        actions.append({"metaData": {**metadata, "configuration": {**configuration, PROPERTY: "true"}}})
    return actions


def new_columns(protocol: LogAction, metadata: LogAction, fields: Sequence[Mapping[str, Any]]) -> list[LogAction]:
    """Returns the actions that change a table's columns."""
    has_ntz = any(field["type"] == NTZ_TYPE for field in fields)
    schema = {**json.loads(metadata["schemaString"]), "fields": list(fields)}
    actions = _with_feature(protocol, NTZ) if has_ntz else []
    return [*actions, {"metaData": {**metadata, "schemaString": json.dumps(schema)}}]


def _with_feature(protocol: LogAction, feature: str) -> list[LogAction]:
    """Returns the action that adds a feature of readers and writers; none if the table has it."""
    if feature in (protocol.get("writerFeatures") or ()):
        return []
    readers = {feature, *(protocol.get("readerFeatures") or ())}
    writers = {feature, *(protocol.get("writerFeatures") or _LEGACY)}
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return [{"protocol": {**versions, "readerFeatures": sorted(readers), "writerFeatures": sorted(writers)}}]


def _in_a_file(folder: Folder, marks: Sequence[Marked]) -> list[dict[str, Any]]:
    if not marks:
        return []
    name, content, descriptors = vectors.in_a_file([(mark.vector, mark.deleted) for mark in marks])
    try:
        with folder.writer(name) as file:
            file.write(content)
    except OSError as error:
        raise SinkError(f"{folder.path}: deletion vectors cannot be written: {error}") from error
    return descriptors


def _stats(stats: str | None, rows: int, *, tight: bool) -> str:
    """Returns statistics of a file that may have deleted rows: of all its rows, and whether bounds are exact."""
    fields = json.loads(stats, parse_float=Decimal, parse_int=Decimal) if stats else {}
    return _JSON.encode({**fields, "numRecords": rows, "tightBounds": tight}).decode()


def _now() -> int:
    return int(time.time() * 1000)
