"""Spark on one machine: a Java that fits, the locked jars, a quiet session.

Nothing here knows what a change is. On a cluster, where Spark is already there, none of it is needed.
"""
