"""Delta tables as a sink.

`log.py` knows a table's newest version and what its commits say, `table.py` writes. Every write carries, in the very
commit, who wrote it and which step it belongs to.
"""
