"""Options against the producer's own cases (`tests/data/ticdc/config_cases.json`) and messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from changefeed.errors import ConfigError
from changefeed.protocols.ticdc_avro.options import NO_REGISTRY
from tests.protocols.ticdc_avro.messages import AVRO

ALL_CASES = json.loads((Path(__file__).parents[2] / "data/ticdc/config_cases.json").read_text())["cases"]
CASES = [c for c in ALL_CASES if "protocol=avro" in c.get("uri", "") and "force-replicate" not in c.get("config", {})]
CHECKSUM = (
    'Avro protocol with row level checksum, should set "enable-tidb-extension" to "true", and set '
    '"avro-decimal-handling-mode" to "string" and "avro-bigint-unsigned-handling-mode" to "string"'
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["uri"])
def test_the_producers_cases(case: dict[str, Any]) -> None:
    settings = {**dict(parse_qsl(urlsplit(case["uri"]).query)), **case.get("config", {})}
    settings.pop("protocol")
    if case.get("schema_registry"):
        settings["schema-registry"] = case["schema_registry"]
    elif "error" in case:
        assert NO_REGISTRY.startswith(case["error"])
        return
    if "error" in case:
        with pytest.raises(ConfigError) as caught:
            AVRO.read_options(settings)
        assert str(caught.value) == (CHECKSUM if case["error"] == "ErrCodecInvalidConfig" else case["error"])
    else:
        options = AVRO.read_options(settings)
        for name, value in case.get("expect", {}).items():
            assert getattr(options, name.replace("-", "_")) == value


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"integrity-check-level": "correctness"},
            CHECKSUM,
        ),
        ({"partition-num": 0}, "invalid partition-num 0"),
        ({"max-message-bytes": -1}, "invalid max-message-bytes -1"),
        (
            {"topic": "x_{table}"},
            "invalid topic expression: x_{table}: topic rule for Avro must contain {schema} and {table}",
        ),
        (
            {"topic": "{sch}"},
            "invalid topic expression: {sch}; expected letters, digits, . _ - and {schema} before {table}",
        ),
        (
            {"index": "PRIMARY"},
            'index "PRIMARY": changes do not carry indexes; use partition "columns" with its columns',
        ),
        ({"timeout": 0}, "ticdc-avro: timeout: expected a number > 0.0, got 0"),
        ({"max.retries": "many"}, "ticdc-avro: max.retries: expected a whole number"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_with_a_reason(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AVRO.read_options(settings)
    assert str(caught.value) == message


def test_texts_become_values() -> None:
    options: Any = AVRO.read_options({"enable-tidb-extension": "true", "max.retries": "5", "ssl.ca.location": "/ca"})
    assert (options.enable_tidb_extension, options.max_retries, options.ssl_ca_location) == (True, 5, "/ca")
