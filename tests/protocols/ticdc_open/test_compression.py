"""Compressed values: read with the option, LZ4 also without it; limited in size; wrong settings are named."""

from __future__ import annotations

import lz4.frame
import pytest
import snappy

from changefeed.errors import ConfigError, ProtocolError
from changefeed.wire.compression import deflate, inflate
from tests.protocols.ticdc_open.messages import OPEN, decode, encode, errors, insert, key, record, rows

DDL = (b'{"ts":1,"scm":"shop","tbl":"t","t":2}', b'{"q":"x","t":0}')
RESOLVED = (b'{"ts":1,"t":3}', b"")


def compressed(name: str, data: bytes) -> bytes:
    return bytes(snappy.compress(data)) if name == "snappy" else bytes(lz4.frame.compress(data))


@pytest.mark.parametrize("name", ["snappy", "lz4"])
def test_values_are_compatible_with_other_libraries(name: str) -> None:
    sent = record((key(), compressed(name, insert())), (DDL[0], compressed(name, DDL[1])), RESOLVED)
    changes = decode(sent, large_message_handle_compression=name)
    assert errors(changes) == []
    assert len(rows(changes)) == 1
    assert len(changes.control) == 2
    theirs = {"snappy": snappy.decompress, "lz4": lz4.frame.decompress}[name]
    assert theirs(deflate(insert(), name)) == insert()


@pytest.mark.parametrize("name", ["snappy", "lz4"])
def test_compressed_values_are_read_back(name: str) -> None:
    changes = decode(record((key(), insert())), record(DDL), record(RESOLVED))
    written = encode(changes, large_message_handle_compression=name)
    again = decode(*written.to_pylist(), large_message_handle_compression=name)
    assert (len(rows(again)), len(again.control), errors(again)) == (1, 2, [])
    assert written.column("value")[2].as_py() == bytes(8)


def test_lz4_is_recognized_without_the_option() -> None:
    assert len(rows(decode(record((key(), compressed("lz4", insert())))))) == 1


def test_plain_values_under_the_option_name_it() -> None:
    (error,) = errors(decode(record((key(), insert())), large_message_handle_compression="snappy"))
    assert error.startswith("ticdc-open: value is not snappy (")
    assert error.endswith('). Is "large-message-handle-compression" right? at byte 8 (orders:3:118204)')


@pytest.mark.parametrize("name", ["snappy", "lz4"])
def test_a_value_that_inflates_above_the_limit_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        inflate(compressed(name, bytes(100_000)), name, 99_999)
    assert (str(caught.value), caught.value.reason) == ("value inflates to more than 99999 bytes", "too-large")
    assert inflate(compressed(name, bytes(100_000)), name, 100_000) == bytes(100_000)


def test_a_forged_length_is_refused_before_memory_is_reserved() -> None:
    with pytest.raises(ProtocolError) as caught:
        inflate(b"\xff\xff\xff\x7f\x00", "snappy", 2**40)
    assert str(caught.value) == (
        'value is not snappy (5 bytes cannot grow to 268435455). Is "large-message-handle-compression" right?'
    )


@pytest.mark.parametrize("name", ["snappy", "lz4"])
def test_a_cut_or_longer_value_is_refused(name: str) -> None:
    whole = compressed(name, insert())
    for damaged in [whole[:at] for at in range(len(whole))] + [whole + b"x"]:
        with pytest.raises(ProtocolError):
            inflate(damaged, name, 10_000)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        OPEN.read_options({"large-message-handle-compression": "zstd"})
    assert str(caught.value) == (
        "large message handle compression is not supported, got zstd; known: none, snappy, lz4"
    )
