"""The options of reads and writes: those of this package, and those of the protocol, by the producer's names.

Spark ignores the case of option names, keyword arguments of Python cannot contain `-` or `.`, and Spark's own options have no
separators (`startingOffsets`): names are compared without case and separators.
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

    path: Annotated[
        str | None, Meta(description="a log, or a pattern such as `history/*.jsonl.gz`; or `kafka.bootstrap.servers`")
    ] = None
    subscribe: Annotated[str | None, Meta(description="topics of Kafka, with commas between")] = None
    subscribe_pattern: Annotated[
        str | None, Meta(description="topics of Kafka, by a Java regular expression for their whole names")
    ] = None
    starting_offsets: Annotated[
        str,
        Meta(description="where a read of Kafka begins: `earliest`, `latest`, or JSON as Spark's connector takes it"),
    ] = "earliest"
    ending_offsets: Annotated[str, Meta(description="where a batch read of Kafka ends: `latest`, or JSON")] = "latest"
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
_NO_SEPARATORS = str.maketrans("", "", "-_.")
_TOPICS = ("subscribe", "subscribe-pattern", "starting-offsets", "ending-offsets")


def read_options(settings: Mapping[str, Any]) -> tuple[ReadOptions, dict[str, Any], dict[str, str]]:
    """Splits settings into the options of a read, those of its protocol, and those of Kafka, and validates them.

    Raises:
        ConfigError: an option is unknown, or its value does not fit.
    """
    kafka, rest = _of_kafka(settings)
    own, others = split(rest, _protocol(rest), ReadOptions.__struct_encode_fields__)
    options = option_values.read("changefeed", ReadOptions, own)
    if not kafka and (more := own.keys() & set(_TOPICS)):
        raise ConfigError(f"changefeed: option {min(more)} is for Kafka: set kafka.bootstrap.servers")
    if kafka and options.path is not None:
        raise ConfigError(
            f"changefeed: options path and {min(kafka)}: records come from files or from Kafka, not from both"
        )
    if kafka and options.protocol is None:
        raise ConfigError("changefeed: option `protocol` is missing: which protocol are the records in?")
    return options, others, kafka


def decode_options(settings: Mapping[str, Any]) -> tuple[ReadOptions, dict[str, Any]]:
    """Splits settings into the options of `decode` and those of its protocol, and validates them.

    Raises:
        ConfigError: an option is unknown or names the records' place, or its value does not fit.
    """
    places = {_plain(name) for name in ("path", *_TOPICS)}
    for option in settings:
        if _plain(option) in places or option.lower().startswith("kafka."):
            raise ConfigError(
                f"changefeed: option {option} is not allowed here, because the records come from the DataFrame. Remove it"
            )
    options, own, _ = read_options(settings)
    return options, own


def write_options(settings: Mapping[str, Any]) -> tuple[WriteOptions, dict[str, Any], dict[str, str]]:
    """Splits settings into the options of a write, those of its protocol, and those of Kafka, and validates them.

    Raises:
        ConfigError: an option is unknown or missing, or its value does not fit.
    """
    kafka, rest = _of_kafka(settings)
    rest = {option: value for option, value in rest.items() if option.lower() not in _OF_STREAMS}
    own, others = split(rest, _protocol(rest), WriteOptions.__struct_encode_fields__)
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
        if _plain(option) not in known:
            where = f"option of changefeed and {name}" if name else "option of changefeed"
            raise unknown_name(where, option, known.values())
        if value is not None:
            values[known[_plain(option)]] = value
    mine = set(own)
    return {n: v for n, v in values.items() if n in mine}, {n: v for n, v in values.items() if n not in mine}


def local_path(path: str) -> str:
    """Returns the path of a folder or of files.

    Raises:
        ConfigError: it is a URL.
    """
    path = path.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        raise ConfigError(
            f"changefeed: path {path} is a URL, but logs are read from folders only. Copy or mount it at one path on every "
            "machine of the cluster"
        )
    return path


def _of_kafka(settings: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Splits settings into options of the Kafka client and others."""
    kafka = {option.lower(): str(value) for option, value in settings.items() if option.lower().startswith("kafka.")}
    return kafka, {option: value for option, value in settings.items() if option.lower() not in kafka}


def _protocol(settings: Mapping[str, Any]) -> str | None:
    return next((value for option, value in settings.items() if _plain(option) == "protocol"), None)


def _plain(option: str) -> str:
    return option.lower().translate(_NO_SEPARATORS)
