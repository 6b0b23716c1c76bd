"""Event pipelines: a source's changes, appended in order to a sink of events. See `run.py`."""
