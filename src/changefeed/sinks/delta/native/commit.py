"""Commits native writes to a table's log, fenced by write ids.

    open ──▶ version N: write id, schema, files ──▶ items are written ──▶ commit N + 1, or nothing

Rule 1. A commit is version N + 1 of the table that was opened at version N, and each version is committed only once. If
anything was committed in between, by an older or newer run or by a program that compacts the table, the commit fails: its
files were computed from files that may be gone.
Rule 2. The write id at version N is lower than the commit's own. So, with rule 1, no commit follows one with a higher or equal
write id.
Rule 3. If the file of version N + 1 could not be created, the log is read to see who wrote it. If it was created, the next read
of the log checks that version N is still the same file, and that the write id is in the log. The guard reads every table that a
step has written before the ledger has the step.

`log_file.py` writes the commits, `replay.py` reads them, and delta-rs writes checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.apply.files import Added
from changefeed.sinks.apply.item import TaskResult
from changefeed.sinks.delta.actions import LogAction
from changefeed.sinks.delta.log import pack
from changefeed.sinks.delta.native import delta_rs, log_file
from changefeed.sinks.delta.native.opened import Opened, delta_fields, delta_schema, open_table
from changefeed.sinks.delta.native.replay import TableLog, lost_checkpoint
from changefeed.sinks.writes import WriteId

_CHECKPOINTS = 10  # commits, as Delta's own writer does without a table property


def commit(
    opened: Opened,
    written: Iterable[TaskResult],
    write_id: WriteId,
    note: str,
    *,
    merges_on_read: bool = False,
    columns: pa.Schema | None = None,
) -> int:
    """Commits the results of items as the version after the opened one; returns the new version.

    Args:
        opened: the table.
        written: the results of the items.
        write_id: the write id of the commit.
        note: the note of the commit, for people.
        merges_on_read: adds the table feature for deletion vectors in this commit, if the table lacks it.
        columns: those of the table after the commit, if the results replace all files; None to keep them.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: another writer has committed in between (transient: open the table and write again), or the log cannot
            be written.
    """
    _check_order(opened, write_id)
    files, has_vectors, done = opened.state.files, merges_on_read or opened.has_vectors, list(written)
    actions = [log_file.commit_info("WRITE", {"mode": "Append"}, opened.version, note)]
    actions.append(log_file.transaction(opened.application, pack(write_id)))
    actions += _with_columns(opened, columns, upgrade=merges_on_read)
    actions += [log_file.removed(files[path]) for w in done for path, _ in w.removed]
    actions += log_file.marked(opened.folder, files, [mark for w in done for mark in w.marked])
    actions += [log_file.added(file, has_vectors=has_vectors) for w in done for file in w.added]
    return _put(opened, actions, write_id)


def _with_columns(opened: Opened, columns: pa.Schema | None, *, upgrade: bool) -> list[LogAction]:
    """The actions that give a table other columns, if any, and the feature for deletion vectors; one of a kind at most."""
    now: LogAction = {"protocol": opened.state.protocol, "metaData": opened.state.metadata}
    changed: LogAction = {}
    if columns is not None:
        for action in log_file.new_columns(now["protocol"], now["metaData"], delta_fields(columns)):
            changed |= action
    if upgrade:
        after = now | changed
        for action in log_file.upgrade(after["protocol"], after["metaData"]):
            changed |= action
    return [{name: action} for name, action in changed.items()]


def compact(opened: Opened, written: Sequence[TaskResult]) -> None:
    """Commits files that replace others with the same rows, without a write id, as OPTIMIZE does.

    Raises:
        SinkError: another writer has committed in between, or the log cannot be written (transient).
    """
    files, version = opened.state.files, opened.version + 1
    info = log_file.commit_info("OPTIMIZE", {"predicate": "[]", "auto": "true"}, opened.version)
    actions = [info, *(log_file.removed(files[path], changes_rows=False) for w in written for path, _ in w.removed)]
    actions += [log_file.added(file, changes_rows=False, has_vectors=True) for w in written for file in w.added]
    try:
        log_file.put(opened.folder, version, actions)
    except (OSError, SinkError) as error:
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
    has_vectors = opened.has_vectors
    actions += [log_file.added(file, has_vectors=has_vectors) for file in added or ()]
    _put(opened, actions, write_id)


def create(
    log: TableLog,
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
    actions = [log_file.commit_info("CREATE TABLE AS SELECT", {"partitionBy": "[]"}, None, note)]
    actions += log_file.new_table(delta_schema(schema), has_vectors=merges_on_read)
    actions.append(log_file.transaction(application, pack(write_id)))
    actions += [log_file.added(file, has_vectors=merges_on_read) for w in written for file in w.added]
    error: Exception | None = None
    try:
        log_file.put(log.folder, 0, actions)
    except (OSError, SinkError) as failed:
        error = failed
    there = open_table(log.folder, application, log)
    if there is not None and there.write_id is not None and there.write_id.epoch > write_id.epoch:
        raise fenced(log.folder.path, application, there.write_id, write_id) from error
    if there is None or there.write_id != write_id:
        raise SinkError(f"{log.folder.path}: the table cannot be created: {error}", transient=True) from error


def _check_order(opened: Opened, write_id: WriteId) -> None:
    path, last = opened.folder.path, opened.write_id
    if last is None or last < write_id:
        return
    if last.epoch > write_id.epoch:
        raise fenced(path, opened.application, last, write_id)
    raise SinkError(f"{path}: the write id {write_id} is not after the table's last one, {last}")


def fenced(path: str, application: str, newer: WriteId, write_id: WriteId) -> FencedError:
    """Returns the error for a write of an older run."""
    return FencedError(
        f"{path}: epoch {newer.epoch} of pipeline {application} writes this table now; this run is epoch {write_id.epoch} "
        "and stops"
    )


def _put(opened: Opened, actions: Sequence[LogAction], write_id: WriteId) -> int:
    """Commits actions as the version after the opened one; returns the new version."""
    version = opened.version + 1
    try:
        log_file.put(opened.folder, version, actions)
    except (OSError, SinkError) as error:
        _landed(opened, write_id, error)
    else:
        opened.log.made(version, opened.application, pack(write_id))
    return version


def _landed(opened: Opened, write_id: WriteId, error: Exception | None) -> None:
    """Reads the log to see who wrote the version after the opened one: rule 3."""
    path, wanted = opened.folder.path, opened.version + 1
    try:
        now = open_table(opened.folder, opened.application, opened.log)
    except SinkError as unread:
        raise SinkError(
            f"{path}: the table's log cannot be read to see whether the commit was made: {unread}", transient=True
        ) from (error or unread)
    if now is not None and now.write_id is not None and now.write_id.epoch > write_id.epoch:
        raise fenced(path, opened.application, now.write_id, write_id) from error
    if now is not None and now.version >= wanted:
        if now.write_id == write_id:
            return
        raise SinkError(
            f"{path}: version {wanted} was committed by another writer during this write", transient=True
        ) from error
    raise SinkError(f"{path}: version {wanted} cannot be committed: {error}", transient=True) from error


def forget_lost_checkpoint(opened: Opened) -> bool:
    """Deletes the name of the last checkpoint if that is gone; returns whether it was. The table was read from its commits.

    Raises:
        SinkError: the log cannot be read, or the file cannot be deleted (transient).
    """
    named = lost_checkpoint(opened.folder)
    if named is None:
        return False
    folder, _, name = named.rpartition("/")
    try:
        opened.folder.delete([named, f"{folder}/.{name}.crc"])
    except SinkError as error:
        raise SinkError(
            f"{opened.folder.path}/{named}: it names a checkpoint that is gone, and cannot be deleted: {error}",
            transient=True,
        ) from error
    return True


def checkpoint(opened: Opened, version: int) -> bool:
    """Writes a checkpoint of the newest version if one is due after the commit of a version; returns whether it was.

    Raises:
        SinkError: the checkpoint cannot be written (transient). The commit is valid without it.
    """
    from deltalake.exceptions import DeltaError

    if version % int(opened.state.properties.get("delta.checkpointInterval", _CHECKPOINTS)):
        return False
    path, now = opened.folder.path, opened.log.read()
    if now is None:
        return False
    try:
        table = delta_rs.table(opened.folder, now.version)
        table.create_checkpoint()
        if now.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true":
            table.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise SinkError(f"{path}: a checkpoint cannot be written: {error}", transient=True) from error
    return True
