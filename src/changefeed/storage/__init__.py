"""Folders on every storage: `base.py` has the contract, `folders.py` opens a folder by its path or URL.

`local.py` keeps them on local disks, `objects.py` in object stores through `obstore`, `memory.py` in memory, for tests. Workers
import this package, so it imports no more than the contract.
"""

from __future__ import annotations

from changefeed.storage.base import FileInfo, FileWriter, Folder

__all__ = ["FileInfo", "FileWriter", "Folder"]
