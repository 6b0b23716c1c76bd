"""MySQL, MariaDB and TiDB, independent of any protocol: type codes, character sets, GTIDs, DDL.

Only rules from the databases' own manuals belong here; the encoding of a protocol or a producer does not.
"""
