"""Measures the page of `changefeed monitor`: the first answers after its start, later ones, and those after a new step.

    python bench/monitor.py [--pipelines 50] [--tables 1000] [--steps 100000] [--out FILE]

One ledger is made as `bench/ledger.py` makes it, with a last hundred steps of all tables; the other pipelines are copies of it,
by hard links. Requests go to the application without a network. Reported are seconds by the clock: the first answer, and the
least and the most of ten later ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from starlette.testclient import TestClient

from bench.ledger import _go_on, _step
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.monitor.app import Catalog, application
from changefeed.monitor.security import Access
from changefeed.pipeline.store.files import FileStore
from changefeed.storage.local import LocalFolder

_LATER = 10
_WHOLE = 100  # steps of all tables


def main() -> None:
    """Makes the ledgers, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="changefeed-bench-monitor-"))
    try:
        lines = _measured(folder, options)
    finally:
        shutil.rmtree(folder)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


def _measured(folder: Path, options: argparse.Namespace) -> list[str]:
    columns = tuple(Column(f"column_{n}", ColumnType("bigint"), nullable=n > 0, key=n == 0) for n in range(10))
    tables = [Table("shop", f"table_{n:04}", columns, ("column_0",)) for n in range(options.tables)]
    store = FileStore(LocalFolder(f"{folder}/p00/_changefeed/ledger"), "test")
    store.claim()
    _go_on(store, options.steps - _WHOLE, tables[:10], 64)
    store.state = replace(store.state, tables={})
    for _ in range(_WHOLE):
        _step(store, tables, 64)
    for n in range(1, options.pipelines):
        shutil.copytree(folder / "p00", folder / f"p{n:02}", copy_function=os.link)

    catalog = Catalog([str(folder)])
    start = time.perf_counter()
    catalog.search()
    lines = [
        f"{options.pipelines} pipelines with {options.tables} tables and {store.step} steps; seconds",
        f"find the pipelines: {time.perf_counter() - start:.2f}",
        f"{'request':<28} {'first':>6} {'least':>6} {'most':>6}",
    ]
    client = TestClient(application(catalog, Access("127.0.0.1")), base_url="http://127.0.0.1")
    own = f"/pipelines/{next(iter(catalog.pipelines))}"
    requests = (
        "/",
        own,
        f"{own}?before={options.steps // 2}",
        f"{own}/tables",
        f"{own}/table?name=shop.table_0001",
        f"{own}/letters",
    )
    for path in requests:
        lines.append(_line(path.replace(own, "…"), lambda path=path: _get(client, catalog, path)))  # type: ignore[misc]
        print(lines[-1], flush=True)
    _step(store, tables, 64)
    start = time.perf_counter()
    _get(client, catalog, own)
    lines.append(f"… after a new step: {time.perf_counter() - start:.2f}")
    return lines


def _get(client: TestClient, catalog: Catalog, path: str) -> None:
    catalog._overview = None  # otherwise it is shown again for a second
    assert client.get(path).status_code == 200


def _line(name: str, work: Callable[[], None]) -> str:
    seconds = []
    for _ in range(_LATER + 1):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return f"{name:<28} {seconds[0]:>6.2f} {min(seconds[1:]):>6.2f} {max(seconds[1:]):>6.2f}"


if __name__ == "__main__":
    main()
