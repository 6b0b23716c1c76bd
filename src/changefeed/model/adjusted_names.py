"""Finds the column or table that records carry under another name: adjusted to Avro, or not escaped as the sink has it.

    DDL       Debezium avro, TiCDC   Debezium avro_unicode   a topic of Debezium
    bill-no   bill_no                bill_u002dno            bill-no
    1st       _1st                   _u0031st
    a_b       a_b                    a_u005fb
    we ird    we_ird                 we_u0020ird             we_ird

Rule 1. A name of a record that is defined as it stands is that name, ignoring case.
Rule 2. Otherwise it is the one defined name, absent from the record, that is adjusted to it. If there are several, the name is
        ambiguous, and refused.
Rule 3. Any other name is new.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache

from changefeed.errors import UnsupportedError
from changefeed.model.escaped_names import original
from changefeed.model.names import full_name, names_of
from changefeed.model.table import Column, TableShape

_NOT_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")


def in_avro(name: str) -> str:
    """Adjusts a name as `field.name.adjustment.mode=avro` does, and TiCDC: what Avro does not have becomes `_`."""
    plain = "".join(char if (char.isascii() and char.isalnum()) or char == "_" else "_" for char in name)
    return "_" + plain if plain[:1].isdigit() else plain


def in_avro_unicode(name: str) -> str:
    """Adjusts a name as `field.name.adjustment.mode=avro_unicode` does: what Avro does not have, and `_`, becomes `_uXXXX`."""
    return "".join(
        char if char.isascii() and (char.isalpha() or (char.isdigit() and place > 0)) else f"_u{ord(char):04x}"
        for place, char in enumerate(name)
    )


def sent_as(name: str) -> set[str]:
    """Returns the names, in lower case, under which records may carry a column of this name; without the name itself."""
    sent = original(name)  # the sink may have it escaped
    return {text.lower() for text in (sent, in_avro(sent), in_avro_unicode(sent))} - {name.lower()}


def columns_of(names: Iterable[str], columns: Iterable[Column], table: str) -> dict[str, str]:
    """Returns the columns that records carry under adjusted names: the record's name -> the column's.

    Args:
        names: of a record.
        columns: of the table.
        table: `database.table`, for errors.

    Raises:
        UnsupportedError: a name is ambiguous.
    """
    return _columns_of(tuple(names), tuple(column.name for column in columns), table)


@lru_cache(1024)
def _columns_of(names: tuple[str, ...], defined: tuple[str, ...], table: str) -> dict[str, str]:
    known, sent = {name.lower() for name in defined}, {name.lower() for name in names}
    unknown = [name for name in names if name.lower() not in known]
    absent = {name: sent_as(name) for name in defined if name.lower() not in sent} if unknown else {}
    matches = {name: [column for column, spelled in absent.items() if name.lower() in spelled] for name in unknown}
    taken = [column for several in matches.values() for column in several]
    for name, several in matches.items():
        if len(several) > 1 or any(taken.count(column) > 1 for column in several):
            raise UnsupportedError(
                f"{table}: column {name} of the rows may be {' or '.join(sorted(several))} of the definition, whose names are "
                "adjusted to the same name. Give one of them another name upstream, or name the table in pipeline.exclude"
            )
    return {name: several[0] for name, several in matches.items() if several}


def adjusted(shape: TableShape, columns: Iterable[Column]) -> TableShape:
    """Returns the shape with the names that the table's columns have."""
    table = full_name(shape.database, shape.table)
    renamed = columns_of((column.name for column in shape.columns), columns, table)
    if not renamed:
        return shape
    before, after = (
        None if names is None else tuple(renamed.get(name, name) for name in names)
        for names in (shape.before, shape.after)
    )
    own = tuple(replace(column, name=renamed.get(column.name, column.name)) for column in shape.columns)
    return replace(shape, columns=own, before=before, after=after)


def table_of(name: str, tables: Collection[str]) -> str:
    """Returns the table that rows named `database.table` belong to: the one that is adjusted to that name, or the name itself.

    Raises:
        UnsupportedError: several tables are.
    """
    if name in tables:
        return name
    matches = [table for table in tables if name in tables_sent_as(table)]
    if len(matches) > 1:
        raise UnsupportedError(
            f"rows of {name} may belong to {' or '.join(sorted(matches))}, whose names are adjusted to the same name. Name the "
            "tables in pipeline.exclude"
        )
    return matches[0] if matches else name


@lru_cache(4096)
def tables_sent_as(name: str) -> frozenset[str]:
    """Returns the names, as `database.table`, under which rows of a table may come; without its own."""
    database, table = names_of(name)
    if in_avro(database) == database and in_avro(table) == table:
        return frozenset()
    adjustments = (in_avro, lambda text: _NOT_IN_TOPIC.sub("_", text))
    return frozenset(full_name(adjust(database), adjust(table)) for adjust in adjustments) - {name}
