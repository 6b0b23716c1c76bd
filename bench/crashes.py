"""Crashes and interleavings of runs in memory, many of them: what the tests try, with other seeds and for longer.

    python -m bench.crashes --histories 2000 --schedules 5000 --seed 7 --out bench/results/crashes.txt

A history is applied by runs each of which ends at a random failpoint; a schedule is two or three runs of one pipeline that move
from failpoint to failpoint in random order. Both are tried with each consistency. After each, the tables are compared with
the history at its end and at every cut that was published. The first difference ends the program, with the seed that
repeats it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from changefeed import telemetry
from tests.pipeline.kit.random_crashes import POINTS, crashed, interleaved

CONSISTENCIES = ("transaction", "key")


def _on_pass(function: object) -> None:
    telemetry.on_pass = function  # type: ignore[assignment]


def main() -> None:
    """Runs them all, and prints a line for each consistency."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000, help="with crashes, of each consistency")
    parser.add_argument("--schedules", type=int, default=5000, help="of runs at once, of each consistency")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--consistency", choices=CONSISTENCIES, help="one of the two alone")
    parser.add_argument("--out", type=Path, help="a file that a line is added to")
    options = parser.parse_args()
    for consistency in [options.consistency] if options.consistency else CONSISTENCIES:
        began = time.process_time()
        ended, writes, fenced = Counter[str](), Counter[str](), 0
        for number in range(options.histories):
            with _named(options.seed, consistency, "history", number) as random:
                points, operations = crashed(random, consistency, _on_pass)
            ended += points
            writes += operations
            _progress(
                f"{consistency}: history {number + 1:,} of {options.histories:,}, {sum(ended.values()):,} crashes"
            )
        for number in range(options.schedules):
            with _named(options.seed, consistency, "schedule", number) as random:
                fenced += interleaved(random, consistency, _on_pass)
            _progress(f"{consistency}: schedule {number + 1:,} of {options.schedules:,}, {fenced:,} fenced")
        missed = sorted(set(POINTS) - set(ended))
        line = (
            f"seed {options.seed}, {consistency}: {sum(ended.values()):,} crashes over {options.histories:,} histories at "
            f"{len(ended)} of {len(POINTS)} failpoints{f' (not {missed})' if missed else ''}, {sum(writes.values()):,} commits "
            f"of {len(writes)} kinds; {options.schedules:,} schedules of two or three runs, {fenced:,} runs fenced; "
            f"0 lost, 0 doubled, 0 torn; {time.process_time() - began:,.0f} CPU s"
        )
        print(f"\r{line}")
        if options.out:
            with options.out.open("a") as out:
                out.write(line + "\n")


@contextmanager
def _named(seed: int, consistency: str, kind: str, number: int) -> Iterator[Random]:
    """The random numbers of one history or schedule; a failure names what repeats them."""
    text = f"{seed} {consistency} {kind} {number}"
    try:
        yield Random(text)
    except BaseException as error:
        error.add_note(f"Random({text!r})")
        raise


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr)


if __name__ == "__main__":
    main()
