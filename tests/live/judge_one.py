"""Judges recorded histories by the product as it is: `python -m tests.live.judge_one FILE…`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.live.campaign import spark_compute
from tests.live.history import History
from tests.live.verdicts import verdict


def main(*paths: str) -> int:
    """Prints a verdict for each; 1 if one is not right."""
    worst = 0
    for path in paths:
        history = History.load(Path(path))
        its_verdict = verdict(history, spark_compute())
        print(f"{path}: {its_verdict.verdict} {its_verdict.ways}\n{its_verdict.text}")
        worst = max(worst, int(its_verdict.verdict != "RIGHT"))
    return worst


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
