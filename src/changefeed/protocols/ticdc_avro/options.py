"""Options of `ticdc-avro`. Names and meanings are TiCDC's own; decoder and encoder share them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from changefeed.errors import ConfigError
from changefeed.mysql.zone import zone
from changefeed.protocols import base
from changefeed.protocols.ticdc_avro.names import TopicRule, check_topic
from changefeed.ticdc.dispatch import CaseSensitive, Columns, Dispatching, DispatchRules, Index, Partition, PartitionNum
from changefeed.ticdc.options import MessageBytes, Profile, TimeZone

NAME = "ticdc-avro"
NO_REGISTRY = (
    'Avro protocol requires parameter "schema-registry" or "glue-schema-registry" to specify the schema registry; '
    'changefeed supports "schema-registry"'
)


class Options(Dispatching, base.RegistryOptions, frozen=True):
    """The producer's settings, for decoding and encoding."""

    profile: Profile = "newarch"
    time_zone: TimeZone = "UTC"
    enable_tidb_extension: Annotated[
        bool, Meta(description="rows carry op, commit ts and its wall clock; without them a row is an upsert")
    ] = False
    avro_decimal_handling_mode: Annotated[
        str, Meta(description="DECIMAL: precise (unscaled integer, needs the precision) or string")
    ] = "precise"
    avro_bigint_unsigned_handling_mode: Annotated[
        str, Meta(description="BIGINT UNSIGNED: long (values from 2^63 on wrap to negative) or string")
    ] = "long"
    avro_enable_watermark: Annotated[
        bool, Meta(description="with the extension: DDL and resolved messages; newarch deletes carry their commit ts")
    ] = False
    avro_include_before_value: Annotated[
        bool, Meta(description="the old row in `_ticdc_before`; deletes then have a value")
    ] = False
    integrity_check_level: Annotated[
        Literal["none", "correctness"], Meta(description="correctness: rows carry a checksum; read ones are verified")
    ] = "none"
    corruption_handle_level: Annotated[
        Literal["warn", "error"],
        Meta(description="a row that is damaged or does not match its checksum: warn marks it, error refuses it"),
    ] = "warn"
    namespace: Annotated[
        str, Meta(description="first part of the records' namespace: the changefeed's namespace or keyspace")
    ] = "default"
    max_message_bytes: MessageBytes = 10_485_760
    output_raw_change_event: Annotated[
        bool, Meta(description="an update that changes the key stays one update; else it is a delete and an insert")
    ] = False
    bug_compat: Annotated[bool, Meta(description="reproduce the producer's known defects")] = False
    topic: Annotated[
        str | None,
        Meta(
            description="topic rule, as {schema}_{table}. Rows are written to that topic, and a row read from such a "
            "topic is of the table that the topic names. Without it, each change keeps its own topic, and the record's names"
        ),
    ] = None
    partition_num: PartitionNum = None
    partition: Partition = "default"
    index: Index = None
    columns: Columns = ()
    dispatchers: DispatchRules = ()
    case_sensitive: CaseSensitive = False

    def __post_init__(self) -> None:
        """Checks the rules that types cannot express.

        Raises:
            ConfigError: the value of an option is not allowed.
        """
        zone(self.time_zone)
        if self.avro_decimal_handling_mode not in ("precise", "string"):
            raise ConfigError('avro-decimal-handling-mode value could only be "string" or "precise"')
        if self.avro_bigint_unsigned_handling_mode not in ("long", "string"):
            raise ConfigError('avro-bigint-unsigned-handling-mode value could only be "long" or "string"')
        if self.checksums and not (
            self.enable_tidb_extension
            and self.avro_decimal_handling_mode == "string"
            and self.avro_bigint_unsigned_handling_mode == "string"
        ):
            raise ConfigError(
                'Avro protocol with row level checksum, should set "enable-tidb-extension" to "true", and set '
                '"avro-decimal-handling-mode" to "string" and "avro-bigint-unsigned-handling-mode" to "string"'
            )
        if self.max_message_bytes <= 0:
            raise ConfigError(f"invalid max-message-bytes {self.max_message_bytes}")
        self.check_dispatching()
        for topic in (self.topic, *(rule.topic for rule in self.dispatchers)):
            if topic:
                check_topic(topic)

    @property
    def checksums(self) -> bool:
        """Whether rows are written with a checksum."""
        return self.integrity_check_level == "correctness"

    @property
    def watermarks(self) -> bool:
        """Whether the producer sends DDL and resolved messages: `avro-enable-watermark`, with the TiDB extension."""
        return self.enable_tidb_extension and self.avro_enable_watermark

    @property
    def topic_rule(self) -> TopicRule | None:
        """The topic rule, if there is one."""
        return None if self.topic is None else TopicRule(self.topic)
