"""The examples in the package's docstring print what it shows, with the repository's files."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import changefeed
from changefeed.api import catalog, codecs
from tests.example_files import copy_examples


@pytest.mark.parametrize("module", [changefeed, catalog, codecs], ids=lambda module: str(module.__name__))
def test_the_examples_print_what_they_show(module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # also in a folder that has the files of an earlier run
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)  # type: ignore[arg-type]
        assert result.attempted > 0
        assert result.failed == 0
