"""The cases that every protocol must pass. A protocol joins by its folder alone:

    protocols/<name>/vectors/*.json            {"source": …, "cases": [{"name", "options"?, "records", "events", …}]}
    protocols/<name>/vectors/histories.json    {"<file in tests/data>": {"options", "events": {kind: count}, "sha256"}}

and by modules among its tests, in tests/protocols/<name>/:

    bombs.py       bombs()           records that would cost much if their content were trusted
    arriving.py    arriving()        the values that arrive, for a protocol whose types need a definition (`redefine`)
    silent.py      silent(record)    whether a record may have no event, if some records may

A case's `records` are lines of a record log, its `events` lines of the canonical text. `"encodes": false` means that
a producer does not write these records with these options; `why` has the reason. The option `schema-registry` is a
file of schemas beside the vectors, or in tests/data; without it, schemas are kept in memory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.codec import decoding
from changefeed.errors import ConfigError
from changefeed.model import text
from changefeed.model.batch import Decoded, record_batch
from changefeed.model.table import canonical
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Decoder, FragmentDecoder, Options, OrderedDecoder, Protocol, Stores

DATA = Path(__file__).parents[2] / "data"


@dataclass(frozen=True)
class Case:
    """Records of one protocol, their events, and whether an encoder writes them."""

    protocol: str
    name: str
    options: dict[str, Any]
    records: pa.RecordBatch
    events: tuple[str, ...]
    encodes: bool

    def __str__(self) -> str:
        return f"{self.protocol}-{self.name}"


@dataclass(frozen=True)
class History:
    """A recorded history, and a digest of the events in it."""

    protocol: str
    file: str
    options: dict[str, Any]
    events: dict[str, int]
    sha256: str

    @property
    def records(self) -> pa.RecordBatch:
        return _history_records(self.file)

    def __str__(self) -> str:
        return self.file


class Schemas:
    """A schema registry in memory; it begins with the schemas of a file, if one is named."""

    def __init__(self, file: str | None = None) -> None:
        listed = json.loads(Path(file).read_text()) if file else []
        self._texts: dict[int, str] = {entry["id"]: entry["schema"] for entry in listed}
        self._ids: dict[tuple[str, str], int] = {(e["subject"], e["schema"]): e["id"] for e in listed}

    def get(self, schema_id: int) -> str:
        return self._texts[schema_id]

    def register(self, subject: str, schema: str) -> int:
        if (subject, schema) not in self._ids:
            self._ids[subject, schema] = max(self._texts, default=0) + 1
            self._texts[self._ids[subject, schema]] = schema
        return self._ids[subject, schema]


_schemas = cache(Schemas)
# By the id() of a case, which is kept alive: its options make it unhashable, and a copy may have other options.
_DECODED: dict[int, tuple[Case | History, Decoded]] = {}
_EVENTS: dict[int, list[str]] = {}


def stores(options: Options) -> Stores:
    """The stores for decoders and encoders: schemas of the file that the options name, and no I/O."""
    schemas = _schemas(getattr(options, "schema_registry", None))
    return Stores(get_schema=schemas.get, register_schema=schemas.register)


def _located(options: dict[str, Any], beside: Path) -> dict[str, Any]:
    file = options.get("schema-registry")
    return options if file is None else {**options, "schema-registry": str(beside / file)}


@cache
def _history_records(file: str) -> pa.RecordBatch:
    return pa.Table.from_batches(record_log.read(DATA / file)).combine_chunks().to_batches()[0]


def folder(name: str) -> Path:
    """The protocol's folder."""
    return Path(str(import_module(PROTOCOLS[name]).__file__)).parent


@cache
def own(name: str, module: str) -> ModuleType | None:
    """The module `tests/protocols/<name>/<module>.py` of a protocol; None if there is no such file."""
    full = f"tests.protocols.{name.replace('-', '_')}.{module}"
    return import_module(full) if find_spec(full) is not None else None


def cases() -> tuple[Case, ...]:
    """The vectors of all protocols."""
    return _cases()


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(_read_cases())


def _read_cases() -> Iterator[Case]:
    for name in PROTOCOLS:
        for path in sorted((folder(name) / "vectors").glob("*.json")):
            if path.name == "histories.json":
                continue
            for case in json.loads(path.read_text())["cases"]:
                yield Case(
                    name,
                    f"{path.stem}-{case['name']}",
                    _located(case.get("options", {}), path.parent),
                    records(case["records"]),
                    tuple(canonical(event) for event in case["events"]),
                    case.get("encodes", True),
                )


def histories() -> tuple[History, ...]:
    """The histories of all protocols."""
    return _histories()


@cache
def _histories() -> tuple[History, ...]:
    return tuple(_read_histories())


def _read_histories() -> Iterator[History]:
    for name in PROTOCOLS:
        path = folder(name) / "vectors" / "histories.json"
        for file, history in json.loads(path.read_text()).items() if path.exists() else ():
            yield History(name, file, _located(history["options"], DATA), history["events"], history["sha256"])


def records(lines: list[dict[str, Any]]) -> pa.RecordBatch:
    """Records from lines of a record log."""
    return record_batch(
        {name.removesuffix("_text"): _member(name, value) for name, value in line.items()} for line in lines
    )


def _member(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "headers":
        return [{"key": key, "value": _member("value", text)} for key, text in value]
    if name in ("key_text", "value_text"):
        return value.encode()
    return base64.b64decode(value) if name in ("key", "value") else value


def reference(case: Case | History) -> Decoder:
    """A new reference decoder with the case's options."""
    chosen = protocol(case.protocol)
    options = chosen.read_options(case.options)
    return chosen.decoder(options, stores(options))


def decode(case: Case | History, batch: pa.RecordBatch | None = None) -> Decoded:
    """Decodes a case's records, or others, by a new reference decoder; the case's own are decoded once per process."""
    if batch is not None:
        return reference(case).decode(batch)
    if id(case) not in _DECODED:
        _DECODED[id(case)] = case, reference(case).decode(case.records)
    return _DECODED[id(case)][1]


def decode_in_parts(case: Case | History, size: int) -> list[Decoded]:
    """Decodes a few records at a time, each part by a new decoder that also gets what the one before has kept.

    That is its incomplete fragments, and the places of its last deletes, which their tombstones follow.
    """
    parts, waiting, mark = [], case.records.slice(0, 0), None
    for at in range(0, case.records.num_rows, size):
        decoder = reference(case)
        if isinstance(decoder, OrderedDecoder) and mark is not None:
            decoder.rewind(mark)
        part = case.records.slice(at, size)
        parts.append(decoder.decode(pa.concat_batches([waiting, part]) if len(waiting) else part))
        waiting = decoder.waiting() if isinstance(decoder, FragmentDecoder) else waiting
        mark = decoder.mark() if isinstance(decoder, OrderedDecoder) else None
    return parts


def compiled(case: Case | History) -> Decoder:
    """The decoder with the kernel; without the kernel, the test is skipped."""
    options = protocol(case.protocol).read_options(case.options)
    try:
        return decoding.decoder(case.protocol, options, stores(options), kernel="on")
    except ConfigError as error:
        pytest.skip(str(error))


def encode(case: Case | History, changes: list[Decoded]) -> list[dict[str, Any]]:
    """Encodes changes; one dict per record."""
    chosen = protocol(case.protocol)
    options = chosen.read_options(case.options)
    encoder = chosen.encoder(options, stores(options))
    return [record for decoded in changes for record in bytes_of(encoder.encode(decoded))]


def bytes_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The columns of records that an encoder writes."""
    rows: list[dict[str, Any]] = batch.select(["topic", "partition", "offset", "key", "value", "headers"]).to_pylist()
    return [{**row, "headers": row["headers"] or []} for row in rows]


def events_of(case: Case | History) -> list[str]:
    """The canonical text of the events of a case's records, written once per process."""
    if id(case) not in _EVENTS:
        _EVENTS[id(case)] = lines(decode(case))
    return _EVENTS[id(case)]


def lines(decoded: Decoded) -> list[str]:
    """The canonical text of events."""
    return list(text.lines(decoded))


def all_protocols() -> list[Protocol]:
    """The definition of every protocol in `PROTOCOLS`."""
    return [protocol(name) for name in PROTOCOLS]
