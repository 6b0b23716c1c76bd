#!/usr/bin/env python3
"""The kernel's files name the Python they mirror: `check_mirrors.py` prints those that do not, and exits with 1 if there are any.

Rule 1. The first line of a file in kernel/src is `//! Mirrors wire/cursor.py: …`, with every file that it does the same as, or
        `//! Kernel only: …` where Python has no such thing. Tests and lib.rs have neither.
Rule 2. The files that it names are in src/changefeed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL, PYTHON = ROOT / "kernel" / "src", ROOT / "src" / "changefeed"
_FIRST = re.compile(r"//! (?:Mirrors (?P<files>[\w/]+\.py(?:, [\w/]+\.py)*)|Kernel only): \S")


def main() -> int:
    """Prints the findings on stderr; exit code 1 if there are any."""
    findings = [
        f"{path.relative_to(ROOT)}:1: {finding}"
        for path in sorted(KERNEL.rglob("*.rs"))
        if path.name not in ("tests.rs", "lib.rs")
        for finding in findings_in(path.read_text(encoding="utf-8"))
    ]
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


def findings_in(text: str) -> Iterator[str]:
    """Both rules, for the text of a Rust file."""
    match = _FIRST.match(text)
    if match is None:
        yield "begin with `//! Mirrors <file>.py: …` or `//! Kernel only: …`"
        return
    for name in (match["files"] or "").split(", "):
        if name and not (PYTHON / name).is_file():
            yield f"src/changefeed/{name} does not exist"


if __name__ == "__main__":
    sys.exit(main())
