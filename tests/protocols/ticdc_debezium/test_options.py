"""Options against the producer's own cases (`tests/data/ticdc/config_cases.json`) and messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from changefeed.errors import ConfigError
from tests.protocols.ticdc_debezium.messages import DEBEZIUM

CASES = json.loads((Path(__file__).parents[2] / "data/ticdc/config_cases.json").read_text())["cases"]
SIZES = {"max-message-bytes", "max-batch-size"}


def sizes(case: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in parse_qsl(urlsplit(case["uri"]).query) if name in SIZES}


@pytest.mark.parametrize("case", [c for c in CASES if sizes(c) and "error" in c], ids=lambda c: c["uri"])
def test_sizes_that_the_producer_refuses_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        DEBEZIUM.read_options(sizes(case))
    (name,) = sizes(case)
    go = f"ticdc-debezium: {name}: expected a whole number"
    assert str(caught.value) == (case["error"] if case["stage"] == "validate" else go)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"partition-num": 0}, "invalid partition-num 0"),
        ({"max-inflated-bytes": 0}, "invalid max-inflated-bytes 0"),
        (
            {"large-message-handle-compression": "zip"},
            "large message handle compression is not supported, got zip; known: none, snappy, lz4",
        ),
        (
            {"profile": "classic", "debezium-include-start-ts": True},
            "debezium-include-start-ts only takes effect with profile newarch",
        ),
        ({"null-with-default": "x"}, 'ticdc-debezium: unknown null-with-default "x". Known: null, producer'),
        ({"partition": "columns"}, 'partition dispatcher "columns" and option "columns" must be used together'),
        (
            {"index": "PRIMARY"},
            'index "PRIMARY": changes do not carry indexes; use partition "columns" with its columns',
        ),
    ],
    ids=str,
)
def test_wrong_options_are_refused_with_a_reason(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DEBEZIUM.read_options(settings)
    assert str(caught.value) == message
