"""The kernel against the reference on rows of every type, as hypothesis makes them up."""

from __future__ import annotations

import json
import math
import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.ticdc.go_quote import quote
from tests.examples import large_examples
from tests.kernel.agreement import Both, framed, made

JSON = st.SearchStrategy[str]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _integers(low: int, high: int) -> JSON:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high])).map(str)


def _temporal(pattern: str) -> Callable[[int], JSON]:
    def texts(digits: int) -> JSON:
        fraction = st.integers(0, 10**digits - 1).map(lambda n: f".{n:0{digits}}" if digits else "")
        moments = st.datetimes().map(lambda moment: f"{moment:%m-%d %H:%M:%S}" if "H" in pattern else f"{moment:%m-%d}")
        years = st.integers(1, 9999).map(lambda year: f"{year:04}")
        return st.builds(lambda y, m, f: f'"{y}-{m}{f if "H" in pattern else ""}"', years, moments, fraction)

    return texts


_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
_decimals = st.builds(
    lambda sign, whole, places: f'"{sign}{whole}{"." + places if places else ""}"',
    st.sampled_from(["", "-"]),
    st.integers(1, 10**37),
    st.text("0123456789", max_size=30),
)
_times = st.builds(
    lambda sign, h, m, s, f: f'"{sign}{h:02}:{m:02}:{s:02}{f}"',
    st.sampled_from(["", "-"]),
    st.integers(0, 838),
    st.integers(0, 59),
    st.integers(0, 59),
    st.sampled_from(["", ".0", ".123456"]),
)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_blobs = st.binary(max_size=30)
_base64 = _blobs.map(lambda data: f'"{b64encode(data).decode()}"')
_base64_text = _texts.map(lambda text: f'"{b64encode(text.encode()).decode()}"')
_vectors = st.lists(_float32.map(repr), max_size=4).map(lambda items: f'"[{",".join(items)}]"')

# t, f, and values; what depends on the digits of a fraction takes them as an argument.
TYPES: list[tuple[int, int, JSON | Callable[[int], JSON]]] = [
    (1, 65, _integers(-128, 127)),
    (1, 193, _integers(0, 255)),
    (2, 65, _integers(-(2**15), 2**15 - 1)),
    (2, 193, _integers(0, 2**16 - 1)),
    (3, 65, _integers(-(2**31), 2**31 - 1)),
    (3, 193, _integers(0, 2**32 - 1)),
    (8, 65, _integers(-(2**63), 2**63 - 1)),
    (8, 193, _integers(0, 2**64 - 1)),
    (9, 65, _integers(-(2**23), 2**23 - 1)),
    (9, 193, _integers(0, 2**24 - 1)),
    (13, 193, _integers(0, 2155)),
    (16, 193, _integers(0, 2**64 - 1)),
    (247, 64, _integers(0, 2**16 - 1)),
    (248, 64, _integers(0, 2**64 - 1)),
    (4, 65, _float32.map(repr)),
    (5, 65, st.floats(allow_nan=False, allow_infinity=False).map(repr)),
    (246, 65, _decimals),
    (10, 65, _temporal("day")),
    (14, 65, _temporal("day")),
    (12, 65, _temporal("H")),
    (7, 65, _temporal("H")),
    (11, 65, _times),
    (245, 65, _texts.map(_quoted)),
    (15, 64, _texts.map(_quoted)),
    (253, 64, _texts.map(json.dumps)),
    (254, 64, _texts.map(_quoted)),
    (15, 65, _blobs.map(lambda data: _quoted(quote(data)))),
    (254, 65, _texts.map(lambda text: json.dumps(quote(text.encode())))),
    *((t, 64, _base64_text) for t in (249, 250, 251, 252)),
    *((t, 65, _base64) for t in (249, 250, 251, 252)),
    (225, 65, _vectors),
]
# What some type has its own opinion on, given to every type.
ODD = st.sampled_from(
    [
        "-0",
        "1e2",
        "1.0",
        "true",
        "[]",
        '""',
        '"0000-00-00"',
        '"2026-02-30 00:00:00"',
        '"-0"',
        '"\\ud800"',
        '"/w=="',
        '"A"',
    ]
)


@dataclass(frozen=True)
class Table:
    """Columns and the digits that their fractions have."""

    columns: tuple[tuple[str, int], ...]
    digits: int

    def image(self, data: st.DataObject, odd: bool) -> str:
        """An image as JSON, with values drawn for its columns."""
        members = []
        for name, number in self.columns:
            t, f, values = TYPES[number]
            values = values(self.digits) if callable(values) else values
            value = data.draw(
                st.one_of(values, st.just("null"), ODD) if odd else st.one_of(values, values, st.just("null"))
            )
            members.append(f'{_quoted(name)}:{{"t":{t},"f":{f},"v":{value}}}')
        return "{" + ",".join(members) + "}"


_names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
_numbers = st.integers(0, len(TYPES) - 1)
tables = st.builds(
    Table,
    st.lists(st.tuples(_names, _numbers), min_size=1, max_size=6, unique_by=lambda c: c[0]).map(tuple),
    st.integers(0, 6),
)
KEYS = [
    '{"ts":463267594595935302,"scm":"shop","tbl":"t","rid":-7,"t":1}',
    '{"ts":18446744073709551615,"scm":"shop","tbl":"t","ptn":3,"t":1}',
    '{"ts":0,"scm":"shop","tbl":"t","rid":1,"ptn":0,"t":1}',
    '{"ts":1,"scm":"shop","tbl":"t","t":1}',
    '{"ts":1,"scm":"shop","tbl":"t","t":1,"ptn":9223372036854775807}',
    '{"ts":1,"scm":"shop","tbl":"t","t":1,"ohk":true}',
]


def _message(data: st.DataObject, table: Table, odd: bool) -> tuple[bytes, bytes]:
    key = data.draw(st.sampled_from(KEYS if odd else KEYS[:-1]))
    kind = data.draw(st.sampled_from(["u", "up", "d"]))
    value = ",".join(f'"{image}":{table.image(data, odd)}' for image in kind)
    return key.encode(), f"{{{value}}}".encode()


@large_examples(100)
@given(data=st.data(), table=tables, odd=st.booleans(), upsert=st.booleans())
def test_kernel_and_reference_agree_on_any_row(data: st.DataObject, table: Table, odd: bool, upsert: bool) -> None:
    both = Both(output_old_value=not upsert)
    records = [framed([_message(data, table, odd) for _ in range(count)]) for count in (1, 3, 2)]
    batch = made(records)
    both.decode(batch)
    first = both.unmatched
    both.decode(batch)
    if not odd:
        assert both.unmatched == first, "regular rows must be the kernel's once their shape is known"


@pytest.mark.parametrize("zone", ["UTC", "+08:00", "-03:30", "Asia/Shanghai", "America/New_York"])
def test_timestamps_come_out_the_same_in_zone(zone: str) -> None:
    both = Both(time_zone=zone)
    texts = [
        "2026-01-02 03:04:05",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59",
        "2026-03-08 02:30:00",
        "0000-00-00 00:00:00",
    ]
    batch = made([framed([(KEYS[3].encode(), b'{"u":{"a":{"t":7,"f":1,"v":"%b"}}}' % t.encode())]) for t in texts])
    both.decode(batch)
    before = both.unmatched
    both.decode(batch)
    assert both.unmatched - before == (len(texts) if "/" in zone else {"UTC": 1, "+08:00": 2, "-03:30": 2}[zone])


def test_float32_text_half_way_between_two_values_is_rounded_once() -> None:
    low = struct.unpack("<f", struct.pack("<f", 1.1))[0]
    high = math.nextafter(low, 2)
    texts = [
        f"{low + (high - low) / 2!r}",
        "1.00000017881393432617187500001",
        "1.00000017881393432617187499999",
        "3.4028235677973366e38",
    ]
    both = Both()
    batch = made([framed([(KEYS[3].encode(), b'{"u":{"a":{"t":4,"f":1,"v":%b}}}' % t.encode())]) for t in texts])
    both.decode(batch)
    both.decode(batch)
