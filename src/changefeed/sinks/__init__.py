"""Sinks: how a target is written, its type map and its guarantee; one folder each."""
