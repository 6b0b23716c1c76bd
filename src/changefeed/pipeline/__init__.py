"""Pipelines: configuration, data flow, and the ledger of what has been applied."""
