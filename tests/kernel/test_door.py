"""The choice between kernel and reference, and the warnings about it."""

from __future__ import annotations

import logging
from importlib import metadata
from typing import cast

import pyarrow as pa
import pytest

from changefeed.codec import decoding, defects
from changefeed.codec.kernel_decoder import KernelDecoder
from changefeed.codec.record_groups import GroupDecoder
from changefeed.errors import ConfigError
from changefeed.model.batch import record_batch
from changefeed.protocols import PROTOCOLS, protocol
from tests.kernel.agreement import NAMES, Both, framed, history, made
from tools import name_kernel

KEY = b'{"ts":1,"scm":"shop","tbl":"%b","t":1}'
VALUE = b'{"u":{"id":{"t":8,"h":true,"f":11,"v":7},"at":{"t":12,"f":65,"v":%b}}}'


def rows(*values: bytes, table: bytes = b"t") -> list[tuple[bytes, bytes]]:
    return [framed([(KEY % table, VALUE % value)]) for value in values]


@pytest.mark.parametrize("options", [{}, {"time-zone": "Asia/Shanghai"}, {"output-old-value": "false"}])
def test_kernel_and_reference_work_together(options: dict[str, str]) -> None:
    assert isinstance(decoding.decoder("ticdc-open", options), KernelDecoder)


@pytest.mark.parametrize("options", [{"large-message-handle-compression": "lz4"}, {"legacy-v4": "true"}])
def test_values_that_are_not_plain_json_are_decoded_by_the_reference(options: dict[str, str]) -> None:
    assert not isinstance(decoding.decoder("ticdc-open", options), KernelDecoder)
    with pytest.raises(ConfigError) as caught:
        decoding.decoder("ticdc-open", options, kernel="on")
    assert str(caught.value) == "the kernel has no decoder for ticdc-open with these options"


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if protocol(name).kernel is not None])
def test_declared_twin_is_a_class_of_the_kernel(name: str) -> None:
    chosen = protocol(name)
    assert chosen.kernel is not None
    call = chosen.kernel.call(chosen.read_options({}))
    assert call is not None
    assert hasattr(decoding.changefeed_kernel, call[0])
    assert issubclass(cast(type, chosen.decoder), GroupDecoder) == chosen.kernel.record_groups


def test_off_is_the_reference_alone() -> None:
    chosen = decoding.decoder("ticdc-open", kernel="off")
    assert isinstance(chosen, defects.GuardedDecoder)
    assert not isinstance(chosen, KernelDecoder)


def test_without_the_kernel_the_reference_decodes_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decoding, "changefeed_kernel", None)
    decoding._warn_slow.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert not isinstance(decoding.decoder("ticdc-open"), KernelDecoder)
        assert not isinstance(decoding.decoder("ticdc-open"), KernelDecoder)
        decoding.decoder("ticdc-open", kernel="off")
    assert caplog.messages == [
        "the kernel is not installed, decoding in Python is about 100 times slower: run `pip install ./kernel` in a checkout of "
        "changefeed (needs cargo)"
    ]
    with pytest.raises(ConfigError) as caught:
        decoding.decoder("ticdc-open", kernel="on")
    assert (
        str(caught.value)
        == "the kernel is not installed: run `pip install ./kernel` in a checkout of changefeed (needs cargo)"
    )


def test_a_release_names_the_wheel_that_it_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["pyarrow>=20", name_kernel.requirement("1.2.3"), "pyspark>=4.0; extra == 'spark'"]
    monkeypatch.setattr(metadata, "requires", lambda _: required)
    assert decoding.how_to_install() == "run `pip install changefeed-kernel==1.2.3`"


def test_sources_without_an_installation_name_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", not_installed)
    assert decoding.how_to_install() == "run `pip install ./kernel` in a checkout of changefeed (needs cargo)"


def test_an_unknown_option_is_an_error_here_too() -> None:
    with pytest.raises(ConfigError, match='unknown option of ticdc-open "time-zoen"'):
        decoding.decoder("ticdc-open", {"time-zoen": "UTC"})


def test_a_null_joins_the_first_shape_whatever_came_before_it() -> None:
    both = Both()
    plain, milli = b'"2026-01-02 03:04:05"', b'"2026-01-02 03:04:05.100"'
    both.decode(made(rows(milli)))
    both.decode(made(rows(plain, b"null", milli)))
    both.decode(made(rows(plain, b"null", milli, b"null", plain)))
    assert both.unmatched == 2


def test_malformed_records_go_to_the_reference() -> None:
    both = Both()
    good = rows(b"null")[0]
    both.decode(made([(None, None), (good[0], None), (None, good[1]), (b"", b""), (good[0][:8], b""), good]))
    both.decode(made([]))


def test_batches_with_long_offsets_are_read_as_they_are() -> None:
    records = record_batch(history(NAMES[0])[:100])
    large = records.set_column(0, "key", records["key"].cast(pa.large_binary()))
    large = large.set_column(1, "value", records["value"].cast(pa.large_binary()))
    pair = decoding.decoder("ticdc-open", kernel="on")
    for _ in range(2):
        changes, expected = pair.decode(large), decoding.decoder("ticdc-open", kernel="off").decode(records)
        assert [t.rows.to_pylist() for t in changes.tables] == [t.rows.to_pylist() for t in expected.tables]


def test_a_sliced_batch_is_its_own_rows() -> None:
    records, both = record_batch(history(NAMES[1])), Both()
    both.decode(records.slice(100, 900))
    assert sum(map(len, both.decode(records.slice(700, 150)).tables)) > 100


def test_shapes_above_the_limit_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defects, "MAX_SHAPES", 10)
    both = Both()
    for at in range(40):
        both.decode(made(rows(b"null", table=b"t%d" % at)))
    assert isinstance(both.pair, KernelDecoder)
    assert both.unmatched == 40
    both.decode(made(rows(b"null", table=b"t39")))
    assert both.unmatched == 40
    both.decode(made(rows(b"null", table=b"t0")))
    assert both.unmatched == 41


def test_the_shape_of_a_new_table_is_registered_from_its_first_record() -> None:
    both = Both()
    both.decode(made(rows(*[b"null"] * 5000)))
    assert both.unmatched == 1


def test_each_of_many_topics_takes_one_record_to_the_reference() -> None:
    """Also behind a topic of which the reference reads everything."""
    both, marks, tables = Both(), 700, 20
    topics = ["marks"] * marks + [f"t{number}" for number in range(tables) for _ in range(100)]
    records = [framed([(b'{"ts":%d,"t":3}' % at, b"")]) for at in range(marks)]
    for number in range(tables):
        records += rows(*[b"null"] * 100, table=b"t%d" % number)
    batch = made(records)
    both.decode(batch.set_column(2, "topic", pa.array(topics)))
    assert both.unmatched == marks + tables
