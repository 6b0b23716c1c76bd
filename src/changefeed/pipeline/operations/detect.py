"""Detects the protocol of records: looks at each record, then tries to decode them.

Rule 1. Recognizing a record proves nothing; decoding it does. If several protocols fit, the one that decodes most is chosen.
Rule 2. Decoding is tried with the defaults, the options that the records show, and the user's options, as far as the protocol
        has them.
Rule 3. A protocol that cannot be tried, because it needs an option or a schema registry, is reported as a possible fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from changefeed.codec.decoding import decoder
from changefeed.errors import ChangefeedError, ConfigError, SchemaRegistryError, unknown_name
from changefeed.model.batch import Decoded
from changefeed.model.event import Resolved, SchemaChange
from changefeed.protocols import PROTOCOLS, protocol, strangers
from changefeed.protocols.base import Protocol, SampleRecord
from changefeed.protocols.loss import fewest
from changefeed.redaction import redact, reference
from changefeed.stores import stores_of

PER_TOPIC = 200
_NO_TEXT = ("null", "yes", "no", "on", "off", "y", "n")  # what YAML takes for something else


@dataclass(frozen=True, slots=True)
class ProtocolFit:
    """A protocol that a topic's records may be in.

    Attributes:
        protocol: the protocol's name.
        why: what was recognized in the first record that looks like it.
        recognized: number of records of the sample that look like it.
        decoded: number of records of the sample that it decodes; None if decoding could not be tried.
        trouble: the first error, or what must be set before decoding can be tried; None if there is none.
        options: the options to decode with: those of the caller, and those that the records show.
    """

    protocol: str
    why: str
    recognized: int
    decoded: int | None
    trouble: str | None
    options: Mapping[str, str]

    @property
    def shown(self) -> dict[str, str]:
        """The options, with secrets replaced."""
        return {name: reference(name, value) for name, value in self.options.items()}

    @property
    def line(self) -> str:
        """Returns the line for a pipeline's `source` section; secrets become references to environment variables."""
        if not self.options:
            return f"protocol: {self.protocol}"
        pairs = [f"{name}: {_scalar(value)}" for name, value in self.shown.items()]
        return f"protocol: {{{', '.join([f'name: {self.protocol}', *pairs])}}}"

    def to_dict(self) -> dict[str, Any]:
        """Returns this part of the JSON of `changefeed detect --json`; secrets become references to the environment."""
        return {
            "protocol": self.protocol,
            "why": self.why,
            "recognized": self.recognized,
            "decoded": self.decoded,
            "trouble": self.trouble,
            "options": self.shown,
            "source": self.line,
        }


@dataclass(frozen=True, slots=True)
class DetectedTopic:
    """The protocols that the records of a topic may be in.

    Attributes:
        topic: the topic's name.
        sample: number of records that were examined.
        fits: the protocols that recognize some of the records, the most likely first; those that decode none are last.
        stranger: name of an unsupported format that the first record seems to have; None if unknown.
    """

    name: str
    sample: int
    fits: list[ProtocolFit] = field(default_factory=list)
    stranger: str | None = None

    @property
    def best(self) -> ProtocolFit | None:
        """The most likely protocol; None if no protocol decodes a record."""
        return next((fit for fit in self.fits if fit.decoded != 0), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document of `changefeed detect --json`."""
        best = self.best.protocol if self.best else None
        return {
            "topic": self.name,
            "protocol": best,
            "sample": self.sample,
            "fits": [fit.to_dict() for fit in self.fits],
            "stranger": self.stranger if best is None else None,
        }


def detect(batches: Iterable[pa.RecordBatch], options: Mapping[str, str]) -> list[DetectedTopic]:
    """Finds out which protocol the first records of each topic are in.

    Args:
        batches: records with the columns of `model.batch.RECORDS`.
        options: protocol options such as `schema-registry`; each protocol uses those that it has.

    Raises:
        ConfigError: no protocol has an option of that name.
    """
    names = sorted({f.encode_name for name in PROTOCOLS for f in msgspec.structs.fields(protocol(name).options)})
    for name in options:
        if name not in names:
            raise unknown_name("option", name, names)
    return [_topic(name, sample, options) for name, sample in _samples(batches).items()]


def _samples(batches: Iterable[pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
    samples: dict[str, pa.RecordBatch] = {}
    for batch in batches:
        topics = batch.column("topic").to_pylist()
        for topic in dict.fromkeys(topics):
            part = batch.take([row for row, name in enumerate(topics) if name == topic][:PER_TOPIC])
            parts = [samples[topic], part] if topic in samples else [part]
            samples[topic] = pa.concat_batches(parts).slice(0, PER_TOPIC)
    return samples


def _topic(name: str, sample: pa.RecordBatch, user_options: Mapping[str, str]) -> DetectedTopic:
    records = [_record(row) for row in sample.to_pylist()]
    fits = [fit for known in PROTOCOLS if (fit := _fit(protocol(known), sample, records, user_options)) is not None]
    fits.sort(key=lambda fit: (fit.decoded == 0, -(fit.decoded or 0), -fit.recognized))
    return DetectedTopic(name, len(records), fits, next(filter(None, map(strangers.name, records)), None))


def _record(row: Mapping[str, object]) -> SampleRecord:
    headers = {h["key"]: h["value"] for h in row["headers"] or ()}  # type: ignore[attr-defined]  # a list by its schema
    return SampleRecord(row["topic"], row["key"], row["value"], headers)  # type: ignore[arg-type]  # by its schema too


def _fit(
    candidate: Protocol, sample: pa.RecordBatch, records: list[SampleRecord], user_options: Mapping[str, str]
) -> ProtocolFit | None:
    if candidate.recognize is None:
        return None
    looks = [(record, why) for record in records if (why := candidate.recognize(record)) is not None]
    if not looks:
        return None
    names = {f.encode_name for f in msgspec.structs.fields(candidate.options)}
    shown = _shown_options(candidate, [record for record, _ in looks])
    options = shown | {n: v for n, v in user_options.items() if n in names}
    try:
        decoded = _decode(candidate, sample, options)
    except ChangefeedError as error:
        tried = None if isinstance(error, (ConfigError, SchemaRegistryError)) else 0
        if isinstance(error, ConfigError):  # options that the protocol refuses are not for a pipeline
            options = shown
        return ProtocolFit(candidate.name, looks[0][1], len(looks), tried, redact(str(error)), options)
    trouble = decoded.dead[0].error if decoded.dead else None
    return ProtocolFit(
        candidate.name,
        looks[0][1],
        len(looks),
        None if _needs_registry(decoded, options) else _count(decoded, len(records)),
        trouble,
        {**options, **_carried(candidate, options, decoded)},
    )


def _needs_registry(decoded: Decoded, options: Mapping[str, str]) -> bool:
    """Whether the protocol can only be confirmed with a schema registry."""
    lacks_schemas = bool(decoded.dead) and all(letter.reason == "unknown-schema" for letter in decoded.dead)
    return lacks_schemas and not decoded.tables and "schema-registry" not in options


def _count(decoded: Decoded, records: int) -> int:
    """Counts decoded records; records without content, such as tombstones, prove nothing and do not count."""
    return records - len({letter.place.record for letter in decoded.dead}) if decoded.tables or decoded.control else 0


def _shown_options(candidate: Protocol, records: list[SampleRecord]) -> dict[str, str]:
    """Returns the options that the records show, each with the value that most of them show."""
    votes: dict[str, Counter[str]] = {}
    for name, value in chain.from_iterable(candidate.likely(r).items() for r in records) if candidate.likely else ():
        votes.setdefault(name, Counter())[value] += 1
    return {name: counted.most_common(1)[0][0] for name, counted in votes.items()}


def _decode(candidate: Protocol, sample: pa.RecordBatch, options: Mapping[str, str]) -> Decoded:
    read = candidate.read_options(options)
    return decoder(candidate.name, read, stores_of(read)).decode(sample)


def _carried(candidate: Protocol, options: Mapping[str, str], decoded: Decoded) -> Mapping[str, str]:
    """Returns the options with which the protocol carries everything in the sample, if its decoder is self-describing."""
    seen = set(_seen(decoded)) & candidate.capabilities.carries

    def fits(variant: Mapping[str, str]) -> bool:
        return seen <= candidate.capabilities_of(candidate.read_options({**options, **variant})).carries | {"op.upsert"}

    if not candidate.self_describing or fits({}):
        return {}
    return next((fewest(variant, fits) for variant in candidate.variants if fits(variant)), {})


def _seen(decoded: Decoded) -> Iterator[str]:
    for table in decoded.tables:
        ops = set(table.rows.column("op").to_pylist())
        yield from (f"op.{op}" for op in ops)
        if ops - {"delete"} and table.rows.column("before").null_count < len(table):
            yield from {"before"} if "update" in ops else ()
        yield from {"commit_ts"} if table.rows.column("commit_ts").null_count < len(table) else ()
    yield from ("schema" for event in decoded.control if isinstance(event, SchemaChange))
    yield from ("resolved" for event in decoded.control if isinstance(event, Resolved))


def _scalar(value: str) -> str:
    """Formats a value for YAML: quoted if YAML would not read it as text; numbers and `true` are accepted either way."""
    plain = value[:1].isalpha() and value.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return value if plain and value.lower() not in _NO_TEXT else msgspec.json.encode(value).decode()
