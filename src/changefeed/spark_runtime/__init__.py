"""Spark: a Java that fits, the locked jars, a quiet session on one machine; a cluster's master, Python and workers.

This package does not depend on the data model.
"""
