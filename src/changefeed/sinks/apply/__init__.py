"""Turns the changes of a step into data files, for any table format that keeps rows in Parquet files.

    changes ──▶ latest.py   the last change of each key
            ──▶ item.py     one task on one table: merge into files by key, append, replace, compact
            ──▶ files.py    read and write data files, in the format's `layout.py`
    job.py  runs many items as one Spark job; step.py decides between the driver and a job

Nothing here commits, and what runs in a task has seen no log: a sink opens its table, makes the items, and commits the
`TaskResult` of each.
"""
