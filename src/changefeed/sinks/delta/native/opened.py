"""Opens a table at one version: write id, schema, files, and whether native writes support it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from changefeed.errors import MissingExtraError, SinkError
from changefeed.sinks.apply import bitmaps
from changefeed.sinks.apply.compaction import StoredFile
from changefeed.sinks.apply.target import Target
from changefeed.sinks.delta.log import unpack
from changefeed.sinks.delta.native import log_file, replay
from changefeed.sinks.delta.native.layout import PARTITION_TYPES, DeltaLayout
from changefeed.sinks.delta.native.statistics import INDEXED, bounds_of
from changefeed.sinks.ways_out import COLUMNS_CHANGED
from changefeed.sinks.writes import WriteId
from changefeed.storage import Folder

_READER = {log_file.NTZ, log_file.FEATURE}
_WRITER = {log_file.NTZ, "appendOnly", "invariants", log_file.FEATURE}
_PRIMITIVES = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
WAY_OUT = f"set {log_file.PROPERTY} = true, and let the pipeline go on from there: changefeed repair --accept"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class Opened:
    """A table at one version.

    Attributes:
        application: the pipeline's owner text, which is Delta's application id.
        log: the table's log, to read it again.
        state: the table at the version.
    """

    folder: Folder
    application: str
    log: replay.TableLog
    state: replay.LogState

    @property
    def version(self) -> int:
        """The version at which the table was opened."""
        return self.state.version

    @property
    def write_id(self) -> WriteId | None:
        """Write id of the application's last write; None if there is none."""
        number = self.state.transactions.get(self.application)
        return None if number is None else unpack(number)

    @property
    def has_vectors(self) -> bool:
        """Whether the table has the feature for deletion vectors."""
        return log_file.FEATURE in (self.state.protocol.get("writerFeatures") or ())

    @property
    def _writer_version(self) -> int:
        version: int = self.state.protocol["minWriterVersion"]
        return version

    def refused(self) -> str | None:
        """Why this table is not written natively; None if it is."""
        protocol, properties = self.state.protocol, self.state.properties
        readers, writers = ({*(protocol.get(of) or ())} for of in ("readerFeatures", "writerFeatures"))
        features = readers - _READER | writers - _WRITER
        if features:
            return f"table features {', '.join(sorted(features))}"
        if self.has_vectors and not bitmaps.is_installed():
            return "deletion vectors, and pyroaring is not installed"
        if properties.get("delta.columnMapping.mode", "none") != "none":
            return "column mapping"
        if properties.get("delta.enableChangeDataFeed", "false").lower() == "true":
            return "a change data feed"
        if properties.get("delta.appendOnly", "false").lower() == "true":
            return "delta.appendOnly"
        if any(name.startswith("delta.constraints.") for name in properties):
            return "constraints"
        if "delta.dataSkippingStatsColumns" in properties:
            return "delta.dataSkippingStatsColumns"
        fields = self.state.fields
        if unknown := next(
            (f["name"] for f in fields if any(k.startswith("delta.") for k in f.get("metadata") or ())), None
        ):
            return f"generated, identity or checked column {unknown}"
        if unknown := next((f["name"] for f in fields if arrow_type(f["type"]) is None), None):
            return f"the type of column {unknown}"
        partitioned = {f["name"]: f["type"] for f in fields if f["name"] in self.partition_columns}
        if unknown := next((name for name, kind in partitioned.items() if kind not in PARTITION_TYPES), None):
            return f"partitions by {unknown}, of type {partitioned[unknown]}"
        if not all(map(is_inside, self.state.files)):
            return "data files outside of its folder"
        return None

    def not_upgraded(self) -> str | None:
        """Why deletion vectors cannot be enabled for this table; None if they can be, or are enabled."""
        version = self._writer_version
        if self.has_vectors or version == 7 or version <= 2:
            return None
        return f"writer version {version} of the Delta protocol: {WAY_OUT}"

    @property
    def layout(self) -> DeltaLayout:
        """The layout of the table's data files."""
        indexed = int(self.state.properties.get("delta.dataSkippingNumIndexedCols", INDEXED))
        if not self.partition_columns:
            return DeltaLayout(self.folder, indexed)
        schema = self.schema()
        return DeltaLayout(self.folder, indexed, tuple(schema.field(name) for name in self.partition_columns))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns by whose values the rows are in partitions."""
        return tuple(self.state.metadata.get("partitionColumns") or ())

    def takes_ntz(self) -> bool:
        """Whether the table has the feature for timestamp_ntz columns, or can get it."""
        return self._writer_version == 7 or self._writer_version <= 2

    def schema(self) -> pa.Schema:
        """The table's columns."""
        return _schema(self.state.fields)

    def has_columns(self, columns: pa.Schema) -> bool:
        """Whether the table has exactly these columns with these types, in any order."""
        return _types(delta_fields(columns)) == _types(self.state.fields)

    def target(self, names: Sequence[str], keys: Sequence[str]) -> Target:
        """Returns the table for items, with these upstream columns and this key.

        Raises:
            SinkError: the table lacks one of the columns.
        """
        schema = self.schema()
        if missing := [name for name in names if name not in schema.names]:
            raise SinkError(
                f"{self.folder.path}: its columns are not those that this pipeline gave it: {missing[0]!r} is missing. "
                f"{COLUMNS_CHANGED}"
            )
        return Target(self.layout, schema, tuple(names), tuple(keys))

    def files(self, keys: Sequence[str] = ()) -> pa.Table:
        """Returns the data files: path, size, and `low_0`, `high_0`, …: bounds of the key columns, if the log has them.

        For a table with deletion vectors also `vector`, the descriptor as JSON; for one with partitions `partition`, the values
        as JSON.
        """
        files = list(self.state.files.values())
        columns: dict[str, Any] = {
            "path": pa.array([file["path"] for file in files], pa.string()),
            "size": pa.array([file["size"] for file in files], pa.int64()),
        }
        stats, types = [file.get("stats") for file in files], self.schema()
        for i, key in enumerate(keys):
            if (bounds := bounds_of(stats, key, types.field(key).type)) is not None:
                columns[f"low_{i}"], columns[f"high_{i}"] = bounds
        if self.has_vectors:
            descriptors = [file.get("deletionVector") for file in files]
            columns["vector"] = pa.array([json.dumps(one) if one else None for one in descriptors], pa.string())
        if self.partition_columns:
            columns["partition"] = pa.array([json.dumps(file["partitionValues"]) for file in files], pa.string())
        return pa.table(columns)

    def stored_files(self) -> list[list[StoredFile]]:
        """Returns the data files for compaction, those of each partition together."""
        partitions = defaultdict[str, list[StoredFile]](list)
        for file in self.state.files.values():
            rows = json.loads(file.get("stats") or "{}").get("numRecords") or 0
            deleted = (file.get("deletionVector") or {}).get("cardinality", 0)
            stored = StoredFile(file["path"], file["modificationTime"], file["size"], rows, deleted)
            partitions[json.dumps(file.get("partitionValues"), sort_keys=True)].append(stored)
        return list(partitions.values())


def open_table(folder: Folder, application: str, log: replay.TableLog | None = None) -> Opened | None:
    """Opens the newest version of a table; None if there is no table.

    Args:
        folder: the table's folder.
        application: the pipeline's owner text.
        log: the table's log, if it has been read before.

    Raises:
        SinkError: the table's log cannot be read.
    """
    log = log or replay.TableLog(folder)
    state = log.read()
    return None if state is None else Opened(folder, application, log, state)


def arrow_schema(columns: pa.Schema) -> pa.Schema:
    """Converts columns to the Arrow schema of a Delta table's files."""
    return _schema(delta_fields(columns))


def delta_fields(columns: pa.Schema) -> list[dict[str, Any]]:
    """Converts columns to the fields of a Delta schema.

    Raises:
        MissingExtraError: deltalake is not installed.
    """
    fields: list[dict[str, Any]] = json.loads(delta_schema(columns))["fields"]
    return fields


@lru_cache(maxsize=4096)
def delta_schema(columns: pa.Schema) -> str:
    """Converts columns to a Delta schema in JSON.

    Raises:
        MissingExtraError: deltalake is not installed.
    """
    try:
        from deltalake import Schema
    except ImportError as error:
        raise MissingExtraError("Writing Delta tables without Spark", "spark") from error
    text: str = Schema.from_arrow(columns).to_json()
    return text


def is_inside(path: str) -> bool:
    """Whether a path in the log is that of a file in the table's folder, or in a folder in it."""
    name = unquote(path)
    return _SCHEME.match(path) is None and not name.startswith("/") and ".." not in name.split("/")


def _types(fields: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, bool]]:
    return {f["name"]: (f["type"], f.get("nullable", True)) for f in fields}


def _schema(fields: Sequence[Mapping[str, Any]]) -> pa.Schema:
    return pa.schema([pa.field(f["name"], arrow_type(f["type"]), f.get("nullable", True)) for f in fields])


def arrow_type(kind: Any) -> pa.DataType | None:
    """Converts a Delta type to an Arrow type; None if native writes do not support it."""
    if isinstance(kind, str):
        if kind.startswith("decimal("):
            return pa.decimal128(*map(int, kind[len("decimal(") : -1].split(",")))
        return _PRIMITIVES.get(kind)
    match kind:
        case {"type": "struct", "fields": fields}:
            types = [(f["name"], arrow_type(f["type"]), f.get("nullable", True)) for f in fields]
            return None if any(t is None for _, t, _ in types) else pa.struct([pa.field(*t) for t in types])
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            inner = arrow_type(element)
            return None if inner is None else pa.list_(pa.field("element", inner, nullable))
        case {"type": "map", "keyType": key, "valueType": value}:
            pair = arrow_type(key), arrow_type(value)
            return None if None in pair else pa.map_(*pair)
    return None
