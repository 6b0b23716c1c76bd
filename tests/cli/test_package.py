"""The folder that `changefeed package` writes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from changefeed.cli import run
from changefeed.spark_runtime import archive


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes an archive of one file: the whole one is tested where it is used."""

    def write(target: Path, level: int = 1) -> list[str]:
        with tarfile.open(target, "w:gz"):
            return ["Python 3.11.7", "changefeed 0.1.0"]

    monkeypatch.setattr(archive, "write", write)


def _properties(folder: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in (folder / "spark.conf").read_text().splitlines())


def test_the_folder_has_the_archive_the_jars_and_their_properties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made" / "here"
    assert run(["package", "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["archive"] == str(out / archive.file_name())
    properties = _properties(out)
    assert properties.keys() == {"spark.archives", "spark.pyspark.python", "spark.jars"}
    assert properties["spark.archives"] == f"{out}/{archive.file_name()}#environment"
    assert properties["spark.pyspark.python"] == "./environment/bin/python"
    jars = [Path(jar) for jar in properties["spark.jars"].split(",")]
    assert {jar.parent for jar in jars} == {out / "jars"}
    assert all(jar.is_file() for jar in jars)
    assert {"delta-spark_4.1_2.13-4.4.0.jar", "kafka-clients-3.9.1.jar"} <= {jar.name for jar in jars}
    assert "main()" in (out / "changefeed_submit.py").read_text()


def test_the_properties_may_name_another_location(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["package", "--out", str(tmp_path), "--at", "s3a://apps/changefeed/"]) == 0
    properties = _properties(tmp_path)
    assert properties["spark.archives"] == f"s3a://apps/changefeed/{archive.file_name()}#environment"
    assert all(jar.startswith("s3a://apps/changefeed/jars/") for jar in properties["spark.jars"].split(","))
    shown = capsys.readouterr().out
    assert f"spark.archives: s3a://apps/changefeed/{archive.file_name()}#environment" in shown
    assert "spark-submit --properties-file" in shown


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["package", "--out", str(tmp_path / "file" / "below")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err
