"""A folder of record logs as an event sink; see `events.py`."""
