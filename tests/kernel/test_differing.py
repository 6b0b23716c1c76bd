"""The comparison itself notices every difference between two decoders."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from changefeed.codec.decoding import decoder
from changefeed.model.batch import Decoded
from changefeed.model.event import Heartbeat
from changefeed.model.position import Place
from tests.kernel.agreement import made
from tests.kernel.differing import difference, same

NAN, OTHER_NAN = float("nan"), pa.array([0x7FF8000000000001], pa.uint64()).view(pa.float64())


def _decoded(*rows: tuple[bytes | None, bytes]) -> Decoded:
    return decoder("debezium-mysql", kernel="off").decode(made(rows))


@pytest.mark.parametrize(
    "key, image",
    [
        (b'{"id":1}', b'{"id":1,"at":2.0}'),  # a value
        (b'{"id":1}', b'{"id":1,"at":"x"}'),  # a type
        (b'{"at":1.5}', b'{"id":1,"at":1.5}'),  # the key
        (b'{"id":1}', b'{"at":1.5,"id":1}'),  # the order of columns
        (b'{"id":1}', b'{"id":1,"at":"__debezium_unavailable_value"}'),  # which columns the image carries
        (b'{"id":1}', b'{"id":1,"at":null}'),
        (b'{"id":1}', b"[]"),  # a dead letter
    ],
)
def test_every_part_of_a_table_is_compared(key: bytes, image: bytes) -> None:
    value = b'{"before":null,"after":%b,"source":{"db":"d","table":"t"},"op":"c"}'
    one = _decoded((b'{"id":1}', value % b'{"id":1,"at":1.5}'))
    assert difference(one, one) is None
    assert difference(one, _decoded((key, value % image))) is not None


def test_nan_is_nan() -> None:
    assert math.isnan(NAN)
    block = b'{"type":"struct","fields":[%b,%b,{"type":"struct","fields":[%b,%b],"field":"source"},%b]}'
    row = b'{"type":"struct","fields":[{"type":"double","field":"v"}],"optional":true,"field":"%b"}'
    text = b'{"type":"string","field":"%b"}'
    schema = block % (row % b"before", row % b"after", text % b"db", text % b"table", text % b"op")
    payload = b'{"before":null,"after":{"v":"NaN"},"source":{"db":"d","table":"t"},"op":"c"}'
    record = (None, b'{"schema":%b,"payload":%b}' % (schema, payload))
    changes = _decoded(record)
    assert math.isnan(changes.tables[0].rows.column("after")[0].as_py()["v"])
    assert difference(changes, _decoded(record)) is None


@pytest.mark.parametrize(
    "one, other, agree",
    [
        ([1.5, None], [1.5, None], True),
        ([NAN], [NAN], True),
        ([0.0], [-0.0], False),
        ([1.5], [None], False),
        ([NAN], OTHER_NAN, False),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["array", "struct"])
def test_floating_point_numbers_are_compared_by_their_bits(
    one: object, other: object, agree: bool, wrapped: bool
) -> None:
    arrays = [values if isinstance(values, pa.Array) else pa.array(values, pa.float64()) for values in (one, other)]
    if wrapped:
        arrays = [pa.StructArray.from_arrays([pa.array(range(len(a))), a], names=["id", "v"]) for a in arrays]
    assert same(*arrays) is agree


def test_missing_image_is_not_an_image_of_nulls() -> None:
    kind = pa.struct([("v", pa.float64())])
    assert not same(pa.array([None], kind), pa.array([{"v": None}], kind))


@pytest.mark.parametrize("one, other", [(1, True), (1, 1.0), ([1], [True]), ({"a": 0.0}, {"a": -0.0})])
def test_types_in_an_origin_are_compared(one: object, other: object) -> None:
    beats = [Decoded(control=[Heartbeat(Place("t", 0, 1), origin={"epoch": epoch})]) for epoch in (one, other)]
    assert difference(*beats) is not None
