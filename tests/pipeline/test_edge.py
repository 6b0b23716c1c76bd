"""Errors that Spark carries as text, as ours."""

from __future__ import annotations

import pytest

from changefeed.errors import SourceError
from changefeed.pipeline.edge import translated

STREAM = (
    "[STREAM_FAILED] Query [id = 12cba83e, runId = af9ff239] terminated with exception: "
    "org.apache.kafka.common.errors.{} SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 12cba83e]\n"
)


@pytest.mark.parametrize(
    "said, message, transient",
    [
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: listNodes",
            "Kafka: Timeout: Timed out waiting for a node assignment. Call: listNodes. Run again when the brokers answer",
            True,
        ),
        (
            "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
            "Kafka: UnknownTopicOrPartition: This server does not host this topic-partition. Is the source section right?",
            False,
        ),
        (
            "SaslAuthenticationException: Authentication failed: Invalid username or password",
            "Kafka: SaslAuthentication: Authentication failed: Invalid username or password. Is the source section right?",
            False,
        ),
    ],
)
def test_what_kafka_says_is_an_error_of_the_source(said: str, message: str, transient: bool) -> None:
    found = translated(STREAM.format(said))
    assert isinstance(found, SourceError)
    assert (str(found), found.transient) == (message, transient)
