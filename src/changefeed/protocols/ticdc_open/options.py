"""Options of `ticdc-open`. Names and meanings are TiCDC's own; decoder and encoder share them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

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
from changefeed.ticdc.zone import zone


class Options(Dispatching, base.Options, frozen=True):
    """The producer's settings, for decoding and encoding."""

    profile: Annotated[
        Literal["classic", "newarch"],
        Meta(description="the producer whose bytes are written; the bytes of both are read"),
    ] = "newarch"
    time_zone: Annotated[
        str, Meta(description="time zone of the text of TIMESTAMP values: the TiCDC server's `tz`")
    ] = "UTC"
    output_old_value: Annotated[
        bool,
        Meta(
            description="updates carry the old row; otherwise inserts and updates look the same, and a row is an upsert"
        ),
    ] = True
    only_output_updated_columns: Annotated[bool, Meta(description="`p` has only the columns that changed")] = False
    delete_only_output_handle_key_columns: Annotated[bool, Meta(description="deletes carry only the handle key")] = (
        False
    )
    max_message_bytes: Annotated[int, Meta(description="maximum size of a Kafka message in bytes")] = 10_485_760
    max_batch_size: Annotated[int, Meta(description="maximum number of rows in a Kafka message")] = 16
    large_message_handle_option: Annotated[
        str,
        Meta(description="what to do with rows above max-message-bytes: none (an error), handle-key-only, claim-check"),
    ] = "none"
    large_message_handle_compression: Annotated[
        str, Meta(description="compression of each row and DDL value: none, snappy, lz4")
    ] = "none"
    claim_check_storage_uri: Annotated[
        str | None, Meta(description="folder of the claim-check files, a path or any fsspec URL")
    ] = None
    claim_check_max_bytes: Annotated[
        int, Meta(description="maximum size of a claim-check file in bytes; larger files are refused")
    ] = 268_435_456
    max_inflated_bytes: Annotated[
        int, Meta(description="maximum size of a value in bytes after decompression; larger values are refused")
    ] = 268_435_456
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
