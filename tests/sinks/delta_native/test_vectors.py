"""Deletion vectors: the bytes of the Delta protocol are read and written, and other bytes are refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import SinkError
from changefeed.sinks.apply import bitmaps
from changefeed.sinks.apply.merge import Marked
from changefeed.sinks.delta.native import vectors
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.applying import inline

ROWS = st.lists(st.integers(0, 70_000) | st.integers(0, 2**32 + 70_000) | st.integers(0, 2**62), unique=True)

# A file that Delta 4.4.0 has written for `DELETE`, with one vector: of row 0.
BY_DELTA = base64.b64decode("AQAAACLR0zlkAQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA96a0tQ==")
ROWS_OF_SIX = [3, 4, 7, 11, 18, 29]
# From the Delta protocol: a relative path, and the file that it names.
UUID, NAME = "ab^-aqEH.-t@S}K{vb[*k^", "d2c639aa-8816-431a-aaf6-d3fe2512ff61"


def rows(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


@given(ROWS)
def test_a_vector_reads_as_it_was_written(numbers: list[int]) -> None:
    assert bitmaps.decoded(bitmaps.encoded(rows(*numbers))).tolist() == sorted(numbers)


def test_the_bytes_are_those_of_delta(tmp_path: Path) -> None:
    _, content, [descriptor] = vectors.in_a_file([(bitmaps.encoded(rows(0)), 1)])
    assert content == BY_DELTA
    assert {**descriptor, "pathOrInlineDv": ""} == {
        "storageType": "u", "pathOrInlineDv": "", "offset": 1, "sizeInBytes": 34, "cardinality": 1
    }  # fmt: skip


def test_a_vector_within_the_log_is_read(tmp_path: Path) -> None:
    [descriptor] = inline(LocalFolder(""), [Marked("a", 99, 6, bitmaps.encoded(rows(*ROWS_OF_SIX)))])
    assert vectors.read(LocalFolder(str(tmp_path)), descriptor).tolist() == ROWS_OF_SIX


def test_the_file_names_of_the_protocol() -> None:
    descriptor = {"storageType": "u", "pathOrInlineDv": UUID, "offset": 4, "sizeInBytes": 40, "cardinality": 6}
    assert vectors.path_of(descriptor) == f"ab/deletion_vector_{NAME}.bin"
    whole = {**descriptor, "storageType": "p", "pathOrInlineDv": f"file:///a%20b/deletion_vector_{NAME}.bin"}
    assert vectors.path_of(whole) == f"/a b/deletion_vector_{NAME}.bin"


@given(st.binary())
def test_z85(data: bytes) -> None:
    text = vectors.z85(data)
    assert vectors.from_z85(text) == data + b"\x00" * (-len(data) % 4)
    assert text == json.loads(json.dumps(text))


def test_many_vectors_are_in_one_file(tmp_path: Path) -> None:
    wanted = [rows(0), rows(5, 6, 2**33), rows(*range(100_000))]
    name, content, descriptors = vectors.in_a_file([(bitmaps.encoded(r), len(r)) for r in wanted])
    (tmp_path / name).write_bytes(content)
    for descriptor, numbers in zip(descriptors, wanted, strict=True):
        assert vectors.path_of(descriptor) == name
        assert vectors.read(LocalFolder(str(tmp_path)), descriptor).tolist() == numbers.tolist()


def test_a_damaged_file_is_never_read_as_a_vector(tmp_path: Path) -> None:
    vector = bitmaps.encoded(rows(1, 2, 70_000))
    name, content, [descriptor] = vectors.in_a_file([(vector, 3)])
    for place in range(len(content)):
        (tmp_path / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(SinkError, match="a deletion vector of the table cannot be read"):
            vectors.read(LocalFolder(str(tmp_path)), descriptor)
        (tmp_path / name).write_bytes(content[:place])
        with pytest.raises(SinkError, match="a deletion vector of the table cannot be read"):
            vectors.read(LocalFolder(str(tmp_path)), descriptor)
    (tmp_path / name).unlink()
    with pytest.raises(SinkError, match="does not exist"):
        vectors.read(LocalFolder(str(tmp_path)), descriptor)


@pytest.mark.parametrize(
    "change, why",
    [
        ({"pathOrInlineDv": "wi5b"}, "is not Z85"),
        ({"pathOrInlineDv": "wi5b~"}, "is not Z85"),
        ({"storageType": "x"}, "storageType is 'x'"),
        ({"cardinality": 7}, "holds 6 rows, not 7"),
        ({"sizeInBytes": 2}, "not with the magic number"),
        ({"sizeInBytes": 30}, "Could not deserialize bitmap"),
    ],
)
def test_a_wrong_descriptor_is_refused(change: dict[str, Any], why: str) -> None:
    [descriptor] = inline(LocalFolder(""), [Marked("a", 99, 6, bitmaps.encoded(rows(*ROWS_OF_SIX)))])
    with pytest.raises(SinkError, match=why):
        vectors.read(LocalFolder("/table"), descriptor | change)
