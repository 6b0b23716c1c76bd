"""Row changes of MySQL and TiDB, complete and in order, for lakehouse tables on Spark."""

__version__ = "0.1.0"
