"""The notebooks in `examples/` run as they are, and print what their cells promise."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.shown import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOKS = ROOT / "examples" / "notebooks"


@pytest.fixture(autouse=True)
def _temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary folders of notebooks are inside the test's own, which pytest deletes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(NOTEBOOKS / name))
    return capsys.readouterr().out


def test_every_notebook_has_a_test_and_cells() -> None:
    tested = {path.name for path in NOTEBOOKS.glob("*.py") if f"test_{path.stem}" in globals()}
    assert tested == {path.name for path in NOTEBOOKS.glob("*.py")}
    for path in NOTEBOOKS.glob("*.py"):
        assert path.read_text().startswith("# %% [markdown]\n# ")
        assert path.read_text().count("\n# %%") >= 3


def test_decode_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("decode_a_file.py", capsys).splitlines()
    assert lines[0] == "shop ticdc-open"
    assert "00:05:42 608445.79 → 6216008030.86" in lines
    assert lines[-1].endswith("['_op', '_commit_ts', '_commit_time', '_position', 'id', 'customer_id']")


def test_arrow_and_translation(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("arrow_and_translation.py", capsys).splitlines()
    assert lines[0] == "175 changes of shop.customers, True"
    assert lines[3].startswith("refused: ticdc-open to debezium-mysql loses what a pipeline needs: order (")
    assert lines[-2:] == ["63.31 → 45.01 shop customers", "True"]


@pytest.mark.heavy
@pytest.mark.slow
def test_debezium_on_spark(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """The notebook uses the session that runs in this process."""
    lines = printed("debezium_on_spark.py", capsys).splitlines()
    assert "balance decimal(12,2), created timestamp_ntz, updated timestamp, flags string" in lines[0]
    assert lines[2] == "175 customers, by the changes"
    assert lines[-3] == "850 rows applied: shop.audit, shop.customers, shop.items, shop.orders"
    assert lines[-2].startswith("175 customers, by the pipeline, after transaction 00008033-")
    assert lines[-1] == "the same rows"
