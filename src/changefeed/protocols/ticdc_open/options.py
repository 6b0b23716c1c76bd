"""Options of `ticdc-open`. Names and meanings are TiCDC's own; decoder and encoder share them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

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
    Profile,
    TimeZone,
)


class Options(Dispatching, base.Options, frozen=True):
    """The producer's settings, for decoding and encoding."""

    profile: Profile = "newarch"
    time_zone: TimeZone = "UTC"
    output_old_value: Annotated[
        bool,
        Meta(
            description="updates carry the old row; otherwise inserts and updates look the same, and a row is an upsert"
        ),
    ] = True
    only_output_updated_columns: Annotated[bool, Meta(description="`p` has only the columns that changed")] = False
    delete_only_output_handle_key_columns: HandleKeyDeletes = False
    max_message_bytes: MessageBytes = 10_485_760
    max_batch_size: Annotated[int, Meta(description="maximum number of rows in a Kafka message")] = 16
    large_message_handle_option: LargeMessages = "none"
    large_message_handle_compression: Annotated[
        str, Meta(description="compression of each row and DDL value: none, snappy, lz4")
    ] = "none"
    claim_check_storage_uri: ClaimCheckStorage = None
    claim_check_max_bytes: ClaimCheckBytes = 268_435_456
    max_inflated_bytes: InflatedBytes = 268_435_456
    legacy_v4: Annotated[
        bool, Meta(description="CHAR, VARCHAR, BINARY and VARBINARY are base64, as TiCDC wrote them before v4.0.5")
    ] = False
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
        check_storage(self.large_message_handle_option, self.claim_check_storage_uri)
        self.check_dispatching()

    @property
    def claim_checks(self) -> base.ClaimChecks | None:
        """See `base.Options`."""
        uri = self.claim_check_storage_uri
        return base.ClaimChecks(uri, self.claim_check_max_bytes) if uri else None
