"""Partitions of a recording made with `index-value` over three partitions, computed again."""

from __future__ import annotations

from datetime import UTC

from changefeed.wire.dispatch import Dispatcher
from tests.protocols.conformance.cases import decode, histories
from tests.protocols.ticdc_open.messages import rows

RECORDED = next(h for h in histories() if h.file.endswith("open-3.newarch.jsonl.gz"))


def test_every_row_lies_where_the_dispatcher_would_put_it() -> None:
    dispatcher = Dispatcher("index-value", 3, (), None, UTC)
    found = rows(decode(RECORDED))
    images = [(row, row.before if row.after is None else row.after) for row in found]
    wrong = [
        str(row.place)
        for row, image in images
        if dispatcher.partition(row.shape, image or {}, row.irregular, row.commit_ts or 0) != row.place.partition
    ]
    assert (len(found), wrong) == (4629, [])
