"""Names the snapshots of published cuts by tags: `cut-<commit_ts>`. Tagged snapshots are not expired."""

from __future__ import annotations

import logging
import re

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate, TableUpdate

from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.opened import Opened

_log = logging.getLogger(__name__)
_CUT = re.compile(r"cut-(\d+)")


def tag(catalog: TableCatalog, opened: Opened, cut: str, version: int, kept: int) -> None:
    """Tags a snapshot with a cut, and removes the tags of older cuts, in one commit of metadata.

    Args:
        catalog: the catalog.
        opened: the table.
        cut: the name of the cut.
        version: the snapshot.
        kept: number of cuts that stay tagged.

    Raises:
        ConflictError: somebody else has committed to the table at the same time.
        SinkError: the commit cannot be made.
    """
    refs = opened.metadata.refs
    if cut in refs and refs[cut].snapshot_id == version:
        return
    if opened.metadata.snapshot_by_id(version) is None:
        _log.warning("%s: snapshot %s of %s was expired, and gets no tag", opened.location, version, cut)
        return
    cuts = sorted({cut, *(name for name in refs if _CUT.fullmatch(name))}, key=_number)
    updates: list[TableUpdate] = [
        SetSnapshotRefUpdate(ref_name=cut, type=SnapshotRefType.TAG, snapshot_id=version)  # type: ignore[call-arg]
    ]
    updates += [RemoveSnapshotRefUpdate(ref_name=name) for name in cuts[:-kept] if name in refs and name != cut]  # type: ignore[call-arg]
    catalog.commit(opened.table, [AssertTableUUID(uuid=opened.metadata.table_uuid)], updates)


def _number(cut: str) -> int:
    match = _CUT.fullmatch(cut)
    return int(match[1]) if match is not None else 0
