"""Avro's binary encoding: schemas compiled to readers and writers, with limits on all sizes.

schema text ─ parse ─▶ Type ─ reader ─▶ Cursor -> value
                            └ writer ─▶ (value, bytearray)
"""

from changefeed.wire.avro.decimals import read_decimal, write_decimal
from changefeed.wire.avro.read import Read, reader
from changefeed.wire.avro.schema import Field, Type, parse
from changefeed.wire.avro.write import Write, writer

__all__ = ["Field", "Read", "Type", "Write", "parse", "read_decimal", "reader", "write_decimal", "writer"]
