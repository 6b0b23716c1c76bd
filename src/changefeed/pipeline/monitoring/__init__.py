"""What people see of a run and of a pipeline: phases, lag, holders of the barrier, heartbeat, metrics.

It is told what a run passes (`telemetry`), and reads the ledger. A run never waits for it, and decides nothing by it.
"""
