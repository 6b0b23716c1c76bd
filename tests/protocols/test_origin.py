"""The members of an origin that the layers above read are those that the protocols write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from changefeed.frames.payloads import schema_from_dict, schema_to_dict
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.protocols import origin


@pytest.mark.parametrize(
    "members, mark",
    [({}, None), ({"snapshot": False}, None), ({"snapshot": True}, "true"), ({"snapshot": "last"}, "last")],
)
def test_the_mark_of_a_snapshot(members: dict[str, object], mark: str | None) -> None:
    event = SchemaChange("create", "shop", "orders", "CREATE TABLE …", Place("t", 0, 0), origin=members)
    assert origin.snapshot_mark(event) == mark
    again = SchemaChange("create", "shop", "orders", "…", Place("t", 0, 0), origin=origin.with_snapshot_mark(mark))
    assert origin.snapshot_mark(again) == mark


@pytest.mark.parametrize(
    "members, server",
    [
        ({}, None),
        ({"connector": "mysql"}, "mysql"),
        ({"sourceType": 1, "seqId": 7}, "mysql"),
        ({"sourceType": 3}, "mariadb"),
        ({"sourceType": 2}, None),
        ({"sourceType": []}, None),
    ],
)
def test_the_server_of_a_schema_change(members: dict[str, object], server: str | None) -> None:
    event = SchemaChange("create", "shop", "orders", "CREATE TABLE …", Place("t", 0, 0), origin=members)
    assert origin.connector(event) == server
    assert origin.connector(schema_from_dict(schema_to_dict(event))) == server


def test_marks_of_rows() -> None:
    texts = pa.array(['{"snapshot":"first_in_data_collection"}', '{"snapshot":true}', '{"file":"b.1"}', None])
    assert origin.snapshot_marks(texts).to_pylist() == ["first_in_data_collection", "true", None, None]


def test_rows_that_came_with_their_key_alone() -> None:
    texts = pa.array(['{"ohk":true}', '{"ohk":false}', None, '{"a":1,"ohk":true}'])
    flags = origin.key_only(texts)
    assert flags is not None
    assert flags.to_pylist() == [True, False, False, True]
    for none in (["{}", None], [None], []):
        assert origin.key_only(pa.array(none, pa.string())) is None
