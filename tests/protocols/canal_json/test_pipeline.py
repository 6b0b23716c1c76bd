"""The shop's history in Canal-JSON becomes the tables that it becomes from the Open Protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from changefeed.pipeline.run import run
from changefeed.pipeline.status import status
from tests.cli.command import invoke
from tests.pipeline.running import SHOP, check_expected, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPEN = SHOP / "ticdc-open" / "open-3.newarch.jsonl.gz"


def transcoded(path: Path, *options: str) -> Path:
    """The history, written in Canal-JSON by the command."""
    done = invoke("transcode", OPEN, "--from", "ticdc-open", "--to", "canal-json", *options, "--out", path)
    assert done.return_value == 0, done.stderr
    return path


def test_with_watermarks_its_cuts_are_those_of_the_original(spark: SparkSession, tmp_path: Path) -> None:
    log = transcoded(tmp_path / "log.jsonl.gz", "-O", "enable-tidb-extension=true")
    cuts = json.loads((SHOP / "ticdc-open" / "open-3.newarch.cuts.json").read_text())
    pipeline = definition(log, tmp_path / "lake", protocol="canal-json", consistency="transaction")
    assert run(pipeline, spark, once=True, until=cuts["cut-3"]).reached
    check_expected(pipeline, "cut-3")
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final")
    counts = status(pipeline)["counts"]
    assert (counts["dead"], counts["rows"]) == (0, counts["applied"] + counts["repeated"])
