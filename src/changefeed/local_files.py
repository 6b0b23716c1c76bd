"""Files of this machine that are made once: a name is given by link(2), which fails when the name is taken.

Of two processes that give files one name, exactly one succeeds, and a reader sees the whole file or none.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from changefeed.errors import SinkError

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def link_new(unfinished: str, path: str, root: str) -> bool:
    """Gives a file, whose bytes are on the disk already, its name, durable when this returns. False: the name is taken.

    Args:
        unfinished: the file, on the same file system; it stays.
        path: its name, in a folder that is there.
        root: for the message: the folder that the user named.

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
                f"{root}: this file system has no hard links ({error.strerror}), by which a run is kept "
                "from writing over another's: choose a sink.path on another one"
            ) from error
        raise
    _sync_names(os.path.dirname(path))
    return True


def make_folder(folder: str) -> None:
    """Makes a folder, and its name durable."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    if parent and parent != folder:
        make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    _sync_names(parent or ".")


def sync(path: str) -> None:
    """Brings the bytes of a file to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_names(folder: str) -> None:
    """Makes the names in a folder durable."""
    with suppress(OSError):  # some file systems have nothing to do, and say so by an error
        sync(folder)
