"""`make demo` prints what the README and the tutorial show, in a copy of the examples, also when it runs a second time.

The pages' Python over its tables runs, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.shown import ROOT, shown
from tests.example_files import copy_examples
from tests.services.database import needed

PAGES = ("README.md", "docs/guides/tutorial.md")
RUNS = [one for page in PAGES for block in shown(page) for one in block if "changefeed run" in one.command]


def run(*command: Path | str) -> str:
    """Runs a program, which must succeed; returns its output, errors included."""
    done = subprocess.run(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("processes")
def test_the_demo_runs_the_pipeline_and_explains_a_change(tmp_path: Path) -> None:
    examples = copy_examples(tmp_path)
    left = examples / "shop" / "out" / "lake" / "left-by-an-older-run"
    left.mkdir(parents=True)
    printed = run(examples / "demo.py")
    assert not left.exists()
    assert RUNS, "the README shows a run"
    for one in RUNS:
        assert f"$ {one.command}\n" in printed
        assert one.within(printed), f"shown:\n{one.output}\nprinted:\n{printed}"
    assert "shop.orders, version" in printed
    assert "\n    id: 18446744073709000377, customer_id: 751353191477, status: shipped, priority: 3, " in printed

    (joined,) = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "docs/guides/reading.md").read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, "-c", joined], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.split()[0]) == ("", "463268005898553859")
    assert len(joined.splitlines()) <= 10


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("processes")
def test_the_demo_of_a_database_ends_with_equal_tables(tmp_path: Path) -> None:
    needed("mariadbd", "mariadb-server-core")
    examples = copy_examples(tmp_path)
    printed = run(examples / "demo_mysql.py")
    assert printed.index("ALTER TABLE orders ADD COLUMN") < printed.index("equal\n")
    assert re.search(r"(?m)^ +\d+\.\d +([0-9,]+ +[0-9,.]+) +\1\n +equal$", printed), printed
    assert ", 0 dead letters" in printed
    assert re.search(r"(?m)^\S+ \(binlog \d{6}:\d+\) +shop\.orders +\d+$", printed)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("processes")
def test_the_demo_into_iceberg_tables(tmp_path: Path) -> None:
    """`make demo SINK=iceberg`: the same rows, read by PyIceberg."""
    examples = copy_examples(tmp_path)
    printed = run(examples / "demo.py", "iceberg")
    assert "$ changefeed run examples/shop/iceberg.yaml --once\n" in printed
    assert "705 rows and 13 schema changes applied" in printed
    assert "3. The tables, read by PyIceberg" in printed
    assert "\n    id: 18446744073709000377, customer_id: 751353191477, status: shipped, priority: 3, " in printed
