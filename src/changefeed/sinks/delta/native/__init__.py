"""Native writes: Python tasks write the files of many tables in one Spark job, and tables are committed without Spark.

`step.py` decides which writes of a step are native, and runs them. `latest.py` reduces changes to the last one of each key,
`item.py` merges them into a table's files, `files.py` reads and writes data files, `statistics.py` computes their statistics,
`commit.py` commits to the table's log, `snapshot.py` reads it, and `job.py` runs many items as one Spark job.
"""
