"""Runs the command in the process of the test."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner, Result

from changefeed.cli import changefeed
from changefeed.cli.output import Output
from changefeed.record_log import read

CLASSIC = Path(__file__).parent.parent / "data" / "shop" / "ticdc-open" / "open-1.classic.jsonl.gz"
"""A log of the shop, as TiCDC's classic architecture writes it."""

COMPARED = ["topic", "partition", "offset", "key", "value", "headers"]


def invoke(*args: object) -> Result:
    """Runs `changefeed` with these arguments; the result has its output and exit code. An error is raised."""
    return CliRunner().invoke(
        changefeed, list(map(str, args)), obj=Output(), catch_exceptions=False, standalone_mode=False
    )


def records_in(path: Path) -> pa.Table:
    """The records of a log without their timestamps."""
    return pa.Table.from_batches(read(path)).select(COMPARED)
