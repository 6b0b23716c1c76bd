"""Opens a table at one version: write id, schema, files, and whether native writes support it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import MissingExtraError, SinkError
from changefeed.sinks.base import WriteId
from changefeed.sinks.delta.log import unpack
from changefeed.sinks.delta.native import log_file, replay, vectors
from changefeed.sinks.delta.native.files import TableFolder
from changefeed.sinks.delta.native.statistics import INDEXED
from changefeed.sinks.delta.native.target import Target

if TYPE_CHECKING:
    from deltalake import DeltaTable

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
_PLAIN_PATH = r"^[A-Za-z0-9._=-][A-Za-z0-9._=/-]*$"


@dataclass(slots=True)
class Opened:
    """A table at one version.

    Attributes:
        write_id: write id of the application's last write; None if there is none.
    """

    folder: TableFolder
    application: str
    table: DeltaTable
    version: int
    write_id: WriteId | None
    _state: replay.LogState | None = None

    @property
    def has_vectors(self) -> bool:
        """Whether the table has the feature for deletion vectors."""
        return log_file.FEATURE in (self.table.protocol().writer_features or ())

    @property
    def state(self) -> replay.LogState:
        """The actions of the log, for a table in a local folder.

        Raises:
            SinkError: the log cannot be read.
        """
        if self._state is None:
            self._state = replay.state(self.folder.path, self.version)
        return self._state

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.table.metadata().configuration

    def refused(self) -> str | None:
        """Why this table is not written natively; None if it is."""
        protocol, properties = self.table.protocol(), self.properties
        features = {*(protocol.reader_features or ())} - _READER | {*(protocol.writer_features or ())} - _WRITER
        if features:
            return f"table features {', '.join(sorted(features))}"
        if self.has_vectors and not vectors.is_installed():
            return "deletion vectors, and pyroaring is not installed"
        if self.has_vectors and "://" in self.folder.path:
            return "deletion vectors outside of a local folder"
        if self.table.metadata().partition_columns:
            return "partitions"
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
        fields = json.loads(self.table.schema().to_json())["fields"]
        if unknown := next((f["name"] for f in fields if any(k.startswith("delta.") for k in f["metadata"])), None):
            return f"generated, identity or checked column {unknown}"
        if unknown := next((f["name"] for f in fields if _arrow(f["type"]) is None), None):
            return f"the type of column {unknown}"
        paths = pa.table(self.table.get_add_actions()).column("path")
        if not pc.all(pc.match_substring_regex(paths, _PLAIN_PATH)).as_py() and len(paths):
            return "data files outside of its folder, or with names that a log does not hold as they are"
        return None

    def not_upgraded(self) -> str | None:
        """Why deletion vectors cannot be enabled for this table; None if they can be, or are enabled."""
        version = self.table.protocol().min_writer_version
        if self.has_vectors or version == 7 or version <= 2:
            return None
        return f"writer version {version} of the Delta protocol: {WAY_OUT}"

    def takes_ntz(self) -> bool:
        """Whether the table has the feature for timestamp_ntz columns, or can get it."""
        version = self.table.protocol().min_writer_version
        return version == 7 or version <= 2

    def schema(self) -> pa.Schema:
        """The table's columns."""
        return _schema(self.table.schema())

    def has_columns(self, columns: pa.Schema) -> bool:
        """Whether the table has exactly these columns with these types, in any order."""
        from deltalake import Schema

        wanted, has = (
            {f["name"]: (f["type"], f["nullable"]) for f in json.loads(schema.to_json())["fields"]}
            for schema in (Schema.from_arrow(columns), self.table.schema())
        )
        return wanted == has

    def target(self, names: Sequence[str], keys: Sequence[str]) -> Target:
        """Returns the table for items, with these upstream columns and this key.

        Raises:
            SinkError: the table lacks one of the columns.
        """
        schema = self.schema()
        if missing := [name for name in names if name not in schema.names]:
            raise SinkError(
                f"{self.folder.path}: its columns are not those that this pipeline gave it: {missing[0]!r} is missing. "
                "Restore it, or build all tables again from the source: changefeed repair --rebuild --all"
            )
        indexed = int(self.properties.get("delta.dataSkippingNumIndexedCols", INDEXED))
        return Target(self.folder, schema, tuple(names), tuple(keys), indexed)

    def files(self, keys: Sequence[str] = ()) -> pa.Table:
        """Returns the data files: path, size, and `low_0`, `high_0`, …: bounds of the key columns, if the log has them.

        For a table with deletion vectors also `vector`, the descriptor as JSON.
        """
        actions = pa.table(self.table.get_add_actions())
        columns = {"path": actions.column("path").cast(pa.string()), "size": actions.column("size_bytes")}
        types = self.schema()
        for i, key in enumerate(keys):
            kind = types.field(key).type
            if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
                continue
            for name, end in (("low", "min"), ("high", "max")):
                with contextlib.suppress(KeyError):  # no file has statistics, or none of this column
                    columns[f"{name}_{i}"] = pa.chunked_array(
                        [c.field(key).cast(kind) for c in actions.column(end).chunks], kind
                    )
        if self.has_vectors:
            vectors_of = [self.state.files[path].get("deletionVector") for path in columns["path"].to_pylist()]
            columns["vector"] = pa.array([json.dumps(one) if one else None for one in vectors_of], pa.string())
        return pa.table(columns)


def open_table(folder: TableFolder, application: str, version: int | None = None) -> Opened | None:
    """Opens the table at a version, by default the newest; None if there is no table.

    Raises:
        MissingExtraError: deltalake is not installed.
        SinkError: the table's log cannot be read.
    """
    os.environ.setdefault("RUST_LOG", "off")  # or the cloud SDKs in it write to stderr whatever they try
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
        from deltalake.transaction import RemoveAction  # noqa: F401  # from 1.6.6 on: older ones cannot commit a rewrite
    except ImportError as error:
        raise MissingExtraError("Writing Delta tables without Spark", "spark") from error
    try:
        table = DeltaTable(folder.path, version, storage_options=dict(folder.options) or None)
        return opened_at(folder, application, table)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise SinkError(f"{folder.path}: the table's log cannot be read: {error}", transient=True) from error


def arrow_schema(columns: pa.Schema) -> pa.Schema:
    """Converts columns to the Arrow schema of a Delta table's files."""
    from deltalake import Schema

    return _schema(Schema.from_arrow(columns))


def _schema(schema: Any) -> pa.Schema:
    fields = json.loads(schema.to_json())["fields"]
    return pa.schema([pa.field(f["name"], _arrow(f["type"]), f["nullable"]) for f in fields])


def opened_at(folder: TableFolder, application: str, table: DeltaTable) -> Opened:
    """Opens the table at the version that delta-rs has loaded."""
    number = table.transaction_version(application)
    return Opened(folder, application, table, table.version(), None if number is None else unpack(number))


def _arrow(kind: Any) -> pa.DataType | None:
    """Converts a Delta type to an Arrow type; None if native writes do not support it."""
    if isinstance(kind, str):
        if kind.startswith("decimal("):
            return pa.decimal128(*map(int, kind[len("decimal(") : -1].split(",")))
        return _PRIMITIVES.get(kind)
    match kind:
        case {"type": "struct", "fields": fields}:
            types = [(f["name"], _arrow(f["type"]), f["nullable"]) for f in fields]
            return None if any(t is None for _, t, _ in types) else pa.struct([pa.field(*t) for t in types])
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            inner = _arrow(element)
            return None if inner is None else pa.list_(pa.field("element", inner, nullable))
        case {"type": "map", "keyType": key, "valueType": value}:
            pair = _arrow(key), _arrow(value)
            return None if None in pair else pa.map_(*pair)
    return None
