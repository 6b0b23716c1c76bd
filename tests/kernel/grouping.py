"""Kernel and reference side by side for a protocol with groups of records: tencent-dts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from changefeed.codec import decoding
from changefeed.codec.record_groups import GroupKernelDecoder
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols.base import FragmentDecoder
from tests.kernel.agreement import Both
from tests.protocols.tencent_dts.records import data_of, envelope, record


class Grouping(Both):
    """`Both` for tencent-dts; asserts that incomplete fragments are the same too."""

    def __init__(self, **options: Any) -> None:
        super().__init__("tencent-dts")
        named = {name: str(value) for name, value in options.items()}
        self.reference = decoding.decoder("tencent-dts", named, kernel="off")
        self.pair = decoding.decoder("tencent-dts", named, kernel="on")
        assert isinstance(self.pair, GroupKernelDecoder)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        changes = super().decode(records)
        assert isinstance(self.reference, FragmentDecoder)
        assert isinstance(self.pair, FragmentDecoder)
        assert self.pair.waiting().equals(self.reference.waiting())
        return changes

    def unmatched_of(self, *records: dict[str, Any]) -> int:
        """The number of these records that the reference decodes."""
        before = self.unmatched
        self.decode(record_batch(records))
        return self.unmatched - before


def counted(values: list[bytes], first: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Plain records with these values."""
    return [record(value, at, at, **more) for at, value in enumerate(values, first)]


def plain(*entries: Any) -> bytes:
    return envelope(data_of(*entries))
