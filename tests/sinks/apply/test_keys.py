"""Keys of every type are found among others: if the filter kept one back, the row of an updated key would be there twice."""

from __future__ import annotations

import decimal
import random
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changefeed.sinks.apply.keys import Keys

_MAKE: dict[str, tuple[pa.DataType, Any]] = {
    "tinyint": (pa.int8(), lambda n: n % 256 - 128),
    "int": (pa.int32(), lambda n: n - 300),
    "bigint": (pa.int64(), lambda n: (n - 300) * 3_037_000_493_123),
    "bigint unsigned": (pa.decimal128(20, 0), lambda n: decimal.Decimal(n * 36_893_488_147_419_103)),
    "decimal": (pa.decimal128(38, 4), lambda n: decimal.Decimal(n - 300).scaleb(-4)),
    "date": (pa.date32(), lambda n: date(1970, 1, 1) + timedelta(days=n - 300)),
    "timestamp": (pa.timestamp("us"), lambda n: datetime(1999, 12, 31) + timedelta(microseconds=n * 7_000_001)),
    "string": (pa.string(), lambda n: "é" * (n % 3) + str(n)),
    "double": (pa.float64(), lambda n: (n - 300) / 8 if n != 300 else -0.0),
}


def column(name: str, numbers: list[int | None]) -> pa.ChunkedArray:
    kind, make = _MAKE[name]
    array = pa.array([None if n is None else make(n) for n in numbers], kind)
    cut = random.randint(0, len(array))
    return pa.chunked_array([pa.concat_arrays([pa.nulls(3, kind), array[:cut]])[3:], array[cut:]], kind)


def value(names: tuple[str, ...], key: tuple[int | None, ...]) -> Any:
    return tuple(_MAKE[name][1](number) for name, number in zip(names, key, strict=True))


@pytest.mark.parametrize(
    "names", [*((name,) for name in _MAKE), ("bigint", "string"), ("string", "date", "decimal")], ids="-".join
)
def test_places_are_those_of_a_dictionary(names: tuple[str, ...]) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    random.seed(seed)
    for size in (0, 1, 90):
        numbers = random.sample(range(256 if len(names) == 1 else 600), size)
        mine = [tuple(n * (i + 1) % 600 for i in range(len(names))) for n in numbers]
        asked: list[tuple[int | None, ...]] = [tuple(random.randrange(600) for _ in names) for _ in range(500)]
        asked += [tuple(None if random.random() < 0.1 else n for n in random.choice(mine)) for _ in range(300) if mine]
        random.shuffle(asked)
        known = Keys([column(name, [key[i] for key in mine]) for i, name in enumerate(names)])
        where = {value(names, key): place for place, key in enumerate(mine)}
        wanted = [-1 if None in key else where.get(value(names, key), -1) for key in asked]
        columns = [column(name, [key[i] for key in asked]) for i, name in enumerate(names)]
        assert known.find(columns).tolist() == wanted
        near = known.near([one.combine_chunks() for one in columns])
        assert near is None or {row for row, place in enumerate(wanted) if place >= 0} <= set(near.tolist())
        assert (near is None) == all(name in ("string", "double") for name in names)
        assert size == 0 or any(place >= 0 for place in wanted)


def test_few_rows_of_other_keys_pass_the_filter() -> None:
    random.seed(7)
    mine, others = np.array(random.sample(range(10**6), 1000)), np.arange(10**6, 2 * 10**6)
    near = Keys([pa.chunked_array([pa.array(mine)])]).near([pa.array(others)])
    assert near is not None
    assert len(near) < len(others) / 20


def test_null_matches_nothing() -> None:
    with_null = pa.chunked_array([pa.array([None, 7], pa.int64())])
    assert Keys([with_null]).find([pa.chunked_array([pa.array([0, 7, None], pa.int64())])]).tolist() == [-1, 1, -1]


def test_a_column_of_nulls_and_a_column_without_rows_have_the_same_filter() -> None:
    nulls, empty = pa.nulls(5, pa.int64()), pa.array([], pa.int64())
    assert Keys([pa.chunked_array([empty])]).find([pa.chunked_array([nulls])]).tolist() == [-1] * 5
    assert Keys([pa.chunked_array([nulls[:1]])]).find([pa.chunked_array([empty])]).tolist() == []
