"""Reads the actions of a commit from the text of its file, one JSON object in each line.

A file that was not whole on disk at a power cut is empty or ends early. Every commit has an action. Spark and changefeed end the
last line with a newline, delta-rs does not. An action without one of the fields that Delta's protocol requires is damaged: what
it contains must not be left out, and other readers refuse the table. In a commit of changefeed, `commitInfo` has a checksum of
the other actions, so that any changed bit of them is seen.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec

LogAction = dict[str, Any]
CHECKSUM = "contentChecksum"
"""The field of `commitInfo`, the first action, with the CRC-32 of the lines behind it."""
_REQUIRED: dict[str, dict[str, type]] = {
    "add": {"path": str, "partitionValues": dict, "size": int, "modificationTime": int, "dataChange": bool},
    "remove": {"path": str, "dataChange": bool},
    "metaData": {"id": str, "schemaString": str, "partitionColumns": list},
    "protocol": {"minReaderVersion": int, "minWriterVersion": int},
    "txn": {"appId": str, "version": int},
}
_ACTIONS = {*_REQUIRED, "commitInfo", "cdc", "domainMetadata"}  # of a commit, in Delta's protocol


def actions_of(text: bytes) -> list[LogAction]:
    """Returns the actions of a commit.

    Raises:
        ValueError: the text is not a whole commit.
    """
    lines = text.split(b"\n")  # texts may hold other ends of lines
    try:
        actions = [msgspec.json.decode(line, type=dict) for line in lines if line.strip()]
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(f"a line of it is not a JSON object: {error}") from error
    if not actions:
        raise ValueError("it has no action")
    if lines[-1] and _writer(actions).startswith(("changefeed", "Apache-Spark")):
        raise ValueError("it ends early")
    return actions


def checked_actions_of(text: bytes) -> list[LogAction]:
    """Returns the actions of a commit that is to be read.

    Raises:
        ValueError: the text is not a whole commit, an action lacks a field, or the checksum is another one.
    """
    actions = actions_of(text)
    info = actions[0].get("commitInfo")
    if isinstance(info, dict) and info.get(CHECKSUM, checksum := crc32(text.partition(b"\n")[2])) != checksum:
        raise ValueError("its actions are not those of its checksum")
    is_ours = _writer(actions).startswith("changefeed")
    for action in actions:
        _check(action, is_ours=is_ours)
    return actions


def _writer(actions: list[LogAction]) -> str:
    return next((str(a["commitInfo"].get("engineInfo")) for a in actions if isinstance(a.get("commitInfo"), dict)), "")


def _check(action: LogAction, *, is_ours: bool) -> None:
    """Checks that an action has its fields; other writers may have actions of later versions of the protocol."""
    for name, content in action.items():
        if is_ours and name not in _ACTIONS:
            raise ValueError(f"it has an action {name!r}, which Delta's protocol does not have")
        for field, form in _REQUIRED.get(name, {}).items():
            if not isinstance(content, dict) or not isinstance(content.get(field), form):
                raise ValueError(f"{field} is missing in an action {name!r}, or is not of its type")
