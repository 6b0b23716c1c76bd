"""Options of `ticdc-debezium`. Names and meanings are TiCDC's own; decoder and encoder share them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from changefeed.errors import ConfigError
from changefeed.mysql.zone import zone
from changefeed.protocols import base
from changefeed.ticdc.dispatch import (
    CaseSensitive,
    Columns,
    Dispatching,
    DispatchRules,
    Index,
    Partition,
    PartitionNum,
    Topic,
)
from changefeed.ticdc.large_messages import check_compression, check_limits
from changefeed.ticdc.options import OneRowBatch, Profile


class Options(Dispatching, base.Options, frozen=True):
    """The producer's settings, for decoding and encoding."""

    profile: Profile = "newarch"
    enable_tidb_extension: Annotated[
        bool, Meta(description="fields have their `tidb_type`, and resolved events are sent as watermark messages")
    ] = False
    debezium_disable_schema: Annotated[bool, Meta(description="write no `schema` beside the `payload`")] = False
    debezium_include_start_ts: Annotated[
        bool, Meta(description="`source` carries `start_ts` (newarch): the transaction's id")
    ] = False
    output_old_value: Annotated[bool, Meta(description="updates carry the old row, `before`")] = True
    null_with_default: Annotated[
        Literal["producer", "null"],
        Meta(description="a NULL in a column that has a default: as the producer the default, or null"),
    ] = "producer"
    bug_compat: Annotated[bool, Meta(description="reproduce the producer's known defects")] = False
    cluster_id: Annotated[str, Meta(description="the TiCDC server's `cluster-id`, in names and `source`")] = "default"
    time_zone: Annotated[
        str, Meta(description="the TiCDC server's `tz`: zone of TIMESTAMP text in the hash of a dispatcher")
    ] = "UTC"
    large_message_handle_compression: Annotated[str, Meta(description="of keys and values: none, snappy, lz4")] = "none"
    max_inflated_bytes: Annotated[int, Meta(description="compressed texts that grow beyond this are refused")] = (
        268_435_456
    )
    max_message_bytes: Annotated[int, Meta(description="accepted, without effect: no message is too large")] = (
        10_485_760
    )
    max_batch_size: OneRowBatch = 16
    topic: Topic = None
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
        check_limits(self, "max_message_bytes", "max_batch_size", "max_inflated_bytes")
        check_compression(self.large_message_handle_compression)
        if self.debezium_include_start_ts and self.profile == "classic":
            raise ConfigError("debezium-include-start-ts only takes effect with profile newarch")
        self.check_dispatching()

    @property
    def classic(self) -> bool:
        """Whether the classic producer's bytes are written."""
        return self.profile == "classic"
