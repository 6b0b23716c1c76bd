"""The output of `--json`."""

from __future__ import annotations

import json

import pytest

from changefeed.api.moments import moment_of
from changefeed.cli.output import Output

TS = 463267700132764359


def test_a_commit_ts_survives_a_reader_that_has_only_doubles(capsys: pytest.CaptureFixture[str]) -> None:
    Output().document({"cuts": [{"commit_ts": TS, "tables": {"a.b": 4}}], "commit_ts": None, "pending": 3})
    read = json.loads(capsys.readouterr().out, parse_int=lambda text: int(float(text)))
    assert read == {"cuts": [{"commit_ts": str(TS), "tables": {"a.b": 4}}], "commit_ts": None, "pending": 3}
    assert moment_of(read["cuts"][0]["commit_ts"]) == TS
