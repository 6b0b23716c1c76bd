"""MySQL, MariaDB and TiDB themselves, whichever protocol carries their changes: type codes, charsets, GTIDs, DDL.

Here belongs what the database's own manual says. A protocol's envelope does not, nor what a producer makes of a value.
"""
