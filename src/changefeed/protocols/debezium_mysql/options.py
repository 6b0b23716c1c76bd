"""Options of `debezium-mysql`. Names and meanings are the connector's own; decoder and encoder share them."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from changefeed.errors import ConfigError
from changefeed.mysql.zone import zone
from changefeed.protocols import base
from changefeed.protocols.debezium_mysql import added_members, blocks

_ADJUSTMENT = Literal["none", "avro", "avro_unicode"]
_VERSIONS = {
    "2.3": "2.3.4.Final",
    "2.6": "2.6.2.Final",
    "2.7": "2.7.4.Final",
    "3.0": "3.0.7.Final",
    "3.6": "3.6.3.Final",
}


class Options(base.RegistryOptions, frozen=True):
    """The producer's settings, for decoding and encoding."""

    debezium_version: Annotated[
        Literal["2.3", "2.6", "2.7", "3.0", "3.6"],
        Meta(description="connector version whose bytes are written; those of all versions are read"),
    ] = "3.6"
    source_version: Annotated[
        str | None, Meta(description="text of `source.version`; without it, that of the debezium-version")
    ] = None
    connector: Annotated[Literal["mysql", "mariadb"], Meta(description="which connector's names to write")] = "mysql"
    topic_prefix: Annotated[
        str | None,
        Meta(
            description="logical name; rows of other protocols go to <prefix>.<database>.<table>. None keeps their topic"
        ),
    ] = msgspec.field(default=None, name="topic.prefix")
    topic_delimiter: Annotated[str, Meta(min_length=1, description="between the parts of a topic's name")] = (
        msgspec.field(default=".", name="topic.delimiter")
    )
    decimal_handling_mode: Annotated[
        Literal["precise", "string", "double"] | None,
        Meta(
            description="how DECIMAL is sent. Without it, `precise`; plain digits, which may be a number or base64, are "
            "then refused"
        ),
    ] = msgspec.field(default=None, name="decimal.handling.mode")
    bigint_unsigned_handling_mode: Annotated[
        Literal["long", "precise"], Meta(description="how BIGINT UNSIGNED is sent; long wraps above 2^63-1")
    ] = msgspec.field(default="long", name="bigint.unsigned.handling.mode")
    time_precision_mode: Annotated[
        Literal["adaptive_time_microseconds", "connect", "microseconds", "nanoseconds", "isostring"] | None,
        Meta(
            description="how DATE, TIME and DATETIME are sent. Without it, `adaptive_time_microseconds`; numbers that look like "
            "another mode's are then refused"
        ),
    ] = msgspec.field(default=None, name="time.precision.mode")
    enable_time_adjuster: Annotated[
        bool,
        Meta(
            description="years 0 to 99 in DATE and DATETIME of rows of other protocols become 1970 to 2069; the connector does "
            "that by default"
        ),
    ] = msgspec.field(default=False, name="enable.time.adjuster")
    time_zone: Annotated[
        str | None,
        Meta(description="time zone of TIMESTAMPs that a custom converter sends as text without an offset"),
    ] = None
    binary_handling_mode: Annotated[
        Literal["bytes", "base64", "base64-url-safe", "hex"] | None,
        Meta(
            description="how BINARY and BLOB are sent. Without it, `bytes`; texts that may be base64 or hex are then refused"
        ),
    ] = msgspec.field(default=None, name="binary.handling.mode")
    converter: Annotated[
        Literal["json", "avro"], Meta(description="how keys and values of other protocols are written; both are read")
    ] = "json"
    decimal_format: Annotated[
        Literal["BASE64", "NUMERIC"], Meta(description="the JSON converter's form of precise decimals")
    ] = msgspec.field(default="BASE64", name="decimal.format")
    schemas_enable: Annotated[
        bool,
        Meta(description="keys and values of rows of other protocols are written with schemas; both forms are read"),
    ] = msgspec.field(default=True, name="schemas.enable")
    key_schemas_enable: Annotated[
        bool | None, Meta(description="schemas.enable for keys only; without it, as schemas.enable")
    ] = msgspec.field(default=None, name="key.converter.schemas.enable")
    value_schemas_enable: Annotated[
        bool | None, Meta(description="schemas.enable for values only; without it, as schemas.enable")
    ] = msgspec.field(default=None, name="value.converter.schemas.enable")
    replace_null_with_default: Annotated[
        bool,
        Meta(description="NULL is written as the default of its field's schema, as converters with this setting do"),
    ] = False
    topic_transaction: Annotated[
        str, Meta(description="transaction marks of other protocols go to <topic.prefix>.<this>")
    ] = msgspec.field(default="transaction", name="topic.transaction")
    topic_heartbeat_prefix: Annotated[
        str, Meta(description="heartbeats of other protocols go to <this>.<topic.prefix>")
    ] = msgspec.field(default="__debezium-heartbeat", name="topic.heartbeat.prefix")
    skipped_operations: Annotated[
        str, Meta(description="rows of other protocols that are not written: a list of c, u, d, t; or none")
    ] = msgspec.field(default="t", name="skipped.operations")
    extended_headers_enabled: Annotated[
        bool, Meta(description="rows of other protocols get the context headers that their origin has")
    ] = msgspec.field(default=True, name="extended.headers.enabled")
    message_key_columns: Annotated[
        str | None,
        Meta(description="keys of tables of other protocols, and their order: <regex of db.table>:<column>,…;…"),
    ] = msgspec.field(default=None, name="message.key.columns")
    tombstones_on_delete: Annotated[bool, Meta(description="a record without value follows each delete")] = (
        msgspec.field(default=True, name="tombstones.on.delete")
    )
    provide_transaction_metadata: Annotated[
        bool, Meta(description="rows and marks of other protocols get their transaction")
    ] = msgspec.field(default=False, name="provide.transaction.metadata")
    include_schema_changes: Annotated[bool, Meta(description="foreign schema changes are written")] = msgspec.field(
        default=True, name="include.schema.changes"
    )
    include_schema_comments: Annotated[
        bool,
        Meta(
            description="comments of columns and tables are written; the connector `mariadb` does so also with "
            "include.schema.changes"
        ),
    ] = msgspec.field(default=False, name="include.schema.comments")
    include_query: Annotated[bool, Meta(description="`source.query` of rows of other protocols, where it is known")] = (
        msgspec.field(default=False, name="include.query")
    )
    schema_name_adjustment_mode: Annotated[
        _ADJUSTMENT, Meta(description="characters of schema names that Avro does not have")
    ] = msgspec.field(default="none", name="schema.name.adjustment.mode")
    field_name_adjustment_mode: Annotated[_ADJUSTMENT, Meta(description="the same for names of columns")] = (
        msgspec.field(default="none", name="field.name.adjustment.mode")
    )
    unwrap: Annotated[
        bool, Meta(description="values are rows without envelope, as the transform ExtractNewRecordState leaves them")
    ] = False
    add_fields: Annotated[
        str | None,
        Meta(
            description="with `unwrap`: the members that the transform adds, as it has them: op,source.ts_ms,…; empty for "
            "none. Without it, they are found by their names and values"
        ),
    ] = msgspec.field(default=None, name="add.fields")
    add_fields_prefix: Annotated[str, Meta(description="with `unwrap`: what the names of added members begin with")] = (
        msgspec.field(default="__", name="add.fields.prefix")
    )
    add_headers_prefix: Annotated[str, Meta(description="with `unwrap`: the same for headers that were added")] = (
        msgspec.field(default="__", name="add.headers.prefix")
    )
    delete_tombstone_handling_mode: Annotated[
        Literal["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"] | None,
        Meta(
            description="with `unwrap`: what becomes of deletes; only the rewrite modes add `__deleted`. Without it, a member "
            "of this name is added if it is true or false"
        ),
    ] = msgspec.field(default=None, name="delete.tombstone.handling.mode")
    event_converting_failure_handling_mode: Annotated[
        Literal["fail", "warn"],
        Meta(
            description="what to do with a value of another protocol that a mode does not have, such as a TIME of 600 hours in "
            "`connect`: `fail`, or NULL if the field allows it (`warn`, the connector's default)"
        ),
    ] = msgspec.field(default="fail", name="event.converting.failure.handling.mode")
    unavailable_value_placeholder: Annotated[str, Meta(description="value that marks a column that was not sent")] = (
        msgspec.field(default="__debezium_unavailable_value", name="unavailable.value.placeholder")
    )
    bug_compat: Annotated[bool, Meta(description="reproduce the producer's known defects")] = False

    def __post_init__(self) -> None:
        """Checks the rules that types cannot express.

        Raises:
            ConfigError: the value of an option is not allowed.
        """
        keys_of(self.message_key_columns)
        if self.time_zone is not None:
            zone(self.time_zone)
        if self.add_fields is not None:
            added_members.named_fields(self.add_fields, self.add_fields_prefix)
        elif not self.add_fields_prefix:
            raise ConfigError('add.fields.prefix is empty: name the added members by the option "add.fields"')
        if not self.skipped <= {"c", "u", "d", "t"}:
            raise ConfigError(f"skipped.operations {self.skipped_operations!r} is not a list of c, u, d, t; or none")

    @property
    def dispatches(self) -> tuple[str, ...]:
        """The set options that send rows to other topics or partitions than those of the changes."""
        return () if self.topic_prefix is None else ("topic.prefix",)

    @property
    def added_members(self) -> added_members.Rules:
        """The settings by which members that the transform has added are found."""
        return added_members.Rules(self.add_fields_prefix, self.add_fields, self.delete_tombstone_handling_mode)

    @property
    def time_mode(self) -> str:
        """The mode of dates and times."""
        return self.time_precision_mode or "adaptive_time_microseconds"

    @property
    def binary_mode(self) -> str:
        """The mode of BINARY and BLOB."""
        return self.binary_handling_mode or "bytes"

    @property
    def skipped(self) -> set[str]:
        """The letters in `skipped.operations`; empty for `none`."""
        return {letter.strip() for letter in self.skipped_operations.split(",")} - {"none"}

    @property
    def with_comments(self) -> bool:
        """Whether comments of foreign tables are written."""
        return self.include_schema_comments or (self.connector == "mariadb" and self.include_schema_changes)

    @property
    def version(self) -> str:
        """The text to write as `source.version`."""
        return self.source_version or _VERSIONS[self.debezium_version]

    @property
    def is_at_least_3_6(self) -> bool:
        """Whether the version to write is 3.6 or later: the profile 3.6 is that of earlier ones, too."""
        return blocks.is_at_least(self.version, (3, 6))

    @property
    def with_key_schema(self) -> bool:
        """Whether keys of rows from other protocols are written with a schema."""
        return self.schemas_enable if self.key_schemas_enable is None else self.key_schemas_enable

    @property
    def with_value_schema(self) -> bool:
        """Whether values of rows from other protocols are written with a schema."""
        return self.schemas_enable if self.value_schemas_enable is None else self.value_schemas_enable


@cache
def keys_of(text: str | None) -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    """Parses the option `message.key.columns` to patterns of `database.table` with the columns of the key.

    Raises:
        ConfigError: the text is invalid.
    """
    rules = []
    for entry in filter(None, (text or "").split(";")):
        pattern, _, columns = entry.rpartition(":")
        names = tuple(name.strip() for name in columns.split(",") if name.strip())
        try:
            rules.append((re.compile(pattern.strip(), re.IGNORECASE), names))
        except re.error as error:
            raise ConfigError(f"message.key.columns: {pattern!r} is not a pattern: {error}") from error
        if not pattern or not names:
            raise ConfigError(f"message.key.columns: {entry!r} is not <regex of db.table>:<column>,…")
    return tuple(rules)
