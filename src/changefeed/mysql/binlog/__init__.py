"""The binary log of MySQL and MariaDB: bytes of its events to values. It opens no file and no connection.

    >>> from changefeed.mysql.binlog import Parser, Rows
    >>> parser = Parser()
    >>> for event in parser.file(data):          # or parser.feed(event_bytes) for each event of a connection
    ...     if isinstance(event, Rows):
    ...         for before, after in event.images():
    ...             print(event.op, event.table.table, before, after)

`README.md` draws the bytes and lists the events; `events.py` has their values, `parser.py` the rules of the order.
"""

from changefeed.mysql.binlog.errors import BinlogError
from changefeed.mysql.binlog.events import Rows
from changefeed.mysql.binlog.framing import split_file
from changefeed.mysql.binlog.parser import Parser
from changefeed.mysql.binlog.table_map import MappedColumn, TableMap

__all__ = ["BinlogError", "MappedColumn", "Parser", "Rows", "TableMap", "split_file"]
