"""The storages keep the contract of `storage.base`: the same cases on a local disk, in memory, and on S3."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.storage.base import Folder
from changefeed.storage.folders import folder_at
from changefeed.storage.local import LocalFolder
from changefeed.storage.memory import MemoryFolder
from tests.storage.conformance import Conformance

if TYPE_CHECKING:
    from tests.services.s3 import S3Server


class TestLocal(Conformance):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Folder:
        return LocalFolder(str(tmp_path / "folder"))


class TestMemory(Conformance):
    @pytest.fixture
    def folder(self) -> Folder:
        return MemoryFolder(f"memory://{uuid.uuid4()}/folder")


class TestS3(Conformance):
    @pytest.fixture
    def folder(self, s3: S3Server) -> Folder:
        folder = folder_at(f"s3://lake/{uuid.uuid4()}/a folder", s3.storage())
        assert folder is not None
        return folder
