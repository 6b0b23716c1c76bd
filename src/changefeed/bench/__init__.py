"""Measurements: what this machine does in a second. One file a question; the answers kept are in `bench/results`."""
