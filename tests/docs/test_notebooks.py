"""The notebooks in `examples/` run as they are, and print what their cells promise."""

from __future__ import annotations

import runpy

import pytest

from tests.docs.shown import ROOT

NOTEBOOKS = ROOT / "examples" / "notebooks"


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(NOTEBOOKS / name))
    return capsys.readouterr().out


def test_every_notebook_has_a_test_and_cells() -> None:
    assert sorted(path.name for path in NOTEBOOKS.glob("*.py")) == ["decode_a_file.py"]
    for path in NOTEBOOKS.glob("*.py"):
        assert path.read_text().startswith("# %% [markdown]\n# ")
        assert path.read_text().count("\n# %%") >= 3


def test_decode_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("decode_a_file.py", capsys).splitlines()
    assert lines[0] == "shop ticdc-open"
    assert "00:05:42 608445.79 → 6216008030.86" in lines
    assert lines[-1].endswith("['_op', '_commit_ts', '_commit_time', '_position', 'id', 'customer_id']")
