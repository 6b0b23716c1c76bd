"""Kafka topics as an event sink; see `events.py`."""
