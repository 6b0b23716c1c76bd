"""Pages of the ledger's history: what they carry, and pages of earlier versions."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from changefeed.pipeline.state import Counts
from changefeed.pipeline.store.base import Cut, Pinned
from changefeed.pipeline.store.entries import sealed
from changefeed.pipeline.store.pages import Page, content_of, page_file

CUT = Cut(
    3, 7, datetime(2026, 1, 1, tzinfo=UTC), 60, "gtid:1", {"a.t": Pinned("a/t", 4, False)}, Counts(1, 2, 3), ("a/x",)
)


def test_a_cut_keeps_its_time() -> None:
    cuts = [replace(CUT, time=1_767_225_600_123), replace(CUT, step=8)]
    assert content_of(page_file("id", "before", cuts), "id", Page(7, 8), "ledger").cuts == cuts


def test_a_page_of_a_version_without_times_is_read() -> None:
    counts = msgspec.to_builtins(CUT.counts)
    row = [3, 7, CUT.at, 60, "gtid:1", {"a.t": ["a/t", 4, False]}, [], counts, ["a/x"]]
    packed = base64.b64encode(gzip.compress(msgspec.json.encode([row]), mtime=0)).decode()
    data = sealed(msgspec.json.encode({"ledger": "id", "before": "before", "cuts": packed}))
    assert content_of(data, "id", Page(7, 7), "ledger").cuts == [CUT]
