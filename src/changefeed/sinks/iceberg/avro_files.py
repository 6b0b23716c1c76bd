"""Reads and writes the Avro files of Iceberg's metadata, by readers and writers that PyIceberg compiles once for each schema.

A commit reads and writes a few small files. PyIceberg 0.12 compiles the schema of each of them again, which costs more than
their rows, and makes a block of each row. Here, files with the same schema share a reader or writer, and rows share a block.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import TracebackType
from typing import Self, TypeVar

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, CODEC_MAPPING_ICEBERG_TO_AVRO
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFile, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, construct_writer, resolve_reader, resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.typedef import StructProtocol
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_SCHEMA_KEY = "avro.schema"
_BLOCK_BYTES = 1 << 16  # before compression
_HEADER_READER, _HEADER_WRITER = construct_reader(META_SCHEMA, {-1: AvroFileHeader}), construct_writer(META_SCHEMA)
_Row = TypeVar("_Row", bound=StructProtocol)


@dataclass(frozen=True, eq=False)
class RowKind:
    """A kind of rows that are read from files.

    Attributes:
        schema: the fields of the rows, whatever fields a file has.
        types: field id of a struct -> the class of its values; -1 for the rows.
        enums: field id -> the enum of its values.
    """

    schema: Schema
    types: Mapping[int, Callable[..., StructProtocol]]
    enums: Mapping[int, Callable[..., Enum]]


@lru_cache(maxsize=256)
def _reader(file_schema: str, kind: RowKind) -> Reader:
    stored = AvroSchemaConversion().avro_to_iceberg(json.loads(file_schema))
    return resolve_reader(stored, kind.schema, dict(kind.types), dict(kind.enums))


class RowFile(AvroFile[_Row]):
    """Reads the rows of a file."""

    def __init__(self, file: InputFile, kind: RowKind) -> None:
        super().__init__(file)
        self._kind = kind

    def __enter__(self) -> Self:
        """Reads the file.

        Raises:
            ValueError: its header has no schema.
        """
        with self.input_file.open() as stream:
            self.decoder = new_decoder(stream.read())
        self.header = _HEADER_READER.read(self.decoder)
        self.reader = _reader(self.header.meta.get(_SCHEMA_KEY, ""), self._kind)
        return self


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """The schema of files to write.

    Attributes:
        text: the schema in Avro, as JSON.
        writer: writes a row.
    """

    text: str
    writer: Writer

    @classmethod
    def of(cls, stored: Schema, rows: Schema, name: str) -> CompiledSchema:
        """Compiles a schema.

        Args:
            stored: the fields that the files have.
            rows: the fields of the rows in memory.
            name: the name of the schema.
        """
        text = json.dumps(AvroSchemaConversion().iceberg_to_avro(stored, schema_name=name))
        return cls(text, resolve_writer(record_schema=rows, file_schema=stored))


class BlockFile(AvroOutputFile[_Row]):
    """Writes rows to a file, in blocks of many rows."""

    def __init__(self, file: OutputFile, schema: CompiledSchema, metadata: dict[str, str]) -> None:
        # Without the superclass's constructor, which would compile the schema.
        self.output_file, self.writer, self.metadata = file, schema.writer, metadata
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self._schema = schema.text
        self._begin_block()

    def _begin_block(self) -> None:
        self._content, self._count = io.BytesIO(), 0
        self._rows = _Encoder(self._content)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Writes the last block, and closes the file."""
        if kind is None:
            self._end_block()
        super().__exit__(kind, value, traceback)

    def _write_header(self) -> None:
        codec = self.metadata.get(AVRO_CODEC_KEY, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT)
        names = {_SCHEMA_KEY: self._schema, AVRO_CODEC_KEY: CODEC_MAPPING_ICEBERG_TO_AVRO.get(codec, codec)}
        _HEADER_WRITER.write(self.encoder, AvroFileHeader(MAGIC, {**self.metadata, **names}, self.sync_bytes))

    def write_block(self, objects: list[_Row]) -> None:
        """Adds rows to the block; writes it if it is large enough."""
        for row in objects:
            self.writer.write(self._rows, row)
        self._count += len(objects)
        if self._content.tell() >= _BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        if not self._count:
            return
        content = self._content.getvalue()
        if codec := self.compression_codec():
            content, _ = codec.compress(content)
        self.encoder.write_int(self._count)
        self.encoder.write_bytes(content)
        self.encoder.write(self.sync_bytes)
        self._begin_block()


class _Encoder(BinaryEncoder):
    """Encodes integers, most of which are small, faster than byte by byte."""

    def write_int(self, integer: int) -> None:
        """Writes an integer of variable length."""
        self.write(_encoded(integer))


@lru_cache(maxsize=1 << 12)
def _encoded(integer: int) -> bytes:
    stream = io.BytesIO()
    BinaryEncoder(stream).write_int(integer)
    return stream.getvalue()
