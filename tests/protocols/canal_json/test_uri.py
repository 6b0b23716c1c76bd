"""The sink URI of a changefeed that writes Canal-JSON."""

from __future__ import annotations

from changefeed.sources.kafka.uri import read_uri


def test_options_that_only_the_producer_needs_are_skipped() -> None:
    uri = (
        "kafka://a:9092/t?protocol=canal-json&enable-tidb-extension=true&output-row-key=true&avro-enable-watermark=true"
    )
    assert read_uri(uri)["protocol"] == {"name": "canal-json", "enable-tidb-extension": "true"}
