"""Bombs of ticdc-avro."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocols.conformance.bombs import Bomb, avro


def bombs() -> Iterator[Bomb]:
    """The bombs of any protocol in Avro."""
    yield from avro("ticdc-avro")
