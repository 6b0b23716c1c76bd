"""Local files that are created once: link(2) gives a file its name, and fails if the name is taken.

If two processes create files of one name, exactly one succeeds; a reader sees the whole file or none.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from changefeed.errors import SinkError

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def link_new(unfinished: str, path: str, root: str) -> bool:
    """Gives a file its name, durably; returns False if the name is taken. The file's bytes must already be on disk.

    Args:
        unfinished: the file, on the same file system; it is not removed.
        path: its name, in an existing folder.
        root: the folder that the user configured, for the message.

    Raises:
        SinkError: the file system has no hard links.
        OSError: any other failure.
    """
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise SinkError(
                f"{root}: this file system has no hard links ({error.strerror}), without which two runs could overwrite "
                "each other's files: choose a sink.path on another file system"
            ) from error
        raise
    _sync_names(os.path.dirname(path))
    return True


def make_folder(folder: str) -> None:
    """Creates a folder, and makes its name durable."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    if parent and parent != folder:
        make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    _sync_names(parent or ".")


def sync(path: str) -> None:
    """Writes the bytes of a file to disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_names(folder: str) -> None:
    """Makes the names in a folder durable (fsync of the folder)."""
    with suppress(OSError):  # some file systems do not support this and do not need it
        sync(folder)
