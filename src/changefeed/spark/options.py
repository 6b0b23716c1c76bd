"""The options of reads and writes: those of this package, and those of the protocol, by the producer's names.

Spark ignores the case of option names, and keyword arguments of Python cannot contain `-` or `.`: both are allowed for here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from changefeed.errors import ConfigError, unknown_name
from changefeed.protocols import option_values, protocol
from changefeed.stages.transcode import Language


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Options of `spark.read.format("changefeed")` and of `decode`."""

    path: Annotated[str | None, Meta(description="a log, or a pattern such as `history/*.jsonl.gz`")] = None
    protocol: Annotated[str | None, Meta(description="name of the protocol; without it, the records as they are")] = (
        None
    )
    table: Annotated[
        str | None, Meta(description="`database.table`; without it, all tables with images as VARIANT")
    ] = None
    before: Annotated[bool, Meta(description="add `_before`, the image before the change, to a table's columns")] = (
        False
    )
    dead_letters: Annotated[
        Literal["fail", "rows"],
        Meta(description="stop at a record that cannot be decoded, or make it a row with a `_dead_letter`"),
    ] = "fail"
    irregular: Annotated[
        Literal["null", "keep", "fail"],
        Meta(description="a value that its column cannot hold: NULL; NULL and its text in `_irregular`; or stop"),
    ] = "null"
    schema_records: Annotated[
        int, Meta(description="a table's columns are taken from this many records of each log", ge=0)
    ] = 100_000

    def language(self, own: Mapping[str, Any]) -> Language:
        """Returns the protocol with its validated options."""
        if self.protocol is None:
            raise ConfigError("changefeed: option `protocol` is missing: which protocol are the records in?")
        return Language(self.protocol, dict(own))


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Options of `df.write.format("changefeed")` and `df.writeStream.format("changefeed")`."""

    protocol: Annotated[str, Meta(description="name of the protocol to write")]
    path: Annotated[str | None, Meta(description="the folder of the log; without it, `kafka.bootstrap.servers`")] = None
    topic: Annotated[
        str | None, Meta(description="topic of Kafka for all records; without it, those of their rows")
    ] = None
    table: Annotated[str | None, Meta(description="`database.table` that the rows are of; without it, all tables")] = (
        None
    )
    default_topic: Annotated[str, Meta(description="topic of the records of rows without a position")] = "changefeed"
    keys: Annotated[
        str | None,
        Meta(
            description="columns that identify a table's rows, with commas between, where the columns' metadata do not"
        ),
    ] = None


_OF_STREAMS = ("checkpointlocation", "queryname")  # Spark passes them on to the sink
_OWN = ReadOptions.__struct_encode_fields__


def read_options(settings: Mapping[str, Any]) -> tuple[ReadOptions, dict[str, Any]]:
    """Splits settings into the options of a read and those of its protocol, and validates them.

    Raises:
        ConfigError: an option is unknown, or its value does not fit.
    """
    name = next((value for option, value in settings.items() if _plain(option) == "protocol"), None)
    own, others = split(settings, name, _OWN)
    return option_values.read("changefeed", ReadOptions, own), others


def write_options(settings: Mapping[str, Any]) -> tuple[WriteOptions, dict[str, Any], dict[str, str]]:
    """Splits settings into the options of a write, those of its protocol, and those of Kafka, and validates them.

    Raises:
        ConfigError: an option is unknown or missing, or its value does not fit.
    """
    kafka = {option.lower(): str(value) for option, value in settings.items() if option.lower().startswith("kafka.")}
    rest = {option: value for option, value in settings.items() if option.lower() not in (*kafka, *_OF_STREAMS)}
    name = next((value for option, value in rest.items() if _plain(option) == "protocol"), None)
    own, others = split(rest, name, WriteOptions.__struct_encode_fields__)
    if "protocol" not in own:
        raise ConfigError("changefeed: option protocol is missing")
    options = option_values.read("changefeed", WriteOptions, own)
    if options.path is None and not kafka:
        raise ConfigError("changefeed: option path is missing: the folder to write to; or kafka.bootstrap.servers")
    if options.path is not None and (kafka or options.topic is not None):
        more = next(iter(kafka), "topic")
        raise ConfigError(f"changefeed: options path and {more}: records go to a folder or to Kafka, not to both")
    return options, others, kafka


def split(settings: Mapping[str, Any], name: str | None, own: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits settings into options of this package (`own`) and options of the protocol; both get their proper names.

    Raises:
        ConfigError: an option belongs to neither.
    """
    protocol_options = protocol(name).options.__struct_encode_fields__ if name is not None else ()
    known, values = {_plain(option): option for option in (*protocol_options, *own)}, dict[str, Any]()
    for option, value in settings.items():
        if _plain(option).startswith("kafka_") or _plain(option) in ("subscribe", "subscribepattern"):
            raise ConfigError(
                f"changefeed: option {option}: topics are read by Spark's own connector. Use "
                'changefeed.spark.decode(spark.readStream.format("kafka")….load(), "<protocol>")'
            )
        if _plain(option) not in known:
            where = f"option of changefeed and {name}" if name else "option of changefeed"
            raise unknown_name(where, option, known.values())
        if value is not None:
            values[known[_plain(option)]] = value
    mine = set(own)
    return {n: v for n, v in values.items() if n in mine}, {n: v for n, v in values.items() if n not in mine}


def _plain(option: str) -> str:
    return option.lower().replace("-", "_").replace(".", "_")
