"""A folder with pipelines of every kind, and a client of the page over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.monitor import pipelines
from tests.monitor.site import Site


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipelines: `orders` runs and has dead letters, `plain` has no definition, `damaged` and `broken` cannot be read."""
    root = tmp_path_factory.mktemp("lake")
    for name in ("orders", "plain", "damaged", "bad"):
        (root / name).mkdir()
    pipelines.write(root / "orders", "orders", 250)
    pipelines.beat(root / "orders", "orders")
    pipelines.dead(root / "orders", [pipelines.letter(n) for n in range(1, 151)])
    pipelines.define(root / "orders", "orders", "storage: {secret-access-key: very-secret-words}\n")
    pipelines.write(root / "plain", "plain", 30)
    pipelines.write(root / "damaged", "damaged", 2)
    for path in (root / "damaged/_changefeed/ledger/log").iterdir():
        path.write_text("{")
    (root / "bad/broken.yaml").write_text("source: {}\nsink: {}\n")
    (root / "bad/other.yaml").write_text("services: {}\n")
    return root


@pytest.fixture(scope="module")
def site(lake: Path) -> Iterator[Site]:
    """The page over these pipelines."""
    with Site([str(lake)], actions=True) as opened:
        yield opened
