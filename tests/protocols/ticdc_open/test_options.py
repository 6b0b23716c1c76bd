"""Options against the producer's own cases (`tests/data/ticdc/config_cases.json`) and messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from changefeed.errors import ConfigError
from changefeed.protocols.ticdc_open.options import Options
from tests.protocols.ticdc_open.messages import OPEN

KNOWN = {field.encode_name for field in msgspec.structs.fields(OPEN.options)}
ALL_CASES = json.loads((Path(__file__).parents[2] / "data/ticdc/config_cases.json").read_text())["cases"]


def query(case: dict[str, Any]) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(case["uri"]).query))


CASES = [c for c in ALL_CASES if query(c).keys() & {"max-message-bytes", "max-batch-size"} and "error" in c]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["uri"])
def test_options_that_the_producer_refuses_are_refused(case: dict[str, Any]) -> None:
    settings = {name: value for name, value in query(case).items() if name in KNOWN}
    with pytest.raises(ConfigError) as caught:
        OPEN.read_options(settings)
    (name,) = settings
    if case["stage"] == "validate":
        assert str(caught.value) == case["error"]
    else:  # the producer shows the error of Go's parser
        assert str(caught.value) == f"ticdc-open: {name}: expected a whole number"


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"large-message-handle-option": "zip"},
            "unknown large-message-handle-option zip; known: none, handle-key-only, claim-check",
        ),
        (
            {"large-message-handle-option": "claim-check"},
            "large-message-handle-option is set to claim-check, but the claim-check-storage-uri is empty",
        ),
        ({"partition-num": 0}, "invalid partition-num 0"),
        (
            {"topic": "{sch}"},
            "invalid topic expression: {sch}; expected letters, digits, . _ - and {schema} before {table}",
        ),
        ({"partition": "columns"}, 'partition dispatcher "columns" and option "columns" must be used together'),
        (
            {"index": "PRIMARY"},
            'index "PRIMARY": changes do not carry indexes; use partition "columns" with its columns',
        ),
        ({"profile": "new"}, 'ticdc-open: unknown profile "new". Did you mean "newarch"? Known: classic, newarch'),
        (
            {"time-zone": "CET/Nowhere"},
            'time-zone "CET/Nowhere" is unknown: expected a name as Asia/Shanghai or an offset as +08:00',
        ),
    ],
    ids=str,
)
def test_wrong_options_are_refused_with_a_reason(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OPEN.read_options(settings)
    assert str(caught.value) == message


def test_texts_become_values() -> None:
    options = OPEN.read_options(
        {
            "max-batch-size": "32",
            "output-old-value": "false",
            "partition": "columns",
            "columns": "a, b",
            "partition-num": "3",
        }
    )
    assert isinstance(options, Options)
    dispatcher = options.dispatcher()
    assert dispatcher is not None
    assert (options.max_batch_size, options.output_old_value) == (32, False)
    assert (dispatcher.partitions, dispatcher.columns) == (3, ("a", "b"))
