"""DDL: the text of a statement -> what it does to tables and their rows.

Read by a lexer and a parser of its own, not by a general SQL parser: the table statements of MySQL, MariaDB and TiDB
are a small language in which every word may decide whether rows are lost, and whatever is not in it is refused.
"""

from __future__ import annotations

from changefeed.wire.ddl.parser import parse as parse
