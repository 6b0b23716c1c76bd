"""A table's log as the native apply needs it: what lies in the table, and one commit that is fenced.

    open ──▶ version N: write id, schema, files ──▶ items are written ──▶ commit N + 1, or nothing

Rule 1. A commit is version N + 1 of the table that was opened at version N, and the log takes a version once. Whatever else
was committed in between, by an older or newer run or by somebody who compacts the table, makes the commit fail: the
work was done on files that may be gone.
Rule 2. The write id that was read at version N is lower than the commit's own. So by rule 1 no commit with a write id follows
one with a higher or equal one.
Rule 3. An answer is never believed. After a commit, whatever was answered, the log is asked who wrote version N + 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import FencedError, MissingExtraError, SinkError
from changefeed.sinks.base import WriteId
from changefeed.sinks.delta.log import pack, unpack
from changefeed.sinks.delta.native.files import Folder
from changefeed.sinks.delta.native.item import Target, Written
from changefeed.sinks.delta.native.statistics import INDEXED

if TYPE_CHECKING:
    from deltalake import DeltaTable

_READER = {"timestampNtz"}
_WRITER = {"timestampNtz", "appendOnly", "invariants"}
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
_PLAIN_PATH = r"^[A-Za-z0-9._=-][A-Za-z0-9._=/-]*$"
_CHECKPOINTS = 10  # commits, as Delta's own writer has it where the table does not say


@dataclass(slots=True)
class Opened:
    """A table at one version.

    Attributes:
        write_id: the application's last write, if any.
    """

    folder: Folder
    application: str
    table: DeltaTable
    version: int
    write_id: WriteId | None

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.table.metadata().configuration

    def refused(self) -> str | None:
        """Why this table is not written natively; None when it is."""
        protocol, properties = self.table.protocol(), self.properties
        features = {*(protocol.reader_features or ())} - _READER | {*(protocol.writer_features or ())} - _WRITER
        if features:
            return f"table features {', '.join(sorted(features))}"
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
        if odd := next((f["name"] for f in fields if any(k.startswith("delta.") for k in f["metadata"])), None):
            return f"generated, identity or checked column {odd}"
        if odd := next((f["name"] for f in fields if _arrow(f["type"]) is None), None):
            return f"the type of column {odd}"
        paths = pa.table(self.table.get_add_actions()).column("path")
        if not pc.all(pc.match_substring_regex(paths, _PLAIN_PATH)).as_py() and len(paths):
            return "data files outside of its folder, or with names that a log does not hold as they are"
        return None

    def schema(self) -> pa.Schema:
        """The table's columns."""
        return _schema(self.table.schema())

    def has_columns(self, columns: pa.Schema) -> bool:
        """Whether the table has these columns, of these types, in whatever order, and no others."""
        from deltalake import Schema

        wanted, has = (
            {f["name"]: (f["type"], f["nullable"]) for f in json.loads(schema.to_json())["fields"]}
            for schema in (Schema.from_arrow(columns), self.table.schema())
        )
        return wanted == has

    def target(self, names: Sequence[str], keys: Sequence[str]) -> Target:
        """The table as items see it, with these columns of the upstream and this key.

        Raises:
            SinkError: the table lacks one of them.
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
        """The table's data files: path, size, and `low_0`, `high_0`, …: bounds of these columns where the log has them."""
        found = pa.table(self.table.get_add_actions())
        columns = {"path": found.column("path").cast(pa.string()), "size": found.column("size_bytes")}
        types = self.schema()
        for i, key in enumerate(keys):
            kind = types.field(key).type
            if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
                continue
            for name, end in (("low", "min"), ("high", "max")):
                with contextlib.suppress(KeyError):  # no file has statistics, or none of this column
                    columns[f"{name}_{i}"] = pa.chunked_array(
                        [c.field(key).cast(kind) for c in found.column(end).chunks], kind
                    )
        return pa.table(columns)


def open_table(folder: Folder, application: str, version: int | None = None) -> Opened | None:
    """The table at a version, the newest if none is given; None when there is no table.

    Raises:
        MissingExtraError: deltalake is not installed.
        SinkError: its log cannot be read.
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
        return _opened(folder, application, table)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise SinkError(f"{folder.path}: the table's log cannot be read: {error}", transient=True) from error


def arrow_schema(columns: pa.Schema) -> pa.Schema:
    """The columns as files of a Delta table have them."""
    from deltalake import Schema

    return _schema(Schema.from_arrow(columns))


def _schema(schema: Any) -> pa.Schema:
    fields = json.loads(schema.to_json())["fields"]
    return pa.schema([pa.field(f["name"], _arrow(f["type"]), f["nullable"]) for f in fields])


def _opened(folder: Folder, application: str, table: DeltaTable) -> Opened:
    number = table.transaction_version(application)
    return Opened(folder, application, table, table.version(), None if number is None else unpack(number))


def commit(opened: Opened, written: Iterable[Written], write_id: WriteId, note: str) -> int:
    """Commits what items have written as the version after the one that was opened; returns it.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: somebody else has committed in between (transient: open the table and write again), or the log cannot
            be written.
    """
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import RemoveAction

    _check_order(opened, write_id)
    now, done = int(time.time() * 1000), list(written)
    removes = [RemoveAction(path, True, now, size, {}) for w in done for path, size in w.removed]
    error: Exception | None = None
    try:
        opened.table.create_write_transaction(
            [*removes, *_adds(done)], "append", opened.table.schema(), **_options(opened.application, write_id, note)
        )
    except (DeltaError, OSError) as failed:
        error = failed
    _landed(opened, write_id, error)
    return opened.version + 1


def create(
    folder: Folder, application: str, schema: pa.Schema, written: Iterable[Written], write_id: WriteId, note: str
) -> None:
    """Commits a new table with what items have written as its version 0.

    Raises:
        FencedError: a newer run has made the table.
        SinkError: somebody else has made a table here in between, or the log cannot be written (transient).
    """
    from deltalake import Schema
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import create_table_with_add_actions

    error: Exception | None = None
    try:
        create_table_with_add_actions(
            folder.path, Schema.from_arrow(schema), _adds(written), "error",
            storage_options=dict(folder.options) or None, **_options(application, write_id, note),
        )  # fmt: skip
    except (DeltaError, OSError) as failed:
        error = failed
    there = open_table(folder, application)
    if there is not None and there.write_id is not None and there.write_id.epoch > write_id.epoch:
        raise _fenced(folder.path, application, there.write_id, write_id) from error
    if there is None or there.write_id != write_id:
        raise SinkError(f"{folder.path}: the table cannot be made: {error}", transient=True) from error


def _adds(written: Iterable[Written]) -> list[Any]:
    from deltalake.transaction import AddAction

    return [AddAction(f.path, f.size, {}, f.modification_time, True, f.stats) for w in written for f in w.added]


def _options(application: str, write_id: WriteId, note: str) -> dict[str, Any]:
    from deltalake.transaction import CommitProperties, PostCommitHookProperties, Transaction

    return {
        "commit_properties": CommitProperties(
            custom_metadata={"userMetadata": note},
            max_commit_retries=0,  # rule 1: the next version or none
            app_transactions=[Transaction(application, pack(write_id), int(time.time() * 1000))],
        ),
        "post_commithook_properties": PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    }


def _check_order(opened: Opened, write_id: WriteId) -> None:
    path, last = opened.folder.path, opened.write_id
    if last is None or last < write_id:
        return
    if last.epoch > write_id.epoch:
        raise _fenced(path, opened.application, last, write_id)
    raise SinkError(f"{path}: the write id {write_id} is not after the table's last one, {last}")


def _fenced(path: str, application: str, newer: WriteId, write_id: WriteId) -> FencedError:
    return FencedError(
        f"{path}: epoch {newer.epoch} of pipeline {application} writes this table now; this run is epoch {write_id.epoch} "
        "and stops"
    )


def _landed(opened: Opened, write_id: WriteId, error: Exception | None) -> None:
    """Rule 3."""
    from deltalake.exceptions import DeltaError

    path, wanted = opened.folder.path, opened.version + 1
    try:
        opened.table.update_incremental()
        state = _opened(opened.folder, opened.application, opened.table)
        if state.write_id is not None and state.write_id.epoch > write_id.epoch:
            raise _fenced(path, opened.application, state.write_id, write_id) from error
        landed = state.write_id == write_id and state.version >= wanted
    except (DeltaError, OSError) as unread:
        raise SinkError(
            f"{path}: whether a commit is in the table's log cannot be read: {unread}", transient=True
        ) from (error or unread)
    if landed:
        return
    if state.version >= wanted:
        raise SinkError(
            f"{path}: version {wanted} was committed by somebody else while this write was made", transient=True
        ) from error
    raise SinkError(f"{path}: version {wanted} cannot be committed: {error}", transient=True) from error


def checkpoint(opened: Opened) -> bool:
    """Writes a checkpoint if one is due after the commit that was made last.

    Raises:
        SinkError: it cannot be written (transient). The commit stands, and the table is whole without.
    """
    from deltalake.exceptions import DeltaError

    every = int(opened.properties.get("delta.checkpointInterval", _CHECKPOINTS))
    if opened.table.version() % every:
        return False
    try:
        opened.table.create_checkpoint()
        if opened.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true":
            opened.table.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise SinkError(f"{opened.folder.path}: a checkpoint cannot be written: {error}", transient=True) from error
    return True


def _arrow(kind: Any) -> pa.DataType | None:
    """The Arrow type of a Delta type; None for one that is not written here."""
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
