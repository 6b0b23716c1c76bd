"""A run and a pipeline as people see them: phases, lag, holders of the barrier, heartbeat, metrics.

It observes the places that a run passes (`telemetry`), and reads the ledger. A run never waits for it, and decides nothing by it.
"""
