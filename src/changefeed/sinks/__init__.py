"""Sinks: how a target is written, its type map and its guarantee; one folder each."""

SINKS: dict[str, str] = {
    "delta": "changefeed.sinks.delta",
}
