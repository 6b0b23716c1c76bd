"""The store of files keeps the contract."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from changefeed.pipeline.store import files
from tests.pipeline.store.conformance import Conformance, Kind
from tests.pipeline.store.places import Files


class TestFiles(Conformance):
    @pytest.fixture
    def kind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kind:
        monkeypatch.setattr(files, "_PAGE", Kind.page)
        monkeypatch.setattr(os, "fsync", lambda handle: None)  # no test loses power
        return Files(tmp_path)

    def another(self, folders: pytest.TempPathFactory) -> Kind:
        return Files(folders.mktemp("another"))
