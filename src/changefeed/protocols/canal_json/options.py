"""Options of `canal-json`. Names and meanings are TiCDC's own; decoder and encoder share them."""

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
from changefeed.ticdc.large_messages import check_compression, check_handling, check_limits, check_storage
from changefeed.ticdc.options import (
    ClaimCheckBytes,
    ClaimCheckStorage,
    HandleKeyDeletes,
    InflatedBytes,
    LargeMessages,
    MessageBytes,
    OneRowBatch,
    TimeZone,
)

NAME = "canal-json"


class Options(Dispatching, base.Options, frozen=True):
    """The producer's settings, for decoding and encoding."""

    profile: Annotated[
        Literal["classic", "newarch", "canal"],
        Meta(description="which producer's bytes to write: TiCDC's or Canal's; all are read"),
    ] = "newarch"
    time_zone: TimeZone = "UTC"
    enable_tidb_extension: Annotated[
        bool, Meta(description="messages carry `_tidb` with the commit_ts; resolved events are sent as TIDB_WATERMARK")
    ] = False
    content_compatible: Annotated[
        bool, Meta(description="as Canal: `mysqlType` has lengths and members, `old` only the columns that changed")
    ] = False
    only_output_updated_columns: Annotated[bool, Meta(description="`old` has only the columns that changed")] = False
    delete_only_output_handle_key_columns: HandleKeyDeletes = False
    max_message_bytes: MessageBytes = 10_485_760
    max_batch_size: OneRowBatch = 16
    large_message_handle_option: LargeMessages = "none"
    large_message_handle_compression: Annotated[str, Meta(description="of each value: none, snappy, lz4")] = "none"
    claim_check_storage_uri: ClaimCheckStorage = None
    claim_check_raw_value: Annotated[
        bool, Meta(description="claim-check files are the value alone, not JSON with key and value")
    ] = False
    claim_check_max_bytes: ClaimCheckBytes = 268_435_456
    max_inflated_bytes: InflatedBytes = 268_435_456
    bug_compat: Annotated[bool, Meta(description="reproduce the producer's known defects")] = False
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
        check_limits(self, "max_message_bytes", "max_batch_size", "claim_check_max_bytes", "max_inflated_bytes")
        check_compression(self.large_message_handle_compression)
        check_handling(self.large_message_handle_option)
        if self.large_message_handle_option != "none" and not self.enable_tidb_extension:
            raise ConfigError(
                f"large message handle is set to {self.large_message_handle_option}, protocol is canal-json, but "
                "enable-tidb-extension is false"
            )
        check_storage(self.large_message_handle_option, self.claim_check_storage_uri)
        self.check_dispatching()

    @property
    def full_types(self) -> bool:
        """Whether `mysqlType` has lengths, digits and members."""
        return self.content_compatible or self.profile == "canal"

    @property
    def changed_only(self) -> bool:
        """Whether `old` has only the columns that changed."""
        return self.only_output_updated_columns or self.content_compatible or self.profile == "canal"

    @property
    def claim_checks(self) -> base.ClaimChecks | None:
        """See `base.Options`."""
        uri = self.claim_check_storage_uri
        return base.ClaimChecks(uri, self.claim_check_max_bytes) if uri else None
