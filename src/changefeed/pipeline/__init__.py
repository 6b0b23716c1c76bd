"""Pipelines: configuration, the data flow, and the record of what has been applied."""
