"""What the layers above read of an origin is what the protocols write there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.protocols import origin


@pytest.mark.parametrize(
    "said, mark",
    [({}, None), ({"snapshot": False}, None), ({"snapshot": True}, "true"), ({"snapshot": "last"}, "last")],
)
def test_the_mark_of_a_snapshot(said: dict[str, object], mark: str | None) -> None:
    event = SchemaChange("create", "shop", "orders", "CREATE TABLE …", Place("t", 0, 0), origin=said)
    assert origin.snapshot_mark(event) == mark
    again = SchemaChange("create", "shop", "orders", "…", Place("t", 0, 0), origin=origin.with_snapshot_mark(mark))
    assert origin.snapshot_mark(again) == mark


def test_marks_of_rows() -> None:
    texts = pa.array(['{"snapshot":"first_in_data_collection"}', '{"snapshot":true}', '{"file":"b.1"}', None])
    assert origin.snapshot_marks(texts).to_pylist() == ["first_in_data_collection", "true", None, None]


def test_rows_that_came_with_their_key_alone() -> None:
    texts = pa.array(['{"ohk":true}', '{"ohk":false}', None, '{"a":1,"ohk":true}'])
    found = origin.key_only(texts)
    assert found is not None
    assert found.to_pylist() == [True, False, False, True]
    for none in (["{}", None], [None], []):
        assert origin.key_only(pa.array(none, pa.string())) is None
