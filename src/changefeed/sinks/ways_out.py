"""The last sentence of an error about a sink whose files are not as the pipeline wrote them: one for each situation.

docs/guides/recovery.md explains what to choose. `changefeed repair` names the ways that it refuses.
"""

REBUILD_ALL = "rebuild all tables from the source: changefeed repair --rebuild --all"

TABLE_CHANGED = (
    "`changefeed repair` brings the table back to the ledger's version (--restore), takes it as it is (--accept), or rebuilds "
    "it from the source (--rebuild)"
)
"""Another program has written to a table, or an older copy has been restored."""

COLUMNS_CHANGED = (
    "`changefeed repair` brings the table back to the ledger's version (--restore), or rebuilds it from the source "
    "(--rebuild)"
)
"""A table lacks columns that the pipeline gave it, so it cannot be taken as it is."""

TABLE_DAMAGED = "Restore the table from a backup, or rebuild it from the source: changefeed repair --rebuild"
"""The log of a table is missing or damaged, so no version of it can be read."""

COMMIT_GONE = (
    "If only OPTIMIZE, VACUUM and the like have written to the table since the last run, and Delta has cleaned up its log: "
    f"changefeed repair --accept. Otherwise {TABLE_DAMAGED[0].lower()}{TABLE_DAMAGED[1:]}"
)
"""A commit after the ledger's version is missing, so that nothing shows whether it changed rows."""

FILES_DAMAGED = (
    f"Restore the sink's folder as a whole, `_changefeed` and the tables together, from a backup; or {REBUILD_ALL}"
)
"""A file of the pipeline is missing or damaged: of a table, or of the pending changes."""

LEDGER_DAMAGED = (
    "Restore the sink's folder as a whole, `_changefeed` and the tables together, from a backup; or delete the ledger, and "
    f"{REBUILD_ALL}"
)
"""A file of the ledger is missing or damaged."""

NO_DELTA = (
    "Spark would have to write the tables, and has no Delta Lake, whose jars changefeed has for Spark 4.1: pip install "
    "'pyspark~=4.1.0', or on a cluster the jars of `changefeed package`"
)
"""The definition asks for writes of Spark, and the session has no jars of Delta."""

TABLE_WITHOUT_DELTA = f"{NO_DELTA}. Or remove what is named here from the table, or name the table in pipeline.exclude"
"""A table has a feature that native writes lack, and the session has no jars of Delta."""

NOT_BY_SPARK = (
    "Spark would have to write the table, but on object stores its commits do not exclude each other. Remove what is named here "
    "from the table, or name the table in pipeline.exclude"
)
"""A table in an object store has a feature that native writes lack."""

LETTERS_DAMAGED = (
    "Restore the folder, or move it away: its dead letters are then no longer listed and cannot be replayed"
)
"""A file of dead letters is missing or damaged."""
