"""The pipeline asks sources and protocols for their capabilities, and has the name of none of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import changefeed
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import ClaimChecks
from changefeed.sources import SOURCES

SRC = Path(changefeed.__file__).parent
ASKING = [*(f for name in ("pipeline", "api", "stages") for f in (SRC / name).rglob("*.py")), SRC / "stores.py"]


def names_compared(file: Path) -> Iterator[str]:
    """The names of sources and protocols with which the code of a file compares something."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.Constant) and side.value in {*SOURCES, *PROTOCOLS}:
                    yield f"{file.name}:{node.lineno} {side.value}"


def test_the_pipeline_has_no_name_of_a_source_or_protocol() -> None:
    assert [name for file in ASKING for name in names_compared(file)] == []


@pytest.mark.parametrize("name", [n for n in PROTOCOLS if hasattr(protocol(n).options(), "claim_check_storage_uri")])
def test_options_with_a_claim_check_folder_say_so(name: str) -> None:
    options = protocol(name).options
    assert options().claim_checks is None
    named = options(claim_check_storage_uri="/claims", claim_check_max_bytes=7)
    assert named.claim_checks == ClaimChecks("/claims", 7)
