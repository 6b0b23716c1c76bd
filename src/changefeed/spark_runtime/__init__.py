"""Starts Spark: Java, the locked jars, a session on one machine; a cluster's master, Python and workers.

Nothing in this package depends on change events.
"""
