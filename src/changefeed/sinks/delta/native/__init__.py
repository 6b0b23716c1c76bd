"""The native apply: tables are written by Python tasks, and committed without a Spark plan a table.

`step.py` decides which writes of a step are native and brings them to their commits. `latest.py` reduces changes to the last
one of every key, `item.py` merges them into a table's files, `files.py` reads and writes these, `statistics.py` describes
them, `commit.py` puts them into the table's log, `snapshot.py` reads that, and `job.py` runs many items as one Spark job.
"""
