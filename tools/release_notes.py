#!/usr/bin/env python3
"""Prints the release notes of a version: `release_notes.py 0.1.0`. They are its section of CHANGELOG.md.

Exits with 1 if the section is missing or has no date, or if a file has another version.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The files that contain the version, and the line that does.
VERSIONS = {
    "pyproject.toml": r'^version = "(.+)"$',
    "src/changefeed/__init__.py": r'^__version__ = "(.+)"$',
    "kernel/pyproject.toml": r'^version = "(.+)"$',
    "kernel/Cargo.toml": r'^version = "(.+)"$',
    "kernel/Cargo.lock": r'^name = "changefeed-kernel"\nversion = "(.+)"$',
    "deploy/Dockerfile": r'image\.version="(.+)"',
    "deploy/compose/compose.yaml": r"image: changefeed:(.+)$",
    "deploy/kubernetes/kustomization.yaml": r"newTag: (.+)$",
    "deploy/helm/changefeed/Chart.yaml": r"^version: (.+)$",
}


def notes(changelog: str, version: str) -> str:
    """Returns the section of a version, without its heading.

    Raises:
        ValueError: there is no section `## [version] - YYYY-MM-DD`.
    """
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    section = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError(f"CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD`")
    return f"{section[1].strip()}\n"


def others(version: str, root: Path = ROOT) -> Iterator[str]:
    """Yields a message for each file that has another version."""
    for name, line in VERSIONS.items():
        match = re.search(line, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if match is None or match[1] != version:
            yield f"{name} has version {match[1] if match else 'none'}, not {version}"


def main(args: list[str]) -> int:
    """Prints the notes on stdout, or the problems on stderr."""
    if len(args) != 1:
        print("usage: release_notes.py VERSION", file=sys.stderr)
        return 2
    if problems := list(others(args[0])):
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    try:
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), args[0]), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
