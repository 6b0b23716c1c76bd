"""A table without a key in a copy: a task reads all of it in one consistent view.

    the log      ──┬─ L ──── inserts ──── V ──── inserts ──── H ──▶
    the table      │  CREATE, the log     TRUNCATE, all rows in the view at V, then the log

Rule 1. A row without a key cannot be applied twice. The view has exactly the changes before V, so the rows of the view, and the
        changes of the log from V on, are the table. What the log has of the table between L and V is removed by a TRUNCATE.
Rule 2. V is whatever the position is when a task begins: it is in the commit_ts of the rows, and nowhere else. A task that is
        started again, or a run that was killed, reads the table at a later V. No cut is before H, so nobody sees a part of it.
Rule 3. Where nothing was written after L, V is L, and there is nothing to remove.
Rule 4. A view is of InnoDB; tables of other engines without a key are refused when the copy begins.
"""

from __future__ import annotations

from dataclasses import replace

from changefeed.errors import SourceError
from changefeed.sources.mysql.failover import FILES_OF_A_COPY
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import CopiedTable, quoted


def begin_view(server: Server, table: CopiedTable, low: LogPosition) -> LogPosition:
    """Begins a view of a table on the server's connection; returns the position V of its rows: Rule 1.

    Args:
        server: the server.
        table: a table without a key.
        low: the position of the rows of tables with a key, which is L, or just behind it for tables that join.

    Raises:
        AccessError, GoneError, SourceError: see `Server.begin_view_of`; SourceError also if V is further ahead of L than
            `failover.py` allows for.
    """
    at = server.begin_view_of(".".join(map(quoted, table.name)))
    at = replace(at, shift=low.shift)
    if at.file_number > low.file_number + FILES_OF_A_COPY:
        raise SourceError(
            f"{server.address}: the copy began at {low}, and {'.'.join(table.name)} is read at {at}: a copy can last for "
            f"{FILES_OF_A_COPY} files of the log. Make the files larger (max_binlog_size), and start a new pipeline"
        )
    return at if at.number > low.number else low
