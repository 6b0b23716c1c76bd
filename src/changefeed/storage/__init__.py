"""Folders on every storage: `base.py` has the contract, `folders.py` opens a folder by its path or URL.

`local.py` keeps them on local disks, `objects.py` in object stores through `obstore`, `memory.py` in memory, for tests.
"""

from __future__ import annotations

from changefeed.storage.base import FileInfo, FileWriter, Folder
from changefeed.storage.folders import folder_at, is_object_store
from changefeed.storage.section import StorageSection

__all__ = ["FileInfo", "FileWriter", "Folder", "StorageSection", "folder_at", "is_object_store"]
