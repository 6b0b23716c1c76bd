"""Ranges of keys: the conditions by which the first copy divides a table.

    key (tenant, id), from (7, 100) to (7, 150)    tenant = 7 AND id >= 100 AND id < 150
                      from (7, 100) to (9, 5)      (tenant > 7 OR (tenant = 7 AND id >= 100)) AND
                                                   (tenant < 9 OR (tenant = 9 AND id < 5))

Rule 1. Only the server orders and compares: a collation or a type may have an order of its own. Bounds are literals of values
        that it has sent, which name them exactly: also those of FLOAT and DOUBLE, which it sends with all their digits.
Rule 2. Each condition is one that reads no more of the index than its range. Comparisons of rows, (tenant, id) >= (7, 100), read
        the whole table, on MySQL and on MariaDB. So do < and > of an ENUM: the numbers of its members are listed instead.
Rule 3. Rows are ordered as the index orders them: a column that it has in descending order begins with the largest value. In
        another order, the server would sort all rows for each bound.
Rule 4. A bound may have fewer values than the key has columns: it is the first key with these values. Earlier versions wrote such
        bounds.
Rule 5. The next bound is looked for in one stretch of the index after the other: after (7, 100), in the keys that begin with 7,
        then in those after 7. MySQL takes several large stretches for more than the table, and reads the index from its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from changefeed.mysql import charsets
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.table_map import MappedColumn
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.tables import CopiedTable, OrderedColumn, expression, quoted

Bound = tuple[str, ...]
"""SQL literals of the first values of a key."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from one bound on, up to another one.

    Attributes:
        columns: those of the key by which rows are ordered.
        start: the first key; None: no bound.
        stop: the first key after it; None: no bound.
    """

    columns: tuple[OrderedColumn, ...]
    start: Bound | None = None
    stop: Bound | None = None

    def condition(self) -> str | None:
        """The condition of its rows; None: all rows."""
        columns, start, stop = list(self.columns), self.start, self.stop
        conditions = list[str]()
        while start and stop and start[0] == stop[0]:
            conditions.append(f"{_name(columns.pop(0))} = {start[0]}")
            start, stop = start[1:], stop[1:]
        if start:
            conditions.append(_side(columns, start, is_after=True, has_bound=True))
        if stop:
            conditions.append(_side(columns, stop, is_after=False, has_bound=False))
        return " AND ".join(conditions) or None


def bound_after(server: Server, table: CopiedTable, start: Bound | None, rows: int) -> Bound | None:
    """Returns the bound at which a range of so many rows ends; None if the table has no more.

    Args:
        server: the server.
        table: a table that is divided.
        start: where the range begins; None: at the beginning of the table.
        rows: the number of rows, approximately; there are more if many have the key `start`, because it is not all of their key.

    Raises:
        AccessError, GoneError, SourceError: the server refuses the user, does not have the table, or does not answer.
    """
    columns, name = table.ordered, ".".join(map(quoted, table.name))
    values = ", ".join(expression(each.column) for each in columns)
    offset = rows if start is None or len(start) < len(columns) else rows - 1
    for condition, order in _stretches(columns, start):
        ordered = f" ORDER BY {', '.join(map(_ordering, order))}" if order else ""
        for key in server.rows(f"SELECT {values} FROM {name} WHERE {condition}{ordered} LIMIT 1 OFFSET {offset}"):
            present = [value for value in key if value is not None]
            return literals(columns, present) if len(present) == len(columns) else None
        if start is not None:
            [(count,)] = server.texts(f"SELECT COUNT(*) FROM {name} WHERE {condition}")
            offset = max(offset - int(count), 0)
    return None


def _stretches(
    columns: tuple[OrderedColumn, ...], start: Bound | None
) -> Iterator[tuple[str, tuple[OrderedColumn, ...]]]:
    """Yields conditions of all keys after `start`, or from it on if it is not a whole one, with the columns that order them.

    The keys of each condition follow those of the one before, and each is one stretch of the index: Rule 5.
    """
    if start is None:
        yield "TRUE", columns
        return
    equal = [f"{_name(column)} = {value}" for column, value in zip(columns, start, strict=False)]
    if len(start) < len(columns):
        yield " AND ".join(equal), columns[len(start) :]
    for number in reversed(range(len(start))):
        column = columns[number]
        if column.column.members is None:
            after = _compared(column, start[number], is_after=True, is_equal=False)
            yield " AND ".join([*equal[:number], after]), columns[number:]
            continue
        for member in _members(column, start[number], is_after=True, is_equal=False):
            yield " AND ".join([*equal[:number], f"{_name(column)} = {member}"]), columns[number + 1 :]


def literals(columns: Sequence[OrderedColumn], key: Sequence[bytes]) -> Bound:
    """Returns the literals of a key, as the server sent it by the expressions of its columns."""
    return tuple(literal(each.column, value) for each, value in zip(columns, key, strict=True))


def _side(columns: Sequence[OrderedColumn], bound: Bound, *, is_after: bool, has_bound: bool) -> str:
    """The condition of the keys on one side of a bound, after it or before it; `has_bound`: and of the bound itself."""
    column, value = columns[0], bound[0]
    if len(bound) == 1:
        return _compared(column, value, is_after=is_after, is_equal=has_bound)
    further = _compared(column, value, is_after=is_after, is_equal=False)
    same = _side(columns[1:], bound[1:], is_after=is_after, has_bound=has_bound)
    return f"({further} OR ({_name(column)} = {value} AND {same}))"


def _compared(column: OrderedColumn, value: str, *, is_after: bool, is_equal: bool) -> str:
    if column.column.members is None:
        operator = ">" if is_after != column.is_descending else "<"
        return f"{_name(column)} {operator}{'=' if is_equal else ''} {value}"
    members = _members(column, value, is_after=is_after, is_equal=is_equal)
    return f"{_name(column)} IN ({', '.join(map(str, members))})" if members else "FALSE"


def _members(column: OrderedColumn, value: str, *, is_after: bool, is_equal: bool) -> Sequence[int]:
    """The numbers of an ENUM's members on one side of a number, in the order of the key; 0 is of a value that is not a member."""
    number, count = int(value), len(column.column.members or ())
    is_larger = is_after != column.is_descending
    members = range(number + (not is_equal), count + 1) if is_larger else range(number + is_equal)
    return members[::-1] if column.is_descending else members


def _ordering(column: OrderedColumn) -> str:
    return _name(column) + (" DESC" if column.is_descending else "")


def _name(column: OrderedColumn) -> str:
    return quoted(column.column.name or "")


def literal(column: MappedColumn, value: bytes) -> str:
    """The SQL literal of a value of a key, as the server sent it by its expression."""
    if column.mariadb_type is not None:
        return f"'{value.decode()}'"
    if column.code in (codes.STRING, codes.VARCHAR):
        if column.charset == charsets.BINARY:
            return f"X'{value.hex()}'"
        return f"_{column.charset} X'{value.hex()}'"
    if column.code in (codes.DATE, codes.TIME2, codes.DATETIME2, codes.TIMESTAMP2):
        return f"'{value.decode()}'"
    if column.code == codes.BIT:
        return str(int.from_bytes(value, "big"))
    if column.code in (codes.FLOAT, codes.DOUBLE) and b"e" not in value:
        return f"{value.decode()}e0"  # otherwise it is a DECIMAL
    return value.decode()
