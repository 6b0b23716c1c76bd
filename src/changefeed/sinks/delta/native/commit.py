"""Commits native writes to a table's log, fenced by write ids.

    open ──▶ version N: write id, schema, files ──▶ items are written ──▶ commit N + 1, or nothing

Rule 1. A commit is version N + 1 of the table that was opened at version N, and each version is committed only once. If
anything was committed in between, by an older or newer run or by a program that compacts the table, the commit fails: its
files were computed from files that may be gone.
Rule 2. The write id at version N is lower than the commit's own. So, with rule 1, no commit follows one with a higher or equal
write id.
Rule 3. After a commit, whatever the answer was, the log is read to see who wrote version N + 1.

Plain tables are committed by delta-rs. It supports neither deletion vectors nor new columns between others: tables with deletion
vectors, and changes of columns, are committed by `log_file.py`, under the same rules.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.base import WriteId
from changefeed.sinks.delta.log import pack
from changefeed.sinks.delta.native import log_file
from changefeed.sinks.delta.native.files import Added, TableFolder
from changefeed.sinks.delta.native.item import TaskResult
from changefeed.sinks.delta.native.opened import Opened, open_table, opened_at

_CHECKPOINTS = 10  # commits, as Delta's own writer does without a table property


def commit(
    opened: Opened, written: Iterable[TaskResult], write_id: WriteId, note: str, *, merges_on_read: bool = False
) -> int:
    """Commits the results of items as the version after the opened one; returns the new version.

    Args:
        opened: the table.
        written: the results of the items.
        write_id: the write id of the commit.
        note: the note of the commit, for people.
        merges_on_read: adds the table feature for deletion vectors in this commit, if the table lacks it.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: another writer has committed in between (transient: open the table and write again), or the log cannot
            be written.
    """
    from deltalake.exceptions import DeltaError

    _check_order(opened, write_id)
    done, error = list(written), None
    way = _commit_vectors if merges_on_read or opened.has_vectors else _commit_plain
    try:
        way(opened, done, write_id, note, merges_on_read)
    except (DeltaError, OSError) as failed:
        error = failed
    _landed(opened, write_id, error)
    return opened.version + 1


def _commit_plain(opened: Opened, done: Sequence[TaskResult], write_id: WriteId, note: str, upgrade: bool) -> None:
    from deltalake.transaction import RemoveAction

    now = int(time.time() * 1000)
    removes = [RemoveAction(path, True, now, size, {}) for w in done for path, size in w.removed]
    opened.table.create_write_transaction(
        [*removes, *_adds(done)], "append", opened.table.schema(), **_options(opened.application, write_id, note)
    )


def _commit_vectors(opened: Opened, done: Sequence[TaskResult], write_id: WriteId, note: str, upgrade: bool) -> None:
    files = opened.state.files
    actions = [log_file.commit_info("WRITE", {"mode": "Append"}, opened.version, note)]
    actions.append(log_file.transaction(opened.application, pack(write_id)))
    if upgrade:
        actions += log_file.upgrade(opened.state.protocol, opened.state.metadata)
    actions += [log_file.removed(files[path]) for w in done for path, _ in w.removed]
    actions += log_file.marked(opened.folder, files, [mark for w in done for mark in w.marked])
    actions += [log_file.added(file) for w in done for file in w.added]
    log_file.put(opened.folder.path, opened.version + 1, actions)


def compact(opened: Opened, written: Sequence[TaskResult]) -> None:
    """Commits files that replace others with the same rows, without a write id, as OPTIMIZE does.

    Raises:
        SinkError: another writer has committed in between, or the log cannot be written (transient).
    """
    files, version = opened.state.files, opened.version + 1
    info = log_file.commit_info("OPTIMIZE", {"predicate": "[]", "auto": "true"}, opened.version)
    actions = [info, *(log_file.removed(files[path], changes_rows=False) for w in written for path, _ in w.removed)]
    actions += [log_file.added(file, changes_rows=False) for w in written for file in w.added]
    try:
        log_file.put(opened.folder.path, version, actions)
    except OSError as error:
        raise SinkError(f"{opened.folder.path}: a compaction cannot be committed: {error}", transient=True) from error


def change_columns(
    opened: Opened, fields: Sequence[Mapping[str, Any]], added: Sequence[Added] | None, write_id: WriteId, note: str
) -> None:
    """Commits other columns, and files that replace all files of the table.

    Args:
        opened: the table, in a local folder.
        fields: the new columns, as fields of a Delta schema.
        added: files with these columns; None to keep the table's files.
        write_id: the write id of the commit.
        note: the note of the commit, for people.

    Raises:
        FencedError, SinkError: as `commit`.
    """
    _check_order(opened, write_id)
    state, replaces = opened.state, added is not None
    operation, parameters = ("WRITE", {"mode": "Overwrite"}) if replaces else ("ADD COLUMNS", {})
    actions = [log_file.commit_info(operation, parameters, opened.version, note)]
    actions.append(log_file.transaction(opened.application, pack(write_id)))
    actions += log_file.new_columns(state.protocol, state.metadata, fields)
    actions += [log_file.removed(file) for file in state.files.values() if replaces]
    actions += [log_file.added(file) for file in added or ()]
    error: OSError | None = None
    try:
        log_file.put(opened.folder.path, opened.version + 1, actions)
    except OSError as failed:
        error = failed
    _landed(opened, write_id, error)


def create(
    folder: TableFolder,
    application: str,
    schema: pa.Schema,
    written: Iterable[TaskResult],
    write_id: WriteId,
    note: str,
    *,
    merges_on_read: bool = False,
) -> None:
    """Creates a table: commits the results of items as version 0; `merges_on_read` adds the feature for deletion vectors.

    Raises:
        FencedError: a newer run has created the table.
        SinkError: another writer has created a table here in between, or the log cannot be written (transient).
    """
    from deltalake.exceptions import DeltaError

    error: Exception | None = None
    way = _create_with_vectors if merges_on_read else _create_plain
    try:
        way(folder, application, schema, written, write_id, note)
    except (DeltaError, OSError) as failed:
        error = failed
    there = open_table(folder, application)
    if there is not None and there.write_id is not None and there.write_id.epoch > write_id.epoch:
        raise _fenced(folder.path, application, there.write_id, write_id) from error
    if there is None or there.write_id != write_id:
        raise SinkError(f"{folder.path}: the table cannot be created: {error}", transient=True) from error


def _create_plain(
    folder: TableFolder,
    application: str,
    schema: pa.Schema,
    written: Iterable[TaskResult],
    write_id: WriteId,
    note: str,
) -> None:
    from deltalake import Schema
    from deltalake.transaction import create_table_with_add_actions

    create_table_with_add_actions(
        folder.path, Schema.from_arrow(schema), _adds(written), "error",
        storage_options=dict(folder.options) or None, **_options(application, write_id, note),
    )  # fmt: skip


def _create_with_vectors(
    folder: TableFolder,
    application: str,
    schema: pa.Schema,
    written: Iterable[TaskResult],
    write_id: WriteId,
    note: str,
) -> None:
    from deltalake import Schema

    columns = Schema.from_arrow(schema).to_json()
    actions = [log_file.commit_info("CREATE TABLE AS SELECT", {"partitionBy": "[]"}, None, note)]
    actions += log_file.new_table(columns, has_ntz='"timestamp_ntz"' in columns)
    actions.append(log_file.transaction(application, pack(write_id)))
    actions += [log_file.added(file) for w in written for file in w.added]
    log_file.put(folder.path, 0, actions)


def _adds(written: Iterable[TaskResult]) -> list[Any]:
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
    """Reads the log after a commit to see who wrote the version: rule 3."""
    from deltalake.exceptions import DeltaError

    path, wanted = opened.folder.path, opened.version + 1
    try:
        opened.table.update_incremental()
        state = opened_at(opened.folder, opened.application, opened.table)
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
            f"{path}: version {wanted} was committed by another writer during this write", transient=True
        ) from error
    raise SinkError(f"{path}: version {wanted} cannot be committed: {error}", transient=True) from error


def checkpoint(opened: Opened) -> bool:
    """Writes a checkpoint if one is due after the last commit.

    Raises:
        SinkError: the checkpoint cannot be written (transient). The commit is valid without it.
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
