"""Options of `tencent-dts`, for decoding and encoding."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from changefeed.errors import ConfigError, unknown_name
from changefeed.mysql import charsets
from changefeed.protocols import base
from changefeed.protocols.tencent_dts.messages import SOURCES
from changefeed.protocols.tencent_dts.rules import Rule, read_rule

NAME = "tencent-dts"


class Options(base.Options, frozen=True, rename=str):  # the names as they stand, with underscores
    """Properties of the subscription, for both directions."""

    require_ps: Annotated[bool, Meta(description="refuse records without the header `ps`")] = False
    on_gap: Annotated[
        Literal["error", "warn"],
        Meta(description="what to do with a record whose `ps` does not follow that of the last record"),
    ] = "error"
    max_group_bytes: Annotated[
        int, Meta(description="maximum size of a group of envelopes in bytes; larger groups are refused")
    ] = 268_435_456
    max_data_bytes: Annotated[
        int, Meta(description="maximum size of the data in one envelope in bytes; larger data is split")
    ] = 998_976
    merge_entries: Annotated[bool, Meta(description="write consecutive entries into one envelope")] = True
    checkpoint_interval: Annotated[
        int, Meta(description="seconds of commit time between written checkpoints; 0 writes none")
    ] = 10
    partitions: Annotated[
        int | None,
        Meta(
            description="partitions over which all changes are dispatched again. None leaves those that were read from this "
            "protocol where they were, and sends all others to partition 0"
        ),
    ] = None
    partition_rule: Annotated[
        Literal["table", "pk"], Meta(description="rows are dispatched by their table, or by table and primary key")
    ] = "table"
    custom_rules: Annotated[
        str | tuple[dict[str, Any], ...],
        Meta(
            description="rules tried before partition_rule, in order: a list of {DbPattern, TablePattern, RuleType, "
            "Columns}, as JSON on a command line; RuleType is table, pk or cols"
        ),
    ] = ()
    charset: Annotated[str, Meta(description="MySQL character set of text from other protocols")] = "utf8"
    binary_as: Annotated[
        Literal["bytes", "string"], Meta(description="DataType of BINARY and VARBINARY from other protocols")
    ] = "bytes"
    bit64_signed: Annotated[bool, Meta(description="BIT(64) with its top bit set is a negative number")] = True
    source_type: Annotated[
        int | str,
        Meta(description="sourceType of changes from other protocols: a number, or mysql, mariadb, pgsql, oracle"),
    ] = "mysql"
    shard_id: Annotated[
        str | None,
        Meta(description="header ShardId of records that are dispatched again, or come from other protocols"),
    ] = None

    def __post_init__(self) -> None:
        """Checks the rules that types cannot express.

        Raises:
            ConfigError: the value of an option is not allowed.
        """
        for name in ("max_group_bytes", "max_data_bytes"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"option {name} is {getattr(self, name)}, expected at least 1")
        if self.checkpoint_interval < 0:
            raise ConfigError(f"option checkpoint_interval is {self.checkpoint_interval}, expected at least 0")
        if self.partitions is not None and not 0 < self.partitions < 2**31:
            raise ConfigError(f"option partitions is {self.partitions}, expected 1 to 2147483647")
        if charsets.known(self.charset) in (None, charsets.BINARY):
            raise unknown_name("character set", self.charset, set(charsets.NAMES) - {charsets.BINARY})
        self.source_number  # noqa: B018 - refuses an unknown name
        self.rules  # noqa: B018 - refuses rules that are none

    @property
    def dispatches(self) -> tuple[str, ...]:
        """The set options that send rows to other topics or partitions than those of the changes."""
        return tuple(name for name, value in (("partitions", self.partitions),) if value is not None)

    @property
    def source_number(self) -> int:
        """The number of the `source_type`."""
        source = self.source_type
        if isinstance(source, int) or source.isdigit():
            if not 0 <= int(source) < 2**31:
                raise ConfigError(f"invalid source_type {source}, expected a number below 2^31")
            return int(source)
        if source.lower() not in SOURCES:
            raise unknown_name("source_type", source, SOURCES)
        return SOURCES[source.lower()]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The parsed custom rules."""
        listed: Any = self.custom_rules
        if isinstance(listed, str):
            try:
                listed = msgspec.json.decode(listed, type=tuple[dict[str, Any], ...])
            except msgspec.MsgspecError as error:
                raise ConfigError(f"custom_rules: {error}") from error
        return tuple(map(read_rule, listed))
