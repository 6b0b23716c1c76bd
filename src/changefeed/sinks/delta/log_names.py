"""Names of the files in a table's `_delta_log`.

00000000000000000011.json                                       a commit
00000000000000000010.checkpoint.parquet                         a checkpoint in one file
00000000000000000010.checkpoint.0000000001.0000000003.parquet   the first of its three files
00000000000000000010.checkpoint.80a083e8-….parquet              another form, which changefeed does not read
"""

from __future__ import annotations

import re

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(?:\d{10}\.(\d{10})|(.+)))?\.parquet")


def commit_name(version: int) -> str:
    """Returns the name of the commit that makes a version."""
    return f"{version:020d}.json"


def commit_version(name: str) -> int | None:
    """Returns the version that a commit of this name makes; None if the name is not a commit's."""
    named = _COMMIT.fullmatch(name)
    return int(named[1]) if named else None


def checkpoint_version(name: str) -> tuple[int, int | None] | None:
    """Returns the version of a checkpoint with a file of this name, and its number of files; None if it is not a checkpoint's.

    The number is None for a form that changefeed does not read.
    """
    named = _CHECKPOINT.fullmatch(name)
    if named is None:
        return None
    return int(named[1]), None if named[3] else int(named[2] or 1)
